package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/labtest"
)

// patience bounds every wait of these tests; on a busy machine it may take a while.
const patience = time.Minute

func TestMain(m *testing.M) {
	labtest.Main(m, controlplane.Options{Karpenter: &controlplane.KarpenterOptions{FastClock: true}})
}

// eventually polls check until it returns nil.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v, last: %v", what, err, last)
	}
}

// fixture is a namespace of its own in the shared lab.
type fixture struct {
	lab       *controlplane.ControlPlane
	clients   kubernetes.Interface
	namespace string
}

func newFixture(t *testing.T, lab *controlplane.ControlPlane) *fixture {
	t.Helper()
	f := &fixture{lab: lab, clients: kubernetes.NewForConfigOrDie(lab.Config())}
	ns, err := f.clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.namespace = ns.Name
	eventually(t, "default ServiceAccount", func(ctx context.Context) error {
		_, err := f.clients.CoreV1().ServiceAccounts(f.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return f
}

// node makes a plain Node object, by hand, on which only this fixture's pods land.
func (f *fixture) node(t *testing.T) {
	t.Helper()
	size := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: f.namespace, Labels: map[string]string{"test": f.namespace}},
		Status:     corev1.NodeStatus{Allocatable: size, Capacity: size},
	}
	if _, err := f.clients.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// deploy makes a Deployment with one replica; selector says where its pod may run.
func (f *fixture) deploy(t *testing.T, name string, annotations, selector map[string]string, change func(*corev1.PodSpec)) {
	t.Helper()
	labels := map[string]string{"app": name}
	spec := corev1.PodSpec{NodeSelector: selector, Containers: []corev1.Container{{Name: "app", Image: "none"}}}
	if change != nil {
		change(&spec)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: spec},
	}}
	if _, err := f.clients.AppsV1().Deployments(f.namespace).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pod returns the newest pod of a Deployment once check is content with it.
func (f *fixture) pod(t *testing.T, app string, check func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	eventually(t, "pod of "+app, func(ctx context.Context) error {
		pods, err := f.clients.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("%d pods", len(pods.Items))
		}
		found = &pods.Items[0]
		return check(found)
	})
	return found
}

func isReady(p *corev1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("phase %s, not Ready", p.Status.Phase)
}

func isScheduled(p *corev1.Pod) error {
	if p.Spec.NodeName == "" {
		return errors.New("not scheduled")
	}
	return nil
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func TestPodsRunOnNodesMadeByHand(t *testing.T) {
	f := newFixture(t, labtest.Shared(t))
	f.node(t)
	here := map[string]string{"test": f.namespace}
	f.deploy(t, "plain", nil, here, nil)
	f.deploy(t, "never", map[string]string{"lab.segue.dev/ready": "false"}, here, nil)
	f.deploy(t, "served", map[string]string{"lab.segue.dev/serve": "true"}, here, nil)

	if got := f.pod(t, "plain", isReady); got.Spec.NodeName != f.namespace || got.Status.PodIP == "" {
		t.Errorf("plain pod: node %q, IP %q, want node %q and an address", got.Spec.NodeName, got.Status.PodIP, f.namespace)
	}
	f.pod(t, "never", func(p *corev1.Pod) error {
		if c := condition(p, corev1.PodReady); p.Status.Phase != corev1.PodRunning || c == nil || c.Status != corev1.ConditionFalse {
			return fmt.Errorf("phase %s, Ready %v, want it to run and not be Ready", p.Status.Phase, c)
		}
		return nil
	})
	// By now KWOK has played two pods that were created together with this one.
	served := f.pod(t, "served", isScheduled)
	if served.Status.Phase != corev1.PodPending || served.Status.PodIP != "" {
		t.Errorf("served pod: phase %s, IP %q, want it left alone", served.Status.Phase, served.Status.PodIP)
	}
}

func TestDelaysOfPlainPods(t *testing.T) {
	f := newFixture(t, labtest.Shared(t))
	f.node(t)
	const start, sleep, stop = 2 * time.Second, time.Second, 1500 * time.Millisecond
	delays := map[string]string{"lab.segue.dev/start-delay": start.String(), "lab.segue.dev/stop-delay": stop.String()}
	f.deploy(t, "slow", delays, map[string]string{"test": f.namespace}, func(spec *corev1.PodSpec) {
		spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(sleep.Seconds())}}}
	})
	pod := f.pod(t, "slow", isReady)
	scheduled, ready := condition(pod, corev1.PodScheduled).LastTransitionTime, condition(pod, corev1.PodReady).LastTransitionTime
	// Both have whole seconds, so the difference may come out one short.
	if took := ready.Sub(scheduled.Time); took < start-time.Second {
		t.Errorf("Ready %s after the binding, want %s", took, start)
	}
	if took := f.remove(t, pod, nil); took < sleep+stop {
		t.Errorf("gone after %s, want no less than preStop sleep and stop delay, %s", took, sleep+stop)
	}
	grace := int64(1)
	pod = f.pod(t, "slow", isReady)
	if took := f.remove(t, pod, &grace); took < time.Second || took > sleep+stop {
		t.Errorf("gone after %s, want about the grace period of 1s", took)
	}
}

