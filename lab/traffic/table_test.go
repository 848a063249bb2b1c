package traffic

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slice makes an EndpointSlice of service shop/web; states are by address, see conditionsOf.
func slice(name string, ports map[string]int32, states map[string]string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for port, number := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &port, Port: &number})
	}
	for address, state := range states {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: conditionsOf(state)})
	}
	return s
}

func conditionsOf(state string) discoveryv1.EndpointConditions {
	c := func(ready, serving, terminating bool) discoveryv1.EndpointConditions {
		return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
	}
	switch state {
	case "ready":
		return c(true, true, false)
	case "unready":
		return c(false, false, false)
	case "terminating":
		return c(false, true, true)
	case "failing": // terminating and no longer serving
		return c(false, false, true)
	}
	return discoveryv1.EndpointConditions{} // unset means ready
}

func TestPick(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	http := map[string]int32{"": 8080}
	for name, test := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		port   string
		// want are the picks in order; empty for no endpoint.
		want []string
	}{
		"no slice": {want: []string{"", ""}},
		"ready ones in turn, over all slices": {
			slices: []*discoveryv1.EndpointSlice{
				slice("a", http, map[string]string{"10.0.0.1": "ready", "10.0.0.2": "unready"}),
				slice("b", http, map[string]string{"10.0.0.3": "unset"}),
			},
			want: []string{"10.0.0.1:8080", "10.0.0.3:8080", "10.0.0.1:8080"},
		},
		"terminating ones take none while one is ready": {
			slices: []*discoveryv1.EndpointSlice{slice("a", http, map[string]string{"10.0.0.1": "terminating", "10.0.0.2": "ready"})},
			want:   []string{"10.0.0.2:8080", "10.0.0.2:8080"},
		},
		"terminating ones that serve take all when none is ready": {
			slices: []*discoveryv1.EndpointSlice{slice("a", http, map[string]string{
				"10.0.0.1": "terminating", "10.0.0.2": "failing", "10.0.0.3": "unready",
			})},
			want: []string{"10.0.0.1:8080", "10.0.0.1:8080"},
		},
		"none serves": {
			slices: []*discoveryv1.EndpointSlice{slice("a", http, map[string]string{"10.0.0.1": "failing", "10.0.0.2": "unready"})},
			want:   []string{""},
		},
		"port by name": {
			slices: []*discoveryv1.EndpointSlice{slice("a", map[string]int32{"web": 80, "metrics": 9090}, map[string]string{"10.0.0.1": "ready"})},
			port:   "metrics", want: []string{"10.0.0.1:9090"},
		},
		"first port by name": {
			slices: []*discoveryv1.EndpointSlice{slice("a", map[string]int32{"web": 80, "metrics": 9090}, map[string]string{"10.0.0.1": "ready"})},
			want:   []string{"10.0.0.1:9090"},
		},
		"no such port": {
			slices: []*discoveryv1.EndpointSlice{slice("a", http, map[string]string{"10.0.0.1": "ready"})},
			port:   "metrics", want: []string{""},
		},
		"a port that only one pod has": {
			slices: []*discoveryv1.EndpointSlice{
				slice("a", map[string]int32{"web": 80}, map[string]string{"10.0.0.1": "ready"}),
				slice("b", map[string]int32{"web": 8080, "new": 9090}, map[string]string{"10.0.0.2": "ready"}),
			},
			port: "new", want: []string{"10.0.0.2:9090", "10.0.0.2:9090"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable()
			for _, s := range test.slices {
				table.set(s)
			}
			var got []string
			for range test.want {
				_, hostPort, ok := table.pick(key, test.port)
				if ok != (hostPort != "") {
					t.Fatalf("pick says %q and %v", hostPort, ok)
				}
				got = append(got, hostPort)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("picks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTableFollowsChanges(t *testing.T) {
	table := newTable()
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	table.set(slice("a", map[string]int32{"": 80}, map[string]string{"10.0.0.1": "ready"}))
	table.set(slice("a", map[string]int32{"": 80}, map[string]string{"10.0.0.2": "ready"}))
	v6 := slice("c", map[string]int32{"": 80}, map[string]string{"fd00::1": "ready"})
	v6.AddressType = discoveryv1.AddressTypeIPv6
	table.set(v6)
	if _, got, _ := table.pick(key, ""); got != "10.0.0.2:80" {
		t.Errorf("after the change requests go to %q, want 10.0.0.2:80", got)
	}
	table.remove(slice("a", nil, nil))
	if _, got, ok := table.pick(key, ""); ok {
		t.Errorf("after the deletion requests go to %q, want none", got)
	}
}
