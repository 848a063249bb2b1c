package play_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/segue-dev/segue/lab/traffic"
)

// deploy makes Deployment web out of the pod and waits until it is available.
func deploy(t *testing.T, ns string, pod *corev1.Pod, replicas int32) {
	t.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec,
			},
		},
	}
	if _, err := lab.client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRollout(t, ns)
}

// awaitRollout waits until all pods of Deployment web are new and available, and no other exists, not even terminating.
func awaitRollout(t *testing.T, ns string) {
	t.Helper()
	eventually(t, "deployment is rolled out", func() (any, bool) {
		d, err := lab.client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err, false
		}
		pods, err := lab.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err, false
		}
		s, want := d.Status, *d.Spec.Replicas
		return s, s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want && len(pods.Items) == int(want)
	})
}

// rollOut changes the pod template of Deployment web and waits until all is new.
func rollOut(t *testing.T, ns string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"release":%q}}}}}`, time.Now().Format(time.RFC3339Nano))
	if _, err := lab.client.AppsV1().Deployments(ns).Patch(t.Context(), "web", "application/strategic-merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRollout(t, ns)
}

// load sends 50 requests a second to Service web while during runs, through a balancer with the propagation delay, and
// returns the results.
func load(t *testing.T, ns string, delay time.Duration, during func()) []traffic.Result {
	t.Helper()
	b := traffic.NewBalancer(lab.cfg, lab.player, traffic.BalancerOptions{PropagationDelay: delay})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "balancer has a ready endpoint", func() (any, bool) {
		endpoints := b.Endpoints(ns, "web")
		return endpoints, len(endpoints) > 0 && endpoints[0].Ready
	})
	g, err := traffic.NewGenerator(b, traffic.GeneratorOptions{Namespace: ns, Service: "web", Rate: 50, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	during()
	had := g.Summary().Total
	eventually(t, "requests after the end", func() (any, bool) { return had, g.Summary().Total > had+10 })
	g.Stop()
	return g.Results()
}

// TestRollout shows what a rollout does to the requests that arrive until the load balancer has learnt of it.
func TestRollout(t *testing.T) {
	// The margins between the propagation delay and what is to outlast it leave 3.5 s for a machine that is busy.
	const delay = 500 * time.Millisecond
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []traffic.Cause
	}{
		"finish":              {pod: served("", "on-term", "finish", "stop-delay", "4s")},
		"close":               {pod: served("", "on-term", "close", "stop-delay", "4s"), want: []traffic.Cause{traffic.Refused}},
		"close after preStop": {pod: withPreStop(served("", "on-term", "close"), 4)},
	} {
		t.Run(name, func(t *testing.T) {
			node(t, "rollout")
			ns := namespace(t)
			createService(t, ns)
			deploy(t, ns, test.pod, 1)
			results := load(t, ns, delay, func() { rollOut(t, ns) })
			pods, causes := map[string]bool{}, map[traffic.Cause]bool{}
			failed := 0
			for _, r := range results {
				pods[r.Pod] = true
				if r.Failed() {
					failed++
					causes[r.Cause] = true
					t.Logf("%v: %s", r.Sent.Sub(results[0].Sent), r.Message)
				}
			}
			t.Logf("%d of %d requests failed", failed, len(results))
			var got []traffic.Cause
			for cause := range causes {
				got = append(got, cause)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("causes of failure (-want +got):\n%s", diff)
			}
			if len(pods) != 2 {
				t.Errorf("requests went to pods %v, want to the old and the new one", pods)
			}
		})
	}
}

// TestDeploymentBecomesAvailable is the cost of served pods too: 200 of them.
func TestDeploymentBecomesAvailable(t *testing.T) {
	node(t, "many")
	ns := namespace(t)
	begun := time.Now()
	deploy(t, ns, served("", "start-delay", "2s"), 200)
	took := time.Since(begun)
	t.Logf("200 served pods available after %v", took)
	if took < 2*time.Second {
		t.Errorf("available after %v, before the start delay was over", took)
	}
	pods, err := lab.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if answer, err := ask(&pods.Items[i]); err != nil || answer != pods.Items[i].Name {
			t.Errorf("pod %s answers %q, %v", pods.Items[i].Name, answer, err)
		}
	}
}

// TestEndpoints follows the endpoint of a pod from its start to its end. The start delay and the hook are long enough
// for a busy EndpointSlice controller, which tries again after a second when its cache is behind.
func TestEndpoints(t *testing.T) {
	node(t, "endpoints")
	ns := namespace(t)
	createService(t, ns)
	changes, err := lab.client.DiscoveryV1().EndpointSlices(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	last := awaitState(t, changes, "", "none")
	create(t, ns, withPreStop(served("web", "start-delay", "4s"), 4))
	last = awaitState(t, changes, last, "ready=false serving=false terminating=false")
	last = awaitState(t, changes, last, "ready=true serving=true terminating=false")
	deletePod(t, ns, "web", -1)
	last = awaitState(t, changes, last, "ready=false serving=true terminating=true")
	awaitState(t, changes, last, "none")
	awaitGone(t, ns, "web")
}

// awaitState waits for the state of the only endpoint of the slices after the last one, and returns it.
func awaitState(t *testing.T, changes watch.Interface, last, want string) string {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case e, ok := <-changes.ResultChan():
			if !ok {
				t.Fatalf("the watch ended while the endpoint was %s; want %s", last, want)
			}
			switch got := endpointState(e); got {
			case last:
			case want:
				return want
			default:
				t.Fatalf("after %s the endpoint is %s; want %s", last, got, want)
			}
		case <-timeout:
			t.Fatalf("the endpoint was %s for %v; want %s", last, patience, want)
		}
	}
}

func endpointState(e watch.Event) string {
	slice, ok := e.Object.(*discoveryv1.EndpointSlice)
	if !ok || len(slice.Endpoints) == 0 {
		return "none"
	}
	c := slice.Endpoints[0].Conditions
	return fmt.Sprintf("ready=%v serving=%v terminating=%v", *c.Ready, *c.Serving, *c.Terminating)
}
