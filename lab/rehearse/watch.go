package rehearse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segue-dev/segue/lab/scenario"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var nodeClaimResource = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}

// watch feeds a record from the API server until ctx ends, in goroutines of playing. It returns when everything that
// exists has been seen. Kinds that are not installed are left out.
func watch(ctx context.Context, cfg *rest.Config, namespace string, r *record, playing *sync.WaitGroup) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make a client for the recorder: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make a client for the recorder: %w", err)
	}
	cluster := informers.NewSharedInformerFactory(client, 0)
	inside := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	custom := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)

	all := []cache.SharedInformer{
		observe(cluster.Core().V1().Nodes().Informer(), r.node, func(at time.Time, n *corev1.Node) { r.nodeGone(at, n.Name) }),
		observe(inside.Core().V1().Pods().Informer(), r.pod, r.podGone),
		observe(inside.Apps().V1().ReplicaSets().Informer(), func(at time.Time, rs *appsv1.ReplicaSet) { r.replicaSet(at, rs.UID, rs.Name) }, nil),
		observe(inside.Discovery().V1().EndpointSlices().Informer(),
			func(at time.Time, s *discoveryv1.EndpointSlice) { r.slice(at, s, false) },
			func(at time.Time, s *discoveryv1.EndpointSlice) { r.slice(at, s, true) }),
		observe(cluster.Core().V1().Events().Informer(), eventsSince(time.Now(), namespace, r), nil),
	}
	installed, err := installedKinds(client)
	if err != nil {
		return err
	}
	if installed[nodeClaimResource] {
		all = append(all, observe(custom.ForResource(nodeClaimResource).Informer(),
			func(at time.Time, u *unstructured.Unstructured) { r.nodeClaim(at, u.GetName()) },
			func(at time.Time, u *unstructured.Unstructured) { r.nodeClaimGone(at, u.GetName()) }))
	}
	if installed[scenario.HandoverResource] {
		all = append(all, observe(custom.ForResource(scenario.HandoverResource).Informer(), handoversIn(namespace, r), nil))
	}
	cluster.Start(ctx.Done())
	inside.Start(ctx.Done())
	custom.Start(ctx.Done())
	for _, shutdown := range []func(){cluster.Shutdown, inside.Shutdown, custom.Shutdown} {
		playing.Go(func() {
			<-ctx.Done()
			shutdown()
		})
	}
	for _, informer := range all {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("start the recorder: %w", context.Cause(ctx))
		}
	}
	return nil
}

// observe calls seen for every state of an object and gone when it is deleted; gone may be nil.
func observe[T any](informer cache.SharedIndexInformer, seen, gone func(time.Time, T)) cache.SharedInformer {
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen(time.Now(), o.(T)) },
		UpdateFunc: func(_, o any) { seen(time.Now(), o.(T)) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			if t, ok := o.(T); ok && gone != nil {
				gone(time.Now(), t)
			}
		},
	}
	// It fails only for an informer that has been stopped, and this one has not been started.
	_, _ = informer.AddEventHandler(handler)
	return informer
}

func installedKinds(client kubernetes.Interface) (map[schema.GroupVersionResource]bool, error) {
	installed := map[schema.GroupVersionResource]bool{}
	groups, err := client.Discovery().ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	for _, gvr := range []schema.GroupVersionResource{nodeClaimResource, scenario.HandoverResource} {
		i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == gvr.Group })
		if i < 0 {
			continue
		}
		list, err := client.Discovery().ServerResourcesForGroupVersion(gvr.GroupVersion().String())
		if err != nil {
			return nil, fmt.Errorf("ask the API server for the kinds of %s: %w", gvr.GroupVersion(), err)
		}
		installed[gvr] = slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gvr.Resource })
	}
	return installed, nil
}

// eventsSince notes the events of Karpenter and Segue that are about the namespace or about cluster objects.
func eventsSince(start time.Time, namespace string, r *record) func(time.Time, *corev1.Event) {
	start = start.Truncate(time.Second) // events are stamped in seconds
	return func(at time.Time, e *corev1.Event) {
		source := e.Source.Component + " " + e.ReportingController
		if !strings.Contains(source, "karpenter") && !strings.Contains(source, "segue") || e.CreationTimestamp.Time.Before(start) {
			return
		}
		if ns := e.InvolvedObject.Namespace; ns != "" && ns != namespace {
			return
		}
		r.event(at, strings.ToLower(e.InvolvedObject.Kind)+"/"+e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

func handoversIn(namespace string, r *record) func(time.Time, *unstructured.Unstructured) {
	return func(at time.Time, u *unstructured.Unstructured) {
		if u.GetNamespace() != namespace {
			return
		}
		pod, _, _ := unstructured.NestedString(u.Object, "spec", "pod", "name")
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		message, _, _ := unstructured.NestedString(u.Object, "status", "message")
		r.handover(at, u.GetUID(), u.GetName(), pod, phase, message)
	}
}
