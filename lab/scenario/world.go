package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/segue-dev/segue/internal/view"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	corev1 "k8s.io/api/core/v1"
)

// Traffic sends the requests of a scenario's `load` steps.
type Traffic interface {
	// Load starts to send requests to a Service of the scenario's namespace, at a fixed rate per second, until the end of
	// the run. It returns an error when the Service does not exist.
	Load(ctx context.Context, service string, rate int, path string) error
}

// Faults breaks parts of the lab; a component is named as package controlplane names it, or `segue`.
type Faults interface {
	// Kill ends a component with SIGKILL.
	Kill(component string) error
	// Restart ends a component with SIGKILL, starts it again and returns when it is ready.
	Restart(ctx context.Context, component string) error
}

// Observer is told what a script does that cannot be seen in the cluster.
type Observer interface {
	// Measure marks the moment from which counts and times are taken.
	Measure()
	// NodeAdded says that the script itself made a node, so that it is not counted as launched.
	NodeAdded(node string)
	// Drained says how a drain ended: err is nil when every pod was gone.
	Drained(node string, err error)
}

// World is where a scenario is played. Make one with NewWorld for every run and set its hooks.
type World struct {
	// Namespace is where objects without a namespace go and where names without one are looked for.
	Namespace string
	Mode      view.Mode
	Client    kubernetes.Interface
	Dynamic   dynamic.Interface
	Traffic   Traffic
	Faults    Faults
	Observer  Observer

	scenario *Scenario
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	vars     map[string]string
	applied  []appliedObject // by the script, in their order
	nodes    []string
}

type appliedObject struct {
	resource  schema.GroupVersionResource
	namespace string
	name      string
}

// NewWorld returns a World on the cluster of cfg.
func NewWorld(cfg *rest.Config, namespace string, mode view.Mode) (*World, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client for the lab: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client for the lab: %w", err)
	}
	return &World{
		Namespace: namespace,
		Mode:      mode,
		Client:    client,
		Dynamic:   dyn,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		vars:      map[string]string{},
	}, nil
}

// Clean removes what the script applied, newest first, so that what is inside goes before what holds it. Pods and what
// else belongs to these objects may take a while longer.
func (w *World) Clean(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	for _, o := range slices.Backward(w.applied) {
		err := w.Dynamic.Resource(o.resource).Namespace(o.namespace).Delete(ctx, o.name, metav1.DeleteOptions{PropagationPolicy: &background})
		if ignoreNotFound(err) != nil {
			return fmt.Errorf("clean up %s %q: %w", o.resource.Resource, o.name, err)
		}
	}
	return nil
}

// CleanNodes removes the nodes that the script made.
func (w *World) CleanNodes(ctx context.Context) error {
	for _, name := range w.nodes {
		if err := w.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
			return fmt.Errorf("clean up node %q: %w", name, err)
		}
	}
	return nil
}

// resource finds the resource of a kind and whether it is namespaced. Kinds may have been added since the last look.
func (w *World) resource(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		w.mapper.Reset()
		mapping, err = w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	return mapping, err
}

// client returns the client for an object that a step names, and the object's name.
func (w *World) client(o objectRef) (dynamic.ResourceInterface, string, error) {
	resource, err := w.mapper.ResourceFor(schema.GroupVersionResource{Resource: o.kind})
	if meta.IsNoMatchError(err) {
		w.mapper.Reset()
		resource, err = w.mapper.ResourceFor(schema.GroupVersionResource{Resource: o.kind})
	}
	if err != nil {
		return nil, "", fmt.Errorf("kind %q: %w", o.kind, err)
	}
	kind, err := w.mapper.KindFor(resource)
	if err != nil {
		return nil, "", fmt.Errorf("kind %q: %w", o.kind, err)
	}
	mapping, err := w.resource(kind)
	if err != nil {
		return nil, "", fmt.Errorf("kind %q: %w", o.kind, err)
	}
	name := w.resolve(o.name)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return w.Dynamic.Resource(mapping.Resource), name, nil
	}
	return w.Dynamic.Resource(mapping.Resource).Namespace(w.Namespace), name, nil
}

func (w *World) get(ctx context.Context, o objectRef) (*unstructured.Unstructured, error) {
	client, name, err := w.client(o)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, name, metav1.GetOptions{})
}

// pods returns the pods of a workload that are not terminating.
func (w *World) pods(ctx context.Context, o objectRef) ([]corev1.Pod, error) {
	workload, err := w.get(ctx, o)
	if err != nil {
		return nil, err
	}
	match, found, err := unstructured.NestedStringMap(workload.Object, "spec", "selector", "matchLabels")
	if err != nil || !found {
		return nil, fmt.Errorf("%s has no spec.selector.matchLabels", o)
	}
	list, err := w.Client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(match).String()})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// pollInterval is how often a condition is looked at; the lab's API server answers in about a millisecond.
const pollInterval = 50 * time.Millisecond

// Missed says that a condition was not reached in time.
type Missed struct {
	Condition string
	Within    time.Duration
	// Last is what was seen at the last look.
	Last string
}

func (m *Missed) Error() string {
	return fmt.Sprintf("%s: not within %s; last seen: %s", m.Condition, m.Within, m.Last)
}

// poll looks until look says done, and returns *Missed when that does not happen within the time. An error of look ends
// it at once.
func poll(ctx context.Context, condition string, within time.Duration, look func(context.Context) (done bool, last string, err error)) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		done, last, err := look(ctx)
		if err != nil {
			return err
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return &Missed{Condition: condition, Within: within, Last: last}
		case <-tick.C:
		}
	}
}
