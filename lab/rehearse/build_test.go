package rehearse

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segue-dev/segue/internal/view"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var zero = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// at is a moment in seconds since the step `measure` of the recorded story.
func at(seconds float64) time.Time {
	return zero.Add(time.Duration(seconds * float64(time.Second)))
}

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelInstanceTypeStable: "lab.2x", "karpenter.sh/nodepool": "default"}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func servedPod(name, nodeName string, ready, deleted bool) *corev1.Pod {
	isController := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Annotations: map[string]string{serveAnnotation: "true"},
			Labels:          map[string]string{"pod-template-hash": "abc"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-abc", Controller: &isController}},
		},
		Spec: corev1.PodSpec{NodeName: nodeName},
	}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	if deleted {
		p.DeletionTimestamp = &metav1.Time{Time: zero}
	}
	return p
}

func endpoints(ready ...bool) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
	for i := range ready {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: &ready[i]}})
	}
	return s
}

// consolidation is the record of a one-replica Deployment whose node is consolidated: 4 s without an endpoint.
func consolidation() *record {
	disrupted := corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}
	r := newRecord()
	r.nodeClaim(at(-20), "claim-1")
	r.node(at(-20), node("staying"))
	r.node(at(-10), node("leaving", corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}))
	r.node(at(-9), node("leaving"))
	r.pod(at(-8.5), servedPod("web-old", "", false, false))
	r.replicaSet(at(-8.5), "rs-1", "web-abc")
	r.slice(at(-8.4), endpoints(false), false)
	r.pod(at(-8), servedPod("web-old", "leaving", false, false))
	r.pod(at(-3), servedPod("web-old", "leaving", true, false))
	r.slice(at(-3), endpoints(true), false)
	r.step(at(0), "measure")
	r.measure(at(0))
	r.node(at(1), node("leaving", disrupted))
	deleting := node("leaving", disrupted)
	deleting.DeletionTimestamp = &metav1.Time{Time: zero}
	r.node(at(1.1), deleting)
	r.event(at(1.1), "node/leaving", "DisruptionTerminating", "Disrupting Node: Underutilized")
	r.event(at(1.2), "node/leaving", "DisruptionTerminating", "Disrupting Node: Underutilized") // said once
	r.pod(at(1.3), servedPod("web-old", "leaving", true, true))
	r.slice(at(1.5), endpoints(false), false)
	r.handover(at(1.55), "h-1", "web-old-1", "web-old", "Pending", "")
	r.handover(at(1.56), "h-1", "web-old-1", "web-old", "Waiting", "for the replacement")
	r.pod(at(1.6), servedPod("web-new", "staying", false, false))
	r.podGone(at(2.3), servedPod("web-old", "leaving", false, true))
	r.pod(at(5.4), servedPod("web-new", "staying", true, false))
	r.slice(at(5.5), endpoints(true), false)
	r.nodeGone(at(6.4), "leaving")
	// the audit log is read at the end
	r.eviction(answer{at: at(1.15), pod: "web-old", user: "karpenter", code: 429, message: "not yet"})
	r.eviction(answer{at: at(1.25), pod: "web-old", user: "karpenter", code: 201, message: "answered 201"})
	r.eviction(answer{at: at(2.5), pod: "web-old", user: "karpenter", code: 404, message: "not found"})
	return r
}

func TestBuildGolden(t *testing.T) {
	requests := []request{
		{at: at(-0.1), service: "web", failed: true, cause: "before"},
		{at: at(0.5), service: "web"},
		{at: at(2), service: "web", failed: true, cause: "no-endpoints"},
		{at: at(9.5), service: "web", failed: true, cause: "after"},
	}
	run := consolidation().build(view.ModeStock, at(9), requests)
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", " ")
	if err := enc.Encode(run); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "run.golden.json")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run (-want +got), rewrite with -update:\n%s", diff)
	}
}

