package handover_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/operator"
	"github.com/segue-dev/segue/lab/install"
)

// errCrashed is what every write gets after the crash: a process that was killed writes nothing any more.
var errCrashed = errors.New("the operator has crashed")

// crash lets a number of writes through and then ends the operator at once.
type crash struct {
	mu     sync.Mutex
	left   int
	writes []string
	end    context.CancelFunc
}

// write counts a write before it is sent; done is called after it was.
func (c *crash) write(what string, send func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return errCrashed
	}
	err := send()
	c.left--
	c.writes = append(c.writes, what)
	if c.left == 0 {
		c.end()
	}
	return err
}

func (c *crash) happened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left == 0
}

func (c *crash) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	inner, err := client.NewWithWatch(config, o)
	if err != nil {
		return nil, err
	}
	kind := func(verb string, o runtime.Object) string { return fmt.Sprintf("%s %T", verb, o) }
	return interceptor.NewClient(inner, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, w client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			return c.write(kind("create "+sub+" of", o), func() error { return w.SubResource(sub).Create(ctx, o, body, opts...) })
		},
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return c.write(kind("create", o), func() error { return w.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return c.write(kind("update", o), func() error { return w.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return c.write(kind("delete", o), func() error { return w.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return c.write(kind("patch", o), func() error { return w.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return c.write(kind("patch "+sub+" of", o), func() error { return w.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}), nil
}

// A handover whose operator is killed after any one of its writes, and started again, ends as if nothing had happened: no
// moment without an Available pod, one rollout, no mark left on a pod.
func TestSurvival_KilledAfterEveryWrite(t *testing.T) {
	killAfterEveryWrite(t, v1alpha1.StrategyRollout)
}

// The same for a pod that is replaced alone.
func TestSurvival_KilledAfterEveryWriteOfReplace(t *testing.T) {
	killAfterEveryWrite(t, v1alpha1.StrategyReplace)
}

func killAfterEveryWrite(t *testing.T, strategy v1alpha1.Strategy) {
	t.Helper()
	if err := lab.operator.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.operator.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	for n := 1; ; n++ {
		crashed := false
		t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) { crashed = surviveCrash(t, strategy, n) })
		if t.Failed() {
			return
		}
		if !crashed {
			if n < 5 {
				t.Errorf("a handover took %d writes; it is recorded, marked, rolled out and finished, so the crashes cannot have happened", n-1)
			}
			return
		}
	}
}

// surviveCrash hands a pod over with an operator that dies after n writes, and reports whether it came to that.
func surviveCrash(t *testing.T, strategy v1alpha1.Strategy, n int) bool {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	for _, name := range []string{"a", "b"} {
		b.patch(b.getNode(name), `{"metadata":{"labels":{"karpenter.sh/nodepool":"default"}}}`)
	}
	b.deploy("web", []string{"a"}, nil)
	revisions := 2
	if strategy == v1alpha1.StrategyReplace {
		b.patch(b.deployment("web"), `{"spec":{"paused":true}}`)
		revisions = 1
	}
	old := b.podOn("web", "a")
	c := &crash{left: n}
	first := runOperator(t, c)
	b.taint("a")
	fewest := b.fewestServing("web", func() {
		b.eventually("the operator has crashed or is done", func() error {
			if h := b.handover(old); c.happened() || (h != nil && h.Status.Phase == v1alpha1.PhaseDone) {
				return nil
			}
			return errors.New("neither")
		})
		first()
		defer runOperator(t, &crash{left: -1})()
		b.gone(old)
		b.awaitPhase(old, v1alpha1.PhaseDone)
	})
	t.Logf("writes before the crash: %v", c.writes)
	b.available("web", 1)
	now := b.podOn("web", "b")
	if fewest < 1 || b.revisions("web") != revisions || len(b.handovers()) != 1 || b.handovers()[0].Status.Strategy != strategy {
		t.Errorf("fewest serving %d, revisions %d, handovers %+v; want at least 1, %d and one %s", fewest, b.revisions("web"), b.handovers(), revisions, strategy)
	}
	if now.Annotations["karpenter.sh/do-not-disrupt"] != "" || now.Labels[v1alpha1.HandoverLabel] != "" {
		t.Errorf("the new pod is marked: %v, %v", now.Annotations, now.Labels)
	}
	return c.happened()
}

// The leader of two operators ends in the middle of a handover; the other one takes over and finishes it.
func TestSurvival_LeaderChanges(t *testing.T) {
	if err := lab.operator.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.operator.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	old := b.podOn("web", "a")
	elect := func(o *operator.Options) { o.LeaderElect = true }
	c := &crash{left: 3}
	stopFirst := runOperator(t, c, elect)
	defer stopFirst()
	b.eventually("the first operator leads", func() error {
		_, err := lab.set.CoordinationV1().Leases(install.Namespace).Get(b.ctx, "segue-leader", metav1.GetOptions{})
		return err
	})
	stopSecond := runOperator(t, &crash{left: -1}, elect, func(o *operator.Options) {
		o.WebhookAddress, o.HealthAddress = freeAddress(t), "0"
	})
	defer stopSecond()
	fewest := b.fewestServing("web", func() {
		b.taint("a")
		b.gone(old)
		b.awaitPhase(old, v1alpha1.PhaseDone)
	})
	if !c.happened() || fewest < 1 || b.revisions("web") != 2 {
		t.Errorf("crashed %t, fewest serving %d, revisions %d; want true, at least 1 and 2", c.happened(), fewest, b.revisions("web"))
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// runOperator runs an operator in this process until the returned function is called or it crashes.
func runOperator(t *testing.T, c *crash, changes ...func(*operator.Options)) (stop func()) {
	t.Helper()
	config, o, err := lab.operator.InProcess()
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.end, o.NewClient = cancel, c.newClient
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx, config, o) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !c.happened() {
			t.Errorf("operator: %v", err)
		}
	})
}

// The mark that the operator writes is a duration, which ends by itself, and is on the pod while it is handed over.
func TestE45_MarkEndsByItself(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.patch(b.getNode("a"), `{"metadata":{"labels":{"karpenter.sh/nodepool":"default"}}}`)
	b.deploy("web", []string{"a"}, func(d *appsv1.Deployment) { d.Spec.Template.Annotations["lab.segue.dev/start-delay"] = "5s" })
	old := b.podOn("web", "a")
	b.taint("a")
	var marked *corev1.Pod
	b.eventually("the pod is marked", func() error {
		p, err := lab.set.CoreV1().Pods(b.namespace).Get(b.ctx, old.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Annotations["karpenter.sh/do-not-disrupt"] == "" {
			return errors.New("it is not")
		}
		marked = p
		return nil
	})
	if v := marked.Annotations["karpenter.sh/do-not-disrupt"]; v == "true" || v != marked.Annotations[v1alpha1.HeldAnnotation] {
		t.Errorf("do-not-disrupt %q, recorded %q; want the same duration", v, marked.Annotations[v1alpha1.HeldAnnotation])
	}
	if name := marked.Labels[v1alpha1.HandoverLabel]; name != b.handover(old).Name {
		t.Errorf("label names the handover %q, want %q", name, b.handover(old).Name)
	}
	b.gone(old)
}
