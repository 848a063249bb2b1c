// Package install puts Segue on a lab's control plane: the kinds, the rights and the webhook that the chart ships, and the
// operator as a child process that holds no other rights than these.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/segue-dev/segue/internal/operator"
	"github.com/segue-dev/segue/lab/controlplane"
)

const (
	// Namespace is where the operator runs.
	Namespace = "segue-system"
	// ServiceAccount is the user that the operator is.
	ServiceAccount = "system:serviceaccount:" + Namespace + ":segue"

	fieldOwner   = "segue-lab"
	readyWithin  = time.Minute
	stopsWithin  = 20 * time.Second
	webhookName  = "segue-guard"
	logTailLines = 15
)

// Options say how the operator is started.
type Options struct {
	// Binary is the segue binary; empty means $SEGUE_BIN, else segue beside this executable, else bin/segue found upwards
	// from the working directory.
	Binary string
	// Args are further arguments of `segue operator`.
	Args []string
}

// Operator is Segue on a lab.
type Operator struct {
	client     client.Client
	binary     string
	kubeconfig string
	args       []string
	webhook    int // ports
	health     int
	logPath    string
	died       chan error
	reportOnce sync.Once

	mu   sync.Mutex
	proc *child
}

// Install brings Segue up and returns when it guards. It fails, with the end of the operator's log, when that takes longer
// than a minute.
func Install(ctx context.Context, cp *controlplane.ControlPlane, o Options) (*Operator, error) {
	binary, err := findBinary(o.Binary)
	if err != nil {
		return nil, err
	}
	c, err := client.New(cp.Config(), client.Options{})
	if err != nil {
		return nil, fmt.Errorf("connect to the lab: %w", err)
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := cp.KubeconfigFor(ServiceAccount, "system:serviceaccounts", "system:serviceaccounts:"+Namespace, "system:authenticated")
	if err != nil {
		return nil, err
	}
	op := &Operator{client: c, binary: binary, kubeconfig: kubeconfig, args: o.Args, webhook: ports[0], health: ports[1],
		logPath: filepath.Join(cp.Dir(), "segue.log"), died: make(chan error, 1)}
	if err := op.applyFiles(ctx); err != nil {
		return nil, err
	}
	if err := op.start(ctx); err != nil {
		return nil, errors.Join(err, op.Stop())
	}
	return op, nil
}

// Died receives once, when the operator ends unasked.
func (o *Operator) Died() <-chan error { return o.died }

// LogFile is where the operator logs to.
func (o *Operator) LogFile() string { return o.logPath }

// Pid is the operator's process id; 0 when it does not run.
func (o *Operator) Pid() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.proc == nil {
		return 0
	}
	return o.proc.cmd.Process.Pid
}

// InProcess returns what it takes to run the same operator, with the same rights and addresses, inside this process: while
// the child does not run, a test can inject faults into it.
func (o *Operator) InProcess() (*rest.Config, operator.Options, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, operator.Options{}, fmt.Errorf("read the operator's kubeconfig: %w", err)
	}
	opts := operator.DefaultOptions(Namespace)
	opts.LeaderElect, opts.MetricsAddress, opts.WebhookDNSNames = false, "0", []string{"localhost"}
	opts.Settings.Settle = time.Second // as fast as a test may be
	opts.WebhookAddress, opts.HealthAddress = loopback(o.webhook), loopback(o.health)
	return config, opts, nil
}

// Kill ends the operator with SIGKILL, as a crash would. It does not report on Died.
func (o *Operator) Kill() error { return o.end(syscall.SIGKILL) }

// Start starts an operator that was killed, without waiting until it guards.
func (o *Operator) Start(context.Context) error { return o.launch() }

// Restart ends the operator, if it still runs, starts it again and returns when it guards.
func (o *Operator) Restart(ctx context.Context) error {
	return errors.Join(o.end(syscall.SIGTERM), o.start(ctx))
}

// Stop ends the operator and removes what makes the API server ask it. Handovers and the rights stay.
func (o *Operator) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopsWithin)
	defer cancel()
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookName}}
	err := client.IgnoreNotFound(o.client.Delete(ctx, hook))
	if err != nil {
		err = fmt.Errorf("remove ValidatingWebhookConfiguration %s: %w", webhookName, err)
	}
	return errors.Join(err, o.end(syscall.SIGTERM))
}

func (o *Operator) start(ctx context.Context) error {
	if err := o.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	o.mu.Lock()
	proc := o.proc
	o.mu.Unlock()
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-proc.done:
			return false, proc.exit(o.logPath)
		default:
		}
		return o.ready(ctx), nil
	})
	if err != nil {
		return fmt.Errorf("segue operator does not guard: %w\n%s", err, tail(o.logPath))
	}
	return nil
}

func (o *Operator) ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback(o.health)+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode == http.StatusOK
}

func (o *Operator) launch() error {
	args := append([]string{"operator", "--kubeconfig", o.kubeconfig, "--namespace", Namespace, "--leader-elect=false",
		"--webhook-address", loopback(o.webhook), "--webhook-dns-name", "localhost",
		"--metrics-address", "0", "--health-address", loopback(o.health)}, o.args...)
	p, err := startChild(o.binary, args, o.logPath)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.proc = p
	o.mu.Unlock()
	go func() {
		<-p.done
		o.mu.Lock()
		unasked := o.proc == p
		o.mu.Unlock()
		if unasked {
			o.reportOnce.Do(func() { o.died <- p.exit(o.logPath) })
		}
	}()
	return nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (o *Operator) end(with syscall.Signal) error {
	o.mu.Lock()
	p := o.proc
	o.proc = nil
	o.mu.Unlock()
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(with)
	select {
	case <-p.done:
	case <-time.After(stopsWithin):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return nil
}

func findBinary(explicit string) (string, error) {
	if explicit == "" {
		explicit = os.Getenv("SEGUE_BIN")
	}
	if explicit != "" {
		if _, err := os.Stat(explicit); err != nil {
			return "", fmt.Errorf("the segue binary: %w; run `make build`", err)
		}
		return explicit, nil
	}
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), "segue"); isFile(path) {
			return path, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if path := filepath.Join(dir, "bin", "segue"); isFile(path) {
			return path, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no segue beside this program, no bin/segue here or above, and SEGUE_BIN is not set; run `make build`")
		}
		dir = parent
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// freePorts returns ports that were free a moment ago.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