func TestBuildCounts(t *testing.T) {
	tests := []struct {
		name   string
		record func() *record
		want   view.Run
	}{
		{"consolidation", consolidation, view.Run{DowntimeSeconds: 4, DrainSeconds: 5.4, PodsStarted: 1, NodesGone: 1, Handovers: 1}},
		{"nothing measured", func() *record {
			r := newRecord()
			r.slice(at(1), endpoints(), false)
			r.node(at(1), node("a"))
			r.pod(at(1), servedPod("web-1", "a", true, false))
			r.nodeGone(at(2), "a")
			return r
		}, view.Run{}},
		{"downtime before measure does not count, one that lasts does", func() *record {
			r := newRecord()
			r.slice(at(-5), endpoints(), false)
			r.measure(at(0))
			r.slice(at(2), endpoints(true), false)
			r.slice(at(7), endpoints(true), true)
			return r
		}, view.Run{DowntimeSeconds: 4}},
		{"a drain that finished lasts until the last pod was gone", func() *record {
			r := newRecord()
			r.node(at(-1), node("a"))
			r.pod(at(-1), servedPod("web-1", "a", true, false))
			r.measure(at(0))
			cordoned := node("a")
			cordoned.Spec.Unschedulable = true
			r.node(at(1), cordoned)
			r.podGone(at(3), servedPod("web-1", "a", true, true))
			r.drained(at(4), "a", nil)
			return r
		}, view.Run{DrainSeconds: 2}},
		{"a drain that failed lasts until the end", func() *record {
			r := newRecord()
			r.node(at(-1), node("a"))
			r.measure(at(0))
			cordoned := node("a")
			cordoned.Spec.Unschedulable = true
			r.node(at(1), cordoned)
			r.drained(at(4), "a", errors.New("timeout"))
			return r
		}, view.Run{DrainSeconds: 8}},
		{"launched nodes and revisions count from measure, the script's own nodes never", func() *record {
			r := newRecord()
			own := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
			r.nodeClaim(at(-1), "claim-1")
			r.replicaSet(at(-1), "rs-1", "web-1")
			r.measure(at(0))
			r.nodeClaim(at(1), "claim-1")
			r.nodeClaim(at(1), "claim-2")
			r.node(at(2), node("of-claim-2"))
			r.ownNode("own")
			r.node(at(3), own)
			r.node(at(3), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}})
			r.replicaSet(at(3), "rs-1", "web-1")
			r.replicaSet(at(3), "rs-2", "web-2")
			return r
		}, view.Run{NodesLaunched: 2, RevisionsCreated: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.record().build(view.ModeStock, at(9), nil)
			numbers := view.Run{
				DowntimeSeconds: got.DowntimeSeconds, DrainSeconds: got.DrainSeconds, PodsStarted: got.PodsStarted,
				RevisionsCreated: got.RevisionsCreated, NodesLaunched: got.NodesLaunched, NodesGone: got.NodesGone, Handovers: got.Handovers,
			}
			if diff := cmp.Diff(tt.want, numbers); diff != "" {
				t.Errorf("numbers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseAnswers(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := parseAnswers(f)
	if err != nil {
		t.Fatal(err)
	}
	want := []answer{
		{at: time.Date(2026, 11, 30, 12, 0, 1, 250000000, time.UTC), namespace: "shop", pod: "web-1", user: "karpenter", code: 201, message: "answered 201"},
		{at: time.Date(2026, 11, 30, 12, 0, 2, 0, time.UTC), namespace: "shop", pod: "web-2", user: "admin", code: 429, message: "the replacement is not ready"},
		{at: time.Date(2026, 11, 30, 12, 0, 3, 0, time.UTC), namespace: "shop", pod: "web-2", user: "admin", code: 201, dryRun: true, message: "answered 201"},
		{at: time.Date(2026, 11, 30, 12, 0, 4, 0, time.UTC), namespace: "shop", pod: "web-2", user: "admin", code: 201, dryRun: true, message: "answered 201"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if _, err := parseAnswers(bytes.NewBufferString("{")); err == nil {
		t.Error("half an entry: no error")
	}
}
