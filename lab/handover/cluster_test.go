package handover_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/install"
)

// patience bounds every wait; it is long because other tests may have the machine.
const patience = 2 * time.Minute

// lab is the control plane with Segue that the tests of this package share; each has its own namespace and nodes.
var lab struct {
	cp       *controlplane.ControlPlane
	operator *install.Operator
	client   client.Client
	set      kubernetes.Interface
}

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 2
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	ctx := context.Background()
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = cp.Stop() }()
	lab.cp = cp
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return 0, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return 0, err
	}
	if lab.client, err = client.New(cp.Config(), client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	if lab.set, err = kubernetes.NewForConfig(cp.Config()); err != nil {
		return 0, err
	}
	if lab.operator, err = install.Install(ctx, cp, install.Options{Args: []string{"--max-wait=60s", "--settle=1s"}}); err != nil {
		return 0, err
	}
	defer func() { _ = lab.operator.Stop() }()
	return m.Run(), nil
}

// notInNames is what a name in the API cannot contain.
var notInNames = regexp.MustCompile("[^a-z0-9]+")

// benches numbers the namespaces, so that names that are cut stay different.
var benches atomic.Int32

// bench is one test's namespace and nodes.
type bench struct {
	*testing.T
	ctx       context.Context
	namespace string
	// pool is the label and the prefix of the test's nodes.
	pool string
}

// setUp makes a namespace with the given protection and as many nodes as there are names, which only its pods use.
func setUp(t *testing.T, protection v1alpha1.Protection, nodes ...string) *bench {
	t.Helper()
	name := notInNames.ReplaceAllString(strings.ToLower(t.Name()), "-")
	name = fmt.Sprintf("%s-%d", strings.Trim(name[:min(len(name), 40)], "-"), benches.Add(1))
	b := &bench{T: t, ctx: t.Context(), namespace: name, pool: name}
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace, Labels: map[string]string{v1alpha1.ProtectLabel: string(protection)}}})
	b.eventually("the default ServiceAccount exists", func() error {
		_, err := lab.set.CoreV1().ServiceAccounts(b.namespace).Get(b.ctx, "default", metav1.GetOptions{})
		return err
	})
	for _, n := range nodes {
		b.addNode(n)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_ = lab.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}})
		for _, n := range nodes {
			_ = lab.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.node(n)}})
		}
		if t.Failed() {
			data, _ := os.ReadFile(lab.operator.LogFile())
			lines := strings.Split(string(data), "\n")
			t.Logf("the end of the operator's log:\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
	return b
}

func (b *bench) node(name string) string { return b.pool + "-" + name }

func (b *bench) addNode(name string) {
	b.Helper()
	capacity := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.node(name), Labels: map[string]string{"test": b.pool, "kubernetes.io/hostname": b.node(name)}},
		Status: corev1.NodeStatus{Allocatable: capacity, Capacity: capacity}})
	b.eventually("node "+name+" is Ready and has no taints", func() error {
		n := b.getNode(name)
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
				return nil
			}
		}
		return fmt.Errorf("conditions %v, taints %v", n.Status.Conditions, n.Spec.Taints)
	})
}

func (b *bench) getNode(name string) *corev1.Node {
	b.Helper()
	n := &corev1.Node{}
	b.must(lab.client.Get(b.ctx, client.ObjectKey{Name: b.node(name)}, n))
	return n
}

// taint puts Karpenter's disruption taint on a node; untaint takes it off.
func (b *bench) taint(names ...string) {
	b.Helper()
	for _, name := range names {
		b.patch(b.getNode(name), `{"spec":{"taints":[{"key":"karpenter.sh/disrupted","effect":"NoSchedule"}]}}`)
	}
}

func (b *bench) untaint(name string) {
	b.Helper()
	b.patch(b.getNode(name), `{"spec":{"taints":null}}`)
}

func (b *bench) cordon(name string, on bool) {
	b.Helper()
	b.patch(b.getNode(name), fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on))
}

func (b *bench) patch(o client.Object, body string) {
	b.Helper()
	b.must(lab.client.Patch(b.ctx, o, client.RawPatch(types.MergePatchType, []byte(body))))
}

func (b *bench) create(o client.Object) {
	b.Helper()
	b.must(lab.client.Create(b.ctx, o))
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// deploy makes a Deployment whose pods start on the given nodes, one after the other, and waits until it is Available. A pod
// takes a second to start and a second to stop.
func (b *bench) deploy(name string, on []string, change func(*appsv1.Deployment)) {
	b.Helper()
	replicas := int32(len(on))
	labels := map[string]string{"app": name}
	grace := int64(30)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace, Labels: labels}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
			"lab.segue.dev/start-delay": "1s", "lab.segue.dev/stop-delay": "1s"}},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, NodeSelector: map[string]string{"test": b.pool},
				Containers: []corev1.Container{{Name: "app", Image: "played", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}}}},
	}}
	if change != nil {
		change(d)
	}
	b.Cleanup(func() { _ = lab.client.Delete(context.Background(), d) })
	all := &corev1.NodeList{}
	b.must(lab.client.List(b.ctx, all, client.MatchingLabels{"test": b.pool}))
	for i, n := range on {
		for _, x := range all.Items {
			b.patch(x.DeepCopy(), fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, x.Name != b.node(n)))
		}
		d.Spec.Replicas = ptr(int32(i + 1))
		if i == 0 {
			b.create(d)
		} else {
			b.patch(d.DeepCopy(), fmt.Sprintf(`{"spec":{"replicas":%d}}`, i+1))
		}
		b.available(name, i+1)
	}
	for _, x := range all.Items {
		b.patch(x.DeepCopy(), `{"spec":{"unschedulable":false}}`)
	}
}

