package controlplane

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// component is how one child is started.
type component struct {
	name   string
	launch []string // the lab's own flags for it, see package components
	args   []string // its own flags
	env    []string // its environment beyond passedEnv
	// probe succeeds once it does its work; nil where the next component waits for it by itself.
	probe func(ctx context.Context) error
}

// etcdSocket is relative to the state directory, in which every component runs: a path to a Unix socket may have no more
// than some 100 characters. With a socket, etcd needs no port and nobody else on the machine can reach it.
const etcdSocket = "etcd.sock"

// instanceTypesFile is what Karpenter's KWOK provider can launch, relative to the state directory as well.
const instanceTypesFile = "instance-types.json"

//go:embed instance-types.json
var defaultInstanceTypes []byte

// offControllers are the controllers that nothing in a lab needs. Each costs start time or load: what allocates networks,
// attaches volumes, mirrors endpoints of Services without selectors, signs certificates or follows devices.
var offControllers = []string{
	"node-ipam-controller", "persistentvolume-attach-detach-controller", "endpoints-controller", "endpointslice-mirroring-controller",
	"ttl-controller", "resourceclaim-controller", "ephemeral-volume-controller", "certificatesigningrequest-signing-controller",
	"certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller",
}

// schedulerConfig holds what the scheduler takes from a file only. %s is its kubeconfig.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 1000, burst: 2000, contentType: application/vnd.kubernetes.protobuf}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
`

// component describes the child of that name. Ports must have been assigned before.
func (c *ControlPlane) component(name string) component {
	var d component
	switch name {
	case Etcd:
		d = c.etcd()
	case APIServer:
		d = c.apiServer()
	case ControllerManager:
		d = c.controllerManager()
	case Scheduler:
		d = c.scheduler()
	case KWOK:
		d = c.kwok()
	case Karpenter:
		d = c.karpenter()
	}
	d.name = name
	d.args = override(d.args, c.options.ExtraArgs[name])
	return d
}

// override appends extra to args and takes out of args every flag that extra sets.
func override(args, extra []string) []string {
	flag := func(arg string) string {
		name, _, _ := strings.Cut(arg, "=")
		return name
	}
	set := map[string]bool{}
	for _, e := range extra {
		set[flag(e)] = true
	}
	args = slices.DeleteFunc(args, func(arg string) bool { return set[flag(arg)] })
	return append(args, extra...)
}

func (c *ControlPlane) etcd() component {
	launch := []string{}
	if dir := c.state.removeWhenOrphaned(); dir != "" {
		launch = append(launch, "--remove-when-orphaned="+dir)
	}
	const client, peer = "unix://" + etcdSocket, "unix://etcd-peer.sock"
	return component{launch: launch, args: []string{
		"--data-dir=etcd", "--name=lab",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=lab=" + peer,
		"--unsafe-no-fsync=true", // the state does not outlive the lab
		// The only member elects itself after the election timeout: 0.2 s instead of 1 s.
		"--heartbeat-interval=20", "--election-timeout=200",
		"--quota-backend-bytes=4294967296", "--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
		"--log-level=warn",
	}}
}

func (c *ControlPlane) apiServer() component {
	args := append(c.servingArgs(APIServer),
		"--advertise-address=127.0.0.1",   // no default route is needed then
		"--endpoint-reconciler-type=none", // a loopback address is not a legal endpoint
		"--etcd-servers=unix://"+etcdSocket,
		"--client-ca-file=pki/ca.crt",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=pki/service-account.key", "--service-account-signing-key-file=pki/service-account.key",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC",
		"--requestheader-client-ca-file=pki/ca.crt", "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=pki/front-proxy.crt", "--proxy-client-key-file=pki/front-proxy.key",
		"--profiling=false",
		"--event-ttl=1h",
		"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000", "--enable-priority-and-fairness=false",
	)
	if c.options.FeatureGates != "" {
		args = append(args, "--feature-gates="+c.options.FeatureGates)
	}
	if c.options.RuntimeConfig != "" {
		args = append(args, "--runtime-config="+c.options.RuntimeConfig)
	}
	return component{
		launch: []string{"--await-socket=" + etcdSocket}, args: args,
		probe: c.get("https://" + c.Address(APIServer) + "/readyz"),
	}
}

func (c *ControlPlane) controllerManager() component {
	config := c.state.file("pki", ControllerManager+".kubeconfig")
	args := append(c.servingArgs(ControllerManager),
		"--kubeconfig="+config, "--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
		"--service-account-private-key-file=pki/service-account.key", "--root-ca-file=pki/ca.crt",
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--controller-start-interval=0s",
		"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=10", "--concurrent-service-endpoint-syncs=10",
		"--controllers=*,-"+strings.Join(offControllers, ",-"),
	)
	if c.options.FeatureGates != "" {
		args = append(args, "--feature-gates="+c.options.FeatureGates)
	}
	return component{args: args, probe: c.get("https://" + c.Address(ControllerManager) + "/healthz")}
}

func (c *ControlPlane) scheduler() component {
	config := c.state.file("pki", Scheduler+".kubeconfig")
	args := append(c.servingArgs(Scheduler),
		"--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
		"--config=scheduler.yaml",
	)
	if c.options.FeatureGates != "" {
		args = append(args, "--feature-gates="+c.options.FeatureGates)
	}
	return component{args: args, probe: c.get("https://" + c.Address(Scheduler) + "/readyz")}
}

// servingArgs are the flags of a component that serves on the socket that it inherits.
func (c *ControlPlane) servingArgs(name string) []string {
	return []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.port(name)),
		"--tls-cert-file=pki/serving.crt", "--tls-private-key-file=pki/serving.key",
	}
}

func (c *ControlPlane) kwok() component {
	return component{
		args: []string{
			"--kubeconfig=" + c.state.file("pki", KWOK+".kubeconfig"),
			"--manage-all-nodes=true", "--node-lease-duration-seconds=40",
			"--cidr=10.0.0.1/8", "--node-ip=127.0.0.1",
			"--server-address=" + c.Address(KWOK),
		},
		probe: c.get("http://" + c.Address(KWOK) + "/healthz"),
	}
}

func (c *ControlPlane) karpenter() component {
	o := c.options.Karpenter
	d := component{
		env: []string{
			"KUBECONFIG=" + c.state.file("pki", Karpenter+".kubeconfig"),
			"DISABLE_LEADER_ELECTION=true",
			fmt.Sprintf("METRICS_PORT=%d", c.port(Karpenter)),
			fmt.Sprintf("HEALTH_PROBE_PORT=%d", c.port(karpenterHealth)),
			"INSTANCE_TYPES_FILE_PATH=" + instanceTypesFile,
		},
		probe: c.get(fmt.Sprintf("http://127.0.0.1:%d/readyz", c.port(karpenterHealth))),
	}
	if o.FastClock {
		d.launch = []string{"--fast-clock=500ms"}
		d.env = append(d.env, "BATCH_IDLE_DURATION=100ms", "BATCH_MAX_DURATION=1s")
	}
	for name, value := range o.Env {
		d.env = append(d.env, name+"="+value)
	}
	return d
}

// get is a probe that succeeds when url answers 200.
func (c *ControlPlane) get(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := c.http.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// inheritsListener tells whether the parent binds the component's port and hands it over.
func inheritsListener(name string) bool {
	return name == APIServer || name == ControllerManager || name == Scheduler
}

// choosesPorts tells whether the component binds ports by itself, which somebody else may take first.
func choosesPorts(name string) bool {
	return name == KWOK || name == Karpenter
}

// saysPortTaken tells whether the log ends with the kernel's word for a port that somebody else has.
func saysPortTaken(log string) bool {
	lines, err := tail(log)
	return err == nil && strings.Contains(strings.Join(lines, "\n"), "address already in use")
}

// freePort finds a port that is free on loopback right now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// writeFiles writes what the components read: certificates, kubeconfigs, configuration.
func (c *ControlPlane) writeFiles() error {
	if err := c.authority.writePKI(c.state.path); err != nil {
		return err
	}
	const masters = "system:masters"
	users := []struct {
		path, user string
		groups     []string
	}{
		{c.Kubeconfig(), "admin", []string{masters}},
		{c.state.file("pki", ControllerManager+".kubeconfig"), "system:kube-controller-manager", nil},
		{c.state.file("pki", Scheduler+".kubeconfig"), "system:kube-scheduler", nil},
		{c.state.file("pki", KWOK+".kubeconfig"), "kwok", []string{masters}},
		// The name of a usual installation: webhooks see who evicts.
		{c.state.file("pki", Karpenter+".kubeconfig"), "system:serviceaccount:kube-system:karpenter", []string{masters}},
	}
	for _, u := range users {
		if err := c.authority.writeKubeconfig(u.path, "https://"+c.Address(APIServer), u.user, u.groups...); err != nil {
			return err
		}
	}
	config := fmt.Sprintf(schedulerConfig, c.state.file("pki", Scheduler+".kubeconfig"))
	if err := os.WriteFile(c.state.file("scheduler.yaml"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("write configuration of %s: %w", Scheduler, err)
	}
	if c.options.Karpenter == nil {
		return nil
	}
	types := defaultInstanceTypes
	if path := c.options.Karpenter.InstanceTypesFile; path != "" {
		var err error
		if types, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("read Karpenter's instance types: %w", err)
		}
	}
	if err := os.WriteFile(c.state.file(instanceTypesFile), types, 0o600); err != nil {
		return fmt.Errorf("write configuration of %s: %w", Karpenter, err)
	}
	return nil
}
