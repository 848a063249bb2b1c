package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/drain"
)

// nodeAction makes nodes that KWOK plays and waits until they are Ready.
type nodeAction struct {
	names    []string
	capacity corev1.ResourceList
}

// nodeReadyWithin is how long KWOK has for a new node; it needs well under a second.
const nodeReadyWithin = 30 * time.Second

func parseNode(_ *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(1, -1, "cpu", "memory"), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	n := nodeAction{names: a.words, capacity: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}}
	for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "32Gi"} {
		if s, ok := a.options[string(name)]; ok {
			value = s
		}
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", name, value, err)
		}
		n.capacity[name] = q
	}
	return n, nil
}

func (n nodeAction) Do(ctx context.Context, w *World) error {
	for _, name := range n.names {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name,
				Labels: map[string]string{
					corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
					"type": "kwok",
				},
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			},
			Status: corev1.NodeStatus{Capacity: n.capacity, Allocatable: n.capacity},
		}
		w.Observer.NodeAdded(name)
		if _, err := w.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
		w.nodes = append(w.nodes, name)
	}
	for _, name := range n.names {
		ready := func(ctx context.Context) (bool, string, error) {
			node, err := w.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return nodeReady(node), fmt.Sprintf("conditions %v", node.Status.Conditions), nil
		}
		if err := poll(ctx, fmt.Sprintf("node %q Ready", name), nodeReadyWithin, ready); err != nil {
			return err
		}
	}
	return nil
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// drainAction cordons and drains a node with kubectl's own library.
type drainAction struct {
	node    ref
	timeout time.Duration
}

const (
	defaultDrainTimeout = time.Minute
	// evictRetryDelay is what kubectl sets; the library's zero value is a busy loop.
	evictRetryDelay = 5 * time.Second
)

func parseDrain(p *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(1, 1, "timeout"), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	node, err := p.ref(a.words[0])
	if err != nil {
		return nil, err
	}
	d := drainAction{node: node, timeout: defaultDrainTimeout}
	if s, ok := a.options["timeout"]; ok {
		if d.timeout, err = parseDuration(s); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Do returns when the drain has finished or given up. A drain that did not finish is an outcome that expectations can
// ask for (drains.failed), not an error of the step.
func (d drainAction) Do(ctx context.Context, w *World) error {
	name := w.resolve(d.node)
	node, err := w.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	helper := &drain.Helper{
		Ctx: ctx, Client: w.Client, GracePeriodSeconds: -1, Timeout: d.timeout, EvictErrorRetryDelay: evictRetryDelay,
		IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, Out: io.Discard, ErrOut: io.Discard,
	}
	if err := drain.RunCordonOrUncordon(helper, node, true); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- drain.RunNodeDrain(helper, name) }()
	select {
	case <-ctx.Done(): // the library may still sleep between two tries; it ends with ctx
		return context.Cause(ctx)
	case err := <-done:
		w.Observer.Drained(name, err)
		return nil
	}
}