// available waits until the Deployment has exactly n pods, all Available and of the newest revision.
func (b *bench) available(name string, n int) {
	b.Helper()
	b.eventually(fmt.Sprintf("Deployment %s has %d Available", name, n), func() error {
		d := b.deployment(name)
		s := d.Status
		if s.ObservedGeneration < d.Generation || int(s.UpdatedReplicas) != n || int(s.AvailableReplicas) != n || int(s.Replicas) != n {
			return fmt.Errorf("generation %d, status %+v", d.Generation, s)
		}
		return nil
	})
}

func (b *bench) deployment(name string) *appsv1.Deployment {
	b.Helper()
	d := &appsv1.Deployment{}
	b.must(lab.client.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: name}, d))
	return d
}

// pods returns the pods of a Deployment by name.
func (b *bench) pods(app string) []corev1.Pod {
	b.Helper()
	list := &corev1.PodList{}
	b.must(lab.client.List(b.ctx, list, client.InNamespace(b.namespace), client.MatchingLabels{"app": app}))
	return list.Items
}

// podOn returns the pod of a Deployment on a node.
func (b *bench) podOn(app, node string) corev1.Pod {
	b.Helper()
	pods := b.pods(app)
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == b.node(node) && p.DeletionTimestamp == nil })
	if i < 0 {
		b.Fatalf("Deployment %s has no pod on node %s: %v", app, node, names(pods))
	}
	return pods[i]
}

func (b *bench) revisions(app string) int {
	b.Helper()
	list := &appsv1.ReplicaSetList{}
	b.must(lab.client.List(b.ctx, list, client.InNamespace(b.namespace), client.MatchingLabels{"app": app}))
	return len(list.Items)
}

// evict asks the API server to evict a pod; change may be nil.
func (b *bench) evict(pod string, change func(*policyv1.Eviction)) error {
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: b.namespace}}
	if change != nil {
		change(e)
	}
	return lab.set.PolicyV1().Evictions(b.namespace).Evict(b.ctx, e)
}

// evictUntilGone evicts as a drain does, every 200 ms, until the pod is gone, and returns how often it was held.
func (b *bench) evictUntilGone(pod corev1.Pod) (held int) {
	b.Helper()
	b.eventually("pod "+pod.Name+" is gone", func() error {
		err := b.evict(pod.Name, func(e *policyv1.Eviction) {
			e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsTooManyRequests(err):
			held++
		case err != nil:
			b.Fatalf("evict pod %s: %v", pod.Name, err)
		}
		return fmt.Errorf("last answer: %v", err)
	})
	return held
}

func (b *bench) handover(pod corev1.Pod) *v1alpha1.Handover {
	list := b.handovers()
	for i := range list {
		if list[i].Spec.Pod.UID == pod.UID {
			return &list[i]
		}
	}
	return nil
}

func (b *bench) handovers() []v1alpha1.Handover {
	b.Helper()
	list := &v1alpha1.HandoverList{}
	b.must(lab.client.List(b.ctx, list, client.InNamespace(b.namespace)))
	return list.Items
}

// awaitPhase waits until the pod's Handover is in a phase.
func (b *bench) awaitPhase(pod corev1.Pod, phase v1alpha1.Phase) *v1alpha1.Handover {
	b.Helper()
	var h *v1alpha1.Handover
	b.eventually(fmt.Sprintf("the handover of pod %s is %s", pod.Name, phase), func() error {
		if h = b.handover(pod); h == nil {
			return fmt.Errorf("there is no Handover")
		}
		if h.Status.Phase != phase {
			return fmt.Errorf("it is %s (%s): %s", h.Status.Phase, h.Status.Reason, h.Status.Message)
		}
		return nil
	})
	return h
}

// gone waits until the pod does not exist.
func (b *bench) gone(pod corev1.Pod) {
	b.Helper()
	b.eventually("pod "+pod.Name+" is gone", func() error {
		p := &corev1.Pod{}
		err := lab.client.Get(b.ctx, client.ObjectKeyFromObject(&pod), p)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it is on node %s, deletionTimestamp %v", p.Spec.NodeName, p.DeletionTimestamp)
	})
}

// eventually waits until the condition returns nil; its last error is in the failure's message.
func (b *bench) eventually(what string, condition func() error) {
	b.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	b.Fatalf("not within %s: %s: %v", patience, what, err)
}

// fewestServing returns the fewest pods of the Deployment that served, Ready and not about to end, at any time while f ran.
func (b *bench) fewestServing(app string, f func()) int {
	b.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	pods := lab.set.CoreV1().Pods(b.namespace)
	selector := metav1.ListOptions{LabelSelector: "app=" + app}
	list, err := pods.List(ctx, selector)
	b.must(err)
	serving := map[string]bool{}
	for i := range list.Items {
		if serves(&list.Items[i]) {
			serving[list.Items[i].Name] = true
		}
	}
	fewest := len(serving)
	selector.ResourceVersion = list.ResourceVersion
	w, err := pods.Watch(ctx, selector)
	b.must(err)
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok && ended.Load() {
				return
			}
			if !ok {
				b.Errorf("the watch on the pods broke off: %v", e.Object)
				return
			}
			if delete(serving, p.Name); e.Type != watch.Deleted && serves(p) {
				serving[p.Name] = true
			}
			fewest = min(fewest, len(serving))
		}
	}()
	f()
	ended.Store(true)
	w.Stop()
	<-done
	return fewest
}

func serves(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func budget(namespace, app string, minAvailable intstr.IntOrString) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: namespace}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &minAvailable, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
}

func names(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name+" on "+p.Spec.NodeName)
	}
	return out
}

func ptr[T any](v T) *T { return &v }
