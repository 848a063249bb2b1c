package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// readyTimeout bounds how long one component may take to become ready, also on a machine that is busy.
	readyTimeout = 90 * time.Second
	// portAttempts is how often a component is started with new ports when somebody took the ones that were free.
	portAttempts = 4
	// restartGrace is how long after Kill a Restart may come before the component counts as died.
	restartGrace = time.Second
	// karpenterHealth names the second port of Karpenter.
	karpenterHealth = Karpenter + " health"
)

// ControlPlane is one running lab. Its methods may be called from several goroutines.
type ControlPlane struct {
	options   Options
	binary    string
	state     *stateDir
	authority *authority
	config    *rest.Config
	http      *http.Client
	ports     map[string]int
	lifeline  *os.File // the write end; closing it ends every child
	pipe      *os.File // the read end that children inherit
	died      chan error

	mu        sync.Mutex
	processes map[string]*process
	order     []string        // names in the order of start
	expected  map[string]bool // components whose end is wanted
	stopping  bool
	abort     context.CancelCauseFunc // ends Start early
	users     int                     // kubeconfigs written by KubeconfigFor
}

// Start starts a lab and returns when it is ready: the API, the controllers, the scheduler, KWOK, Karpenter with its
// kinds when it was asked for, and the default ServiceAccount, so that pods can be created. When anything fails, or ctx
// ends first, nothing is left behind, unless Options.Keep is set, and the error names the component with the last lines
// of its log. The lab does not end with ctx: call Stop.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("start lab: %w", err)
	}
	binary, err := FindBinary(o.Binary)
	if err != nil {
		return nil, fmt.Errorf("start lab: %w", err)
	}
	state, err := openStateDir(o.Dir, o.Keep)
	if err != nil {
		return nil, fmt.Errorf("start lab: %w", err)
	}
	c := &ControlPlane{
		options: o, binary: binary, state: state,
		ports: map[string]int{}, died: make(chan error, 1),
		processes: map[string]*process{}, expected: map[string]bool{},
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	c.abort = abort
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("start lab: %w", errors.Join(err, c.Stop()))
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	api, err := c.prepare()
	if err != nil {
		return err
	}
	c.progress("state in %s", c.state.path)
	if err := c.launch(ctx, Etcd, nil); err != nil {
		api.Close()
		return err
	}
	if err := c.launch(ctx, APIServer, api); err != nil {
		return err
	}
	rest := []string{ControllerManager, Scheduler, KWOK}
	if c.options.Karpenter != nil {
		rest = append(rest, Karpenter)
	}
	failed := make(chan error, len(rest))
	for _, name := range rest {
		go func() { failed <- c.launch(ctx, name, nil) }()
	}
	for range rest {
		if e := <-failed; e != nil && err == nil {
			err = e
			c.abort(e) // the others need not become ready any more
		}
	}
	if err != nil {
		return err
	}
	return c.awaitServiceAccount(ctx)
}

// prepare makes everything that the components need to run, up to the API server's listening socket.
func (c *ControlPlane) prepare() (*net.TCPListener, error) {
	var err error
	if c.pipe, c.lifeline, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make the pipe that ties the components to this process: %w", err)
	}
	if c.authority, err = newAuthority(); err != nil {
		return nil, err
	}
	api, err := c.listen(APIServer, c.options.Port)
	if err != nil {
		return nil, err
	}
	if err := c.prepareClients(); err != nil {
		api.Close()
		return nil, err
	}
	return api, nil
}

// prepareClients writes the files of the components and makes the lab's own clients.
func (c *ControlPlane) prepareClients() error {
	if err := c.writeFiles(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 1000, 2000
	c.config = config
	admin, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.authority.cert)
	c.http = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{admin}},
	}}
	return nil
}

// listen binds the port of component name on loopback, 0 for a free one.
func (c *ControlPlane) listen(name string, port int) (*net.TCPListener, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, fmt.Errorf("port of %s: %w: choose another with --port, or leave it out for a free one", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports[name] = listener.Addr().(*net.TCPAddr).Port
	return listener, nil
}

// launch starts a component and returns when it is ready. It takes over listener, which is bound anew when it is nil.
func (c *ControlPlane) launch(ctx context.Context, name string, listener *net.TCPListener) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("gave up after %s", readyTimeout))
	defer cancel()
	began := time.Now()
	for attempt := 1; ; attempt++ {
		p, probe, err := c.spawn(name, listener)
		if err != nil {
			return err
		}
		if probe != nil {
			err = p.waitReady(ctx, probe)
		}
		if err == nil {
			go c.watch(p)
			c.progress("%s ready after %.1fs", name, time.Since(began).Seconds())
			return nil
		}
		if !p.hasExited() || !choosesPorts(name) || !saysPortTaken(p.log) || attempt == portAttempts {
			return err
		}
		c.forgetPorts(name)
	}
}

// spawn starts the process of a component.
func (c *ControlPlane) spawn(name string, listener *net.TCPListener) (*process, func(context.Context) error, error) {
	if listener == nil && inheritsListener(name) {
		var err error
		if listener, err = c.listen(name, c.port(name)); err != nil {
			return nil, nil, err
		}
	}
	if listener != nil {
		// The component has its own descriptor; with this one closed, a dead component refuses connections.
		defer listener.Close()
	}
	if err := c.assignPorts(name); err != nil {
		return nil, nil, err
	}
	d := c.component(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil, nil, fmt.Errorf("start %s: the lab is stopping", name)
	}
	p, err := spawn(c.binary, c.state.path, c.pipe, d, listener, c.LogFile(name))
	if err != nil {
		return nil, nil, err
	}
	if _, known := c.processes[name]; !known {
		c.order = append(c.order, name)
	}
	c.processes[name] = p
	delete(c.expected, name)
	return p, d.probe, nil
}

