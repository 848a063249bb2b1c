package play

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Options tune a Player.
type Options struct {
	// Log gets a line for what is worth knowing about a pod, for example a hook that is not played. nil is silent.
	Log *slog.Logger
}

// PodInfo is what a Player knows about one pod.
type PodInfo struct {
	Namespace, Name string
	UID             types.UID
	Node            string
	// IP is the address that the API server shows.
	IP string
	// State is that of the first container: starting, serving, draining (accepts no more) or exited; empty if the pod
	// cannot be played.
	State string
	// Stopping says that the pod is being stopped: its grace period runs.
	Stopping bool
	// Requests counts the requests that were answered, Cut those that were cut off by a kill.
	Requests, Cut int64
	// Open is the number of requests that are open now.
	Open int
}

// Player plays all served pods of a cluster. Its methods may be called from any goroutine.
type Player struct {
	client    kubernetes.Interface
	configErr error
	log       *slog.Logger
	addresses *addresses
	pods      cache.SharedIndexInformer
	nodes     cache.SharedIndexInformer
	playing   sync.WaitGroup

	mu     sync.Mutex
	actors map[types.UID]*actor
}

// New returns a Player for the cluster. Errors in the configuration come from Run.
func New(cfg *rest.Config, o Options) *Player {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "segue-lab-play"
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if cfg.QPS == 0 {
		cfg.QPS = -1 // it stands for many kubelets, each with its own limit
	}
	p := &Player{log: o.Log, addresses: newAddresses(), actors: map[types.UID]*actor{}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.client, p.configErr = kubernetes.NewForConfig(cfg); p.configErr != nil {
		return p
	}
	onNodes := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}
	p.pods = coreinformers.NewFilteredPodInformer(p.client, metav1.NamespaceAll, 0, nil, onNodes)
	p.nodes = coreinformers.NewNodeInformer(p.client, 0, nil)
	return p
}

// Address returns the loopback address where the pod with the address podIP listens for the port; false if nothing
// listens there, which a caller of the real pod would see as a refused connection.
func (p *Player) Address(podIP string, port int32) (addr string, ok bool) {
	return p.addresses.lookup(podIP, port)
}

// Pods returns the pods that are played now, by namespace and name.
func (p *Player) Pods() []PodInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pods []PodInfo
	for _, a := range p.actors {
		pods = append(pods, a.info())
	}
	slices.SortFunc(pods, func(a, b PodInfo) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return pods
}

// Run plays pods until the context ends, then ends all their servers at once and leaves their objects as they are: a
// later Player takes them over. A Player runs only once.
func (p *Player) Run(ctx context.Context) error {
	if p.configErr != nil {
		return fmt.Errorf("play pods: build a client: %w", p.configErr)
	}
	if err := errors.Join(p.pods.SetTransform(trimPod), p.nodes.SetTransform(trimNode)); err != nil {
		return fmt.Errorf("play pods: a Player runs only once, make a new one: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer p.playing.Wait()
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { p.nodes.Run(ctx.Done()) })
	watching.Go(func() { p.pods.Run(ctx.Done()) })
	if !cache.WaitForCacheSync(ctx.Done(), p.nodes.HasSynced, p.pods.HasSynced) {
		return nil // the context ended
	}
	for _, obj := range p.pods.GetStore().List() {
		p.addresses.reserve(obj.(*corev1.Pod).Status.PodIP)
	}
	_, err := p.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.podChanged(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { p.podChanged(ctx, obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) { p.podGone(obj) },
	})
	if err != nil {
		return fmt.Errorf("play pods: watch pods: %w", err)
	}
	_, err = p.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { p.nodeCame(ctx, obj.(*corev1.Node)) },
		UpdateFunc: func(before, obj any) {
			if before, now := before.(*corev1.Node), obj.(*corev1.Node); before.UID != now.UID {
				p.nodeGone(before)
				p.nodeCame(ctx, now)
			}
		},
		DeleteFunc: func(obj any) { p.nodeGone(obj) },
	})
	if err != nil {
		return fmt.Errorf("play pods: watch nodes: %w", err)
	}
	<-ctx.Done()
	return nil
}

// served says whether the pod is one of ours.
func served(pod *corev1.Pod) bool {
	return pod.Annotations[AnnotationServe] == "true" && pod.Spec.NodeName != "" && len(pod.Spec.Containers) > 0
}

// podChanged tells the pod's actor, or starts one if the pod is new, served, on a node that exists, and not over.
func (p *Player) podChanged(ctx context.Context, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, known := p.actors[pod.UID]; known {
		a.show(func(s *sighting) { s.pod = pod })
		return
	}
	if !served(pod) || ctx.Err() != nil {
		return
	}
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	obj, exists, _ := p.nodes.GetStore().GetByKey(pod.Spec.NodeName) // a store in memory has no errors
	if !exists || (over && pod.DeletionTimestamp == nil) {
		return
	}
	at, err := p.placeOf(pod, obj.(*corev1.Node))
	if err != nil {
		p.log.Error("pod cannot be played", "pod", pod.Namespace+"/"+pod.Name, "error", err)
		return
	}
	a := newActor(p.client, p.log, p.addresses, pod, at)
	a.seen.lost = over // an earlier player ended before it had deleted the pod
	p.actors[pod.UID] = a
	p.playing.Go(func() {
		a.run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.actors, pod.UID)
		p.addresses.release(at.podIP)
	})
}

// placeOf returns the pod's place: the address that it has from an earlier player, or a new one.
func (p *Player) placeOf(pod *corev1.Pod, node *corev1.Node) (place, error) {
	at := place{podIP: pod.Status.PodIP}
	for _, addr := range node.Status.Addresses {
		if addr.Type == corev1.NodeInternalIP && at.hostIP == "" {
			at.hostIP = addr.Address
		}
	}
	if at.podIP != "" {
		return at, nil
	}
	var err error
	at.podIP, err = p.addresses.allocate()
	return at, err
}

func (p *Player) podGone(obj any) {
	if last, missed := obj.(cache.DeletedFinalStateUnknown); missed {
		obj = last.Obj
	}
	pod := obj.(*corev1.Pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, known := p.actors[pod.UID]; known {
		// The version before stays: the one that comes with the event says nothing about how the pod was to stop.
		a.show(func(s *sighting) { s.gone = true })
	}
}

// nodeCame starts the pods that were bound to the node before it was seen.
func (p *Player) nodeCame(ctx context.Context, node *corev1.Node) {
	for _, obj := range p.pods.GetStore().List() {
		if pod := obj.(*corev1.Pod); pod.Spec.NodeName == node.Name {
			p.podChanged(ctx, pod)
		}
	}
}

func (p *Player) nodeGone(obj any) {
	if last, missed := obj.(cache.DeletedFinalStateUnknown); missed {
		obj = last.Obj
	}
	node := obj.(*corev1.Node)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.actors {
		a.mu.Lock()
		here := a.seen.pod.Spec.NodeName == node.Name
		a.mu.Unlock()
		if here {
			a.show(func(s *sighting) { s.lost = true })
		}
	}
}

// trimPod drops what is never read, so that ten thousand pods of KWOK beside the served ones cost little.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	if !served(pod) {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
			Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
			Status:     corev1.PodStatus{PodIP: pod.Status.PodIP},
		}, nil
	}
	pod.ManagedFields = nil
	return pod, nil
}

// trimNode keeps a node's identity and addresses.
func trimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses},
	}, nil
}