// remove deletes a pod and returns how long it took to be gone.
func (f *fixture) remove(t *testing.T, pod *corev1.Pod, grace *int64) time.Duration {
	t.Helper()
	pods, began := f.clients.CoreV1().Pods(f.namespace), time.Now()
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod "+pod.Name+" gone", func(ctx context.Context) error {
		_, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %v", err)
	})
	return time.Since(began)
}

func TestKubeconfigForAUserWithoutRights(t *testing.T) {
	path, err := labtest.Shared(t).KubeconfigFor("jane", "developers")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	jane := kubernetes.NewForConfigOrDie(config)
	review, err := jane.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := review.Status.UserInfo; got.Username != "jane" || !strings.Contains(strings.Join(got.Groups, ","), "developers") {
		t.Errorf("the API server knows the holder as %q in %q, want jane in developers", got.Username, got.Groups)
	}
	if _, err := jane.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list secrets: got %v, want forbidden", err)
	}
}

// pool is a NodePool of which only pods with a matching node selector make use.
const pool = `[
{"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "NAME"}, "spec": {}},
{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "NAME"}, "spec": {
  "template": {"metadata": {"labels": {"test": "NAME"}}, "spec": {
    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "NAME"},
    "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
    "taints": [{"key": "test", "value": "NAME", "effect": "NoSchedule"}]}},
  "disruption": {"consolidateAfter": "0s"}}}]`

// nodePool makes one for this fixture's pods.
func (f *fixture) nodePool(t *testing.T) {
	t.Helper()
	var objects []unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(pool, "NAME", f.namespace)), &objects); err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(f.lab.Config())
	for _, o := range objects {
		kind := o.GroupVersionKind()
		resource := client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "es"})
		if kind.Kind == "NodePool" {
			resource = client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "nodepools"})
		}
		if _, err := resource.Create(t.Context(), &o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// wantsNode makes a pod that only the fixture's NodePool can run.
func (f *fixture) wantsNode(spec *corev1.PodSpec) {
	spec.Tolerations = []corev1.Toleration{{Key: "test", Value: f.namespace, Effect: corev1.TaintEffectNoSchedule}}
	spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
}

func TestKarpenterMakesANodeForAPendingPod(t *testing.T) {
	f := newFixture(t, labtest.Shared(t))
	f.nodePool(t)
	f.deploy(t, "app", nil, map[string]string{"test": f.namespace}, f.wantsNode)
	pod := f.pod(t, "app", isReady)
	node, err := f.clients.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := node.Labels[corev1.LabelInstanceTypeStable]; got != "lab.4x" || !strings.HasPrefix(node.Spec.ProviderID, "kwok://") {
		t.Errorf("node of type %q from %q, want the smallest that fits, lab.4x, from Karpenter's KWOK provider", got, node.Spec.ProviderID)
	}
}