// assignPorts finds free ports for a component that binds them by itself.
func (c *ControlPlane) assignPorts(name string) error {
	if !choosesPorts(name) {
		return nil
	}
	needed := []string{name}
	if name == Karpenter {
		needed = append(needed, karpenterHealth)
	}
	for _, n := range needed {
		if c.port(n) != 0 {
			continue
		}
		port, err := freePort()
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.ports[n] = port
		c.mu.Unlock()
	}
	return nil
}

func (c *ControlPlane) forgetPorts(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ports, name)
	if name == Karpenter {
		delete(c.ports, karpenterHealth)
	}
}

func (c *ControlPlane) port(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ports[name]
}

// watch reports when p ends unasked.
func (c *ControlPlane) watch(p *process) {
	<-p.exited
	c.mu.Lock()
	wanted := c.stopping || c.expected[p.name]
	c.mu.Unlock()
	if !wanted {
		c.report(p)
	}
}

// report makes the end of p known, unless the lab is stopping or p has been replaced.
func (c *ControlPlane) report(p *process) {
	err := p.exitError()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping || c.processes[p.name] != p {
		return
	}
	c.abort(err)
	select {
	case c.died <- err:
	default: // the first one is the one to look at
	}
}

// awaitServiceAccount returns once the default namespace has its ServiceAccount, without which no pod is admitted.
func (c *ControlPlane) awaitServiceAccount(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	for {
		_, err := clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the default ServiceAccount: %w (last answer: %v)", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *ControlPlane) progress(format string, args ...any) {
	if c.options.Progress == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.options.Progress, format+"\n", args...)
}

// Config is an admin's client configuration with high limits. The caller owns the copy.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the path of the admin's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return c.state.file(kubeconfig) }

// Dir is the state directory.
func (c *ControlPlane) Dir() string { return c.state.path }

// LogFile is the path of a component's log.
func (c *ControlPlane) LogFile(component string) string {
	return c.state.file(logDirectory, component+".log")
}

// Address is the host and port on which a component serves its health and metrics: HTTPS with the lab's certificates for
// the Kubernetes components, HTTP for KWOK and for Karpenter's metrics. etcd has none.
func (c *ControlPlane) Address(component string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port(component)))
}

// Pid is the process id of a component, 0 when it does not run.
func (c *ControlPlane) Pid(component string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.processes[component]
	if !ok || p.hasExited() {
		return 0
	}
	return p.cmd.Process.Pid
}

// KubeconfigFor writes a kubeconfig with a client certificate for user, a member of groups, and returns its path. What
// that user may do is up to RBAC.
func (c *ControlPlane) KubeconfigFor(user string, groups ...string) (string, error) {
	c.mu.Lock()
	c.users++
	path := c.state.file("pki", fmt.Sprintf("user-%d.kubeconfig", c.users))
	c.mu.Unlock()
	return path, c.authority.writeKubeconfig(path, "https://"+c.Address(APIServer), user, groups...)
}

// Died receives once, when the first component ends unasked; the error names it and quotes the end of its log.
func (c *ControlPlane) Died() <-chan error { return c.died }

// Kill ends a component with SIGKILL and returns when it is gone. It counts as died unless Restart follows within a
// second.
func (c *ControlPlane) Kill(component string) error {
	p, err := c.take(component)
	if err != nil {
		return fmt.Errorf("kill %s: %w", component, err)
	}
	p.kill()
	time.AfterFunc(restartGrace, func() { c.reportUnlessExpected(p) })
	return nil
}

// reportUnlessExpected reports a killed component that nobody has begun to restart.
func (c *ControlPlane) reportUnlessExpected(p *process) {
	c.mu.Lock()
	restarting := c.processes[p.name] != p
	c.mu.Unlock()
	if !restarting {
		c.report(p)
	}
}

// take marks the end of a component as wanted and returns its process.
func (c *ControlPlane) take(component string) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.processes[component]
	if !ok {
		return nil, errors.New("no such component in this lab")
	}
	c.expected[component] = true
	return p, nil
}

// Restart stops a component, if it still runs, starts it again with the same settings and ports, and returns when it is
// ready.
func (c *ControlPlane) Restart(ctx context.Context, component string) error {
	p, err := c.take(component)
	if err != nil {
		return fmt.Errorf("restart %s: %w", component, err)
	}
	p.stop()
	if err := c.launch(ctx, component, nil); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return nil
}

// Stop ends the components in reverse order, each within a few seconds, and removes the state directory unless
// Options.Keep is set. Further calls do nothing.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	if c.stopping {
		c.mu.Unlock()
		return nil
	}
	c.stopping = true
	order, processes := c.order, c.processes
	c.mu.Unlock()
	for i := len(order) - 1; i >= 0; i-- {
		processes[order[i]].stop()
	}
	if c.pipe != nil {
		c.pipe.Close()
		c.lifeline.Close()
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	if err := c.state.close(); err != nil {
		return fmt.Errorf("remove the state of the lab in %s: %w", filepath.Clean(c.state.path), err)
	}
	return nil
}
