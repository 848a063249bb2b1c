package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// defaultWithin is how long a `wait` without `within` has.
const defaultWithin = time.Minute

// look looks at a condition once and says in words what it saw.
type look func(ctx context.Context, w *World) (done bool, last string, err error)

// waitAction polls a condition until it holds.
type waitAction struct {
	condition string
	within    time.Duration
	look      look
}

// condition is a word that may follow `wait`.
type condition struct {
	name  string
	usage string
	parse func(p *parser, words []string) (look, error)
	words [2]int // least and most words after the name
}

// conditions is the complete list, in the order of the documentation.
var conditions = []condition{
	{"available", "wait available KIND/NAME", waitAvailable, [2]int{1, 1}},
	{"pods", "wait pods KIND/NAME NUMBER", waitPods, [2]int{2, 2}},
	{"endpoints", "wait endpoints SERVICE NUMBER", waitEndpoints, [2]int{2, 2}},
	{"tainted", "wait tainted NODE [TAINT]", waitTainted, [2]int{1, 2}},
	{"gone", "wait gone KIND/NAME", waitGone, [2]int{1, 1}},
	{"nodes", "wait nodes NUMBER", waitNodes, [2]int{1, 1}},
	{"handovers", "wait handovers NUMBER", waitHandovers, [2]int{1, 1}},
}

func conditionNames() []string {
	names := make([]string, len(conditions))
	for i, c := range conditions {
		names[i] = c.name
	}
	return names
}

func parseWait(p *parser, a args) (Action, error) {
	if err := a.expect(1, -1); err != nil {
		return nil, err
	}
	name, words := a.words[0], a.words[1:]
	i := slices.IndexFunc(conditions, func(c condition) bool { return c.name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown condition %q", name)
	}
	c := conditions[i]
	if len(words) < c.words[0] || len(words) > c.words[1] {
		return nil, fmt.Errorf("write `%s`", c.usage)
	}
	look, err := c.parse(p, words)
	if err != nil {
		return nil, err
	}
	w := waitAction{condition: strings.Join(a.words, " "), within: a.within, look: look}
	if w.within == 0 {
		w.within = defaultWithin
	}
	return w, nil
}

func (a waitAction) Do(ctx context.Context, w *World) error {
	return poll(ctx, a.condition, a.within, func(ctx context.Context) (bool, string, error) { return a.look(ctx, w) })
}

// waitAvailable holds when the rollout is complete: every replica is of the newest revision and Available, and no pod of
// an older one is left in the count. This is what `kubectl rollout status` and GitOps controllers call healthy.
func waitAvailable(p *parser, words []string) (look, error) {
	object, err := p.objectRef(words[0])
	return func(ctx context.Context, w *World) (bool, string, error) {
		u, err := w.get(ctx, object)
		if apierrors.IsNotFound(err) {
			return false, "it does not exist", nil
		}
		if err != nil {
			return false, "", err
		}
		want, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		if !found {
			want = 1
		}
		status := func(field string) int64 {
			n, _, _ := unstructured.NestedInt64(u.Object, "status", field)
			return n
		}
		replicas, updated, available := status("replicas"), status("updatedReplicas"), status("availableReplicas")
		last := fmt.Sprintf("%d of %d replicas available, %d updated, %d in all", available, want, updated, replicas)
		done := status("observedGeneration") >= u.GetGeneration() && replicas == want && updated == want && available == want
		return done, last, nil
	}, err
}

// waitPods holds when the workload has exactly that many pods that are not terminating.
func waitPods(p *parser, words []string) (look, error) {
	object, objectErr := p.objectRef(words[0])
	want, countErr := parseCount(words[1])
	return func(ctx context.Context, w *World) (bool, string, error) {
		pods, err := w.pods(ctx, object)
		return len(pods) == want, plural(len(pods), "pod"), err
	}, errors.Join(objectErr, countErr)
}

// waitEndpoints holds when the Service has exactly that many ready endpoints.
func waitEndpoints(_ *parser, words []string) (look, error) {
	service := words[0]
	want, err := parseCount(words[1])
	return func(ctx context.Context, w *World) (bool, string, error) {
		slices, err := w.Client.DiscoveryV1().EndpointSlices(w.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + service,
		})
		if err != nil {
			return false, "", err
		}
		ready := 0
		for _, slice := range slices.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					ready++
				}
			}
		}
		return ready == want, plural(ready, "ready endpoint"), nil
	}, err
}

// DisruptedTaint is the key of the taint that Karpenter puts on a node that it is about to remove.
const DisruptedTaint = "karpenter.sh/disrupted"

// waitTainted holds when the node carries the taint, Karpenter's if none is named, or is gone already.
func waitTainted(p *parser, words []string) (look, error) {
	node, err := p.ref(words[0])
	key := DisruptedTaint
	if len(words) == 2 {
		key = words[1]
	}
	return func(ctx context.Context, w *World) (bool, string, error) {
		n, err := w.Client.CoreV1().Nodes().Get(ctx, w.resolve(node), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		keys := []string{}
		for _, t := range n.Spec.Taints {
			keys = append(keys, t.Key)
		}
		return slices.Contains(keys, key), fmt.Sprintf("taints %v", keys), nil
	}, err
}

func waitGone(p *parser, words []string) (look, error) {
	object, err := p.objectRef(words[0])
	return func(ctx context.Context, w *World) (bool, string, error) {
		u, err := w.get(ctx, object)
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		last := "it exists"
		if t := u.GetDeletionTimestamp(); t != nil {
			last = "it is being deleted, finalizers " + strings.Join(u.GetFinalizers(), ", ")
		}
		return false, last, nil
	}, err
}

// waitNodes holds when the cluster has exactly that many Ready nodes.
func waitNodes(_ *parser, words []string) (look, error) {
	want, err := parseCount(words[0])
	return func(ctx context.Context, w *World) (bool, string, error) {
		nodes, err := w.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		ready := slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return !nodeReady(&n) })
		return len(ready) == want, plural(len(ready), "Ready node"), nil
	}, err
}

// HandoverResource is the resource of Segue's Handover.
var HandoverResource = schema.GroupVersionResource{Group: "segue.dev", Version: "v1alpha1", Resource: "handovers"}

// waitHandovers holds when exactly that many Handovers of the namespace are in phase Done.
func waitHandovers(_ *parser, words []string) (look, error) {
	want, err := parseCount(words[0])
	return func(ctx context.Context, w *World) (bool, string, error) {
		list, err := w.Dynamic.Resource(HandoverResource).Namespace(w.Namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return want == 0, "Segue's Handover is not installed", nil
		}
		if err != nil {
			return false, "", err
		}
		done, phases := 0, []string{}
		for _, h := range list.Items {
			phase, _, _ := unstructured.NestedString(h.Object, "status", "phase")
			phases = append(phases, phase)
			if phase == "Done" {
				done++
			}
		}
		return done == want, fmt.Sprintf("phases %v", phases), nil
	}, err
}
