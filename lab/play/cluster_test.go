package play_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/play"
)

// patience bounds every wait; it is long because other tests may have the machine.
const patience = 2 * time.Minute

// lab is the control plane that the tests of this package share, started by the first that makes a node; each test has
// its own nodes and its own namespace.
var lab cluster

// cluster is a control plane with one Player.
type cluster struct {
	start sync.Once
	err   error
	cp    *controlplane.ControlPlane

	cfg    *rest.Config
	client kubernetes.Interface
	player *play.Player
	// leave ends the Player and returns when it has ended.
	leave func() error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := lab.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func (c *cluster) run() error {
	var err error
	if c.cp, err = controlplane.Start(context.Background(), controlplane.Options{}); err != nil {
		return err
	}
	c.cfg = c.cp.Config()
	if c.client, err = kubernetes.NewForConfig(c.cfg); err != nil {
		return err
	}
	c.startPlayer(c.cfg)
	return nil
}

func (c *cluster) stop() error {
	var errs []error
	if c.leave != nil {
		errs = append(errs, c.leave())
	}
	if c.cp != nil {
		errs = append(errs, c.cp.Stop())
	}
	return errors.Join(errs...)
}

func (c *cluster) startPlayer(cfg *rest.Config) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	c.player = play.New(cfg, play.Options{})
	go func() { ended <- c.player.Run(ctx) }()
	c.leave = func() error { cancel(); return <-ended }
}

// eventually waits until the condition holds; what it returns last is in the failure's message.
func eventually(t *testing.T, what string, condition func() (got any, ok bool)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got, ok := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s; last seen: %v", patience, what, got)
		}
	}
}

// namespace makes a namespace that ends, with all its pods, with the test.
func namespace(t *testing.T) string {
	t.Helper()
	made, err := lab.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "play-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "default service account in "+made.Name, func() (any, bool) {
		_, err := lab.client.CoreV1().ServiceAccounts(made.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err, err == nil
	})
	t.Cleanup(func() {
		if err := lab.client.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return made.Name
}

// node makes a node that ends with the test, if it still exists then.
func node(t *testing.T, name string) {
	t.Helper()
	if lab.start.Do(func() { lab.err = lab.run() }); lab.err != nil {
		t.Fatal(lab.err)
	}
	if _, err := lab.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := lab.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	eventually(t, "node "+name+" is ready", func() (any, bool) {
		n, err := lab.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err, false
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return n.Status.Conditions, true
			}
		}
		return n.Status.Conditions, false
	})
}

// served returns a served pod that starts in 100 ms, with the annotations on top ("on-term", "close" …).
func served(name string, annotations ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{play.AnnotationServe: "true", play.AnnotationStartDelay: "100ms"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations["lab.segue.dev/"+annotations[i]] = annotations[i+1]
	}
	return pod
}

func withPreStop(pod *corev1.Pod, seconds int64) *corev1.Pod {
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
	return pod
}

func withGrace(pod *corev1.Pod, seconds int64) *corev1.Pod {
	pod.Spec.TerminationGracePeriodSeconds = &seconds
	return pod
}

func create(t *testing.T, ns string, pod *corev1.Pod) {
	t.Helper()
	if _, err := lab.client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createService makes service web over the pods with label app=web.
func createService(t *testing.T, ns string) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
	if _, err := lab.client.CoreV1().Services(ns).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func deletePod(t *testing.T, ns, name string, grace int64) {
	t.Helper()
	o := metav1.DeleteOptions{}
	if grace >= 0 {
		o.GracePeriodSeconds = &grace
	}
	if err := lab.client.CoreV1().Pods(ns).Delete(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// awaitReady returns the pod once it is ready.
func awaitReady(t *testing.T, ns, name string) (pod *corev1.Pod) {
	t.Helper()
	eventually(t, "pod "+name+" is ready", func() (any, bool) {
		var err error
		if pod, err = lab.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err, false
		}
		return pod.Status, isReady(pod)
	})
	return pod
}

func awaitGone(t *testing.T, ns, name string) {
	t.Helper()
	eventually(t, "pod "+name+" is gone", func() (any, bool) {
		pod, err := lab.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err, apierrors.IsNotFound(err)
		}
		return pod.Status, false
	})
}

// ask sends a request straight to the pod and returns its answer.
func ask(pod *corev1.Pod) (string, error) {
	addr, ok := lab.player.Address(pod.Status.PodIP, 8080)
	if !ok {
		return "", fmt.Errorf("pod %s at %q does not listen", pod.Name, pod.Status.PodIP)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request(addr))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(body)), err
}

func request(addr string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		panic(err) // the address is the Player's own
	}
	return r
}

// info returns what the Player knows about a pod; ok is false if it does not play it.
func info(ns, name string) (play.PodInfo, bool) {
	for _, i := range lab.player.Pods() {
		if i.Namespace == ns && i.Name == name {
			return i, true
		}
	}
	return play.PodInfo{}, false
}
