package traffic

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Resolver maps a pod's address and port to the loopback address where the pod really listens, and returns false if
// nothing listens there. play.Player is one.
type Resolver interface {
	Address(podIP string, port int32) (addr string, ok bool)
}

// BalancerOptions tune a Balancer.
type BalancerOptions struct {
	// PropagationDelay is the time from the moment at which the API server shows a change of an EndpointSlice until
	// requests follow it, as rules and load balancer targets take time to be written. Default 0.
	PropagationDelay time.Duration
}

// Balancer sends requests to the endpoints of Services in turn. Its methods may be called from any goroutine.
type Balancer struct {
	cfg       *rest.Config
	resolver  Resolver
	delay     time.Duration
	table     *table
	transport *http.Transport
	synced    chan struct{}
	markSync  sync.Once
}

// NewBalancer returns a Balancer for the Services of the cluster. Errors in the configuration come from Run.
func NewBalancer(cfg *rest.Config, r Resolver, o BalancerOptions) *Balancer {
	b := &Balancer{cfg: rest.CopyConfig(cfg), resolver: r, delay: o.PropagationDelay, table: newTable(), synced: make(chan struct{})}
	b.cfg.UserAgent = "segue-lab-traffic"
	// A new connection for every request: an old one would stay with its pod whatever the EndpointSlices say.
	b.transport = &http.Transport{DisableKeepAlives: true, DialContext: b.dial}
	return b
}

// Run follows the EndpointSlices until the context ends. What is there at the start counts at once, every later change
// after the propagation delay, in the order of the changes.
func (b *Balancer) Run(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(b.cfg)
	if err != nil {
		return fmt.Errorf("follow EndpointSlices: build a client: %w", err)
	}
	informer := discoveryinformers.NewEndpointSliceInformer(client, metav1.NamespaceAll, 0, nil)
	changes := newDelayLine(b.delay)
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			slice := obj.(*discoveryv1.EndpointSlice)
			if initial {
				b.table.set(slice)
				return
			}
			changes.add(func() { b.table.set(slice) })
		},
		UpdateFunc: func(_, obj any) {
			slice := obj.(*discoveryv1.EndpointSlice)
			changes.add(func() { b.table.set(slice) })
		},
		DeleteFunc: func(obj any) {
			if last, missed := obj.(cache.DeletedFinalStateUnknown); missed {
				obj = last.Obj
			}
			slice := obj.(*discoveryv1.EndpointSlice)
			changes.add(func() { b.table.remove(slice) })
		},
	})
	if err != nil {
		return fmt.Errorf("follow EndpointSlices: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.Run(ctx.Done()) })
	running.Go(func() { changes.run(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		b.markSync.Do(func() { close(b.synced) })
	}
	<-ctx.Done()
	return nil
}

// Synced is closed once the Balancer knows the EndpointSlices that existed when Run was called.
func (b *Balancer) Synced() <-chan struct{} { return b.synced }

// Endpoints returns the endpoints of a Service as requests see them now, the propagation delay included.
func (b *Balancer) Endpoints(namespace, service string) []Endpoint {
	return b.table.endpoints(types.NamespacedName{Namespace: namespace, Name: service})
}

// Do sends a GET request for the path to the next endpoint of the Service and reads the answer. The service may name a
// port, as in "web:metrics"; without one it is the unnamed or else the first port by name. The request ends with the
// context at the latest.
func (b *Balancer) Do(ctx context.Context, namespace, service, path string) (r Result) {
	r.Sent = time.Now()
	defer func() { r.Duration = time.Since(r.Sent) }()
	name, port, _ := strings.Cut(service, ":")
	endpoint, hostPort, ok := b.table.pick(types.NamespacedName{Namespace: namespace, Name: name}, port)
	if !ok {
		r.Cause, r.Message = NoEndpoints, fmt.Sprintf("service %s/%s has no endpoint that takes requests", namespace, service)
		return r
	}
	r.Endpoint, r.Pod = hostPort, endpoint.Pod
	b.roundTrip(ctx, &r, name+"."+namespace, "/"+strings.TrimPrefix(path, "/"))
	return r
}

// roundTrip sends the request to the result's endpoint and completes the result but for its duration.
func (b *Balancer) roundTrip(ctx context.Context, r *Result, host, path string) {
	fail := func(err error) {
		r.Cause, r.Message = causeOf(err), fmt.Sprintf("GET %s at %s: %v", path, r.Endpoint, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Endpoint+path, nil)
	if err != nil {
		fail(err)
		return
	}
	req.Host = host
	// The transport, not a client: a client would follow redirects, which are answers.
	resp, err := b.transport.RoundTrip(req)
	if err != nil {
		fail(err)
		return
	}
	defer resp.Body.Close()
	r.Status = resp.StatusCode
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		fail(err)
		return
	}
	if r.Status >= http.StatusBadRequest {
		r.Cause, r.Message = HTTPStatus, fmt.Sprintf("GET %s at %s: %s", path, r.Endpoint, resp.Status)
	}
}

// dial connects to where the pod's address and port really listen.
func (b *Balancer) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("connect to pod: %w", err)
	}
	port, err := strconv.ParseInt(portText, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("connect to pod %s: port: %w", hostPort, err)
	}
	addr, ok := b.resolver.Address(host, int32(port))
	if !ok {
		return nil, fmt.Errorf("connect to pod %s: %w", hostPort, errNotListening)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}
