package traffic

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Endpoint is one address of a Service.
type Endpoint struct {
	// IP is the pod's address as the EndpointSlice shows it.
	IP string
	// Pod is the pod's name, empty if the slice does not say.
	Pod string
	// Ready, Serving and Terminating are the slice's conditions, with an unset one taken as the API says.
	Ready, Serving, Terminating bool

	// ports are the slice's ports by name.
	ports map[string]int32
}

// table is what a service proxy knows: the endpoints of every Service, out of its slices.
type table struct {
	mu       sync.Mutex
	services map[types.NamespacedName]*service
}

type service struct {
	slices map[string]*discoveryv1.EndpointSlice
	// all are the endpoints of all slices, usable those that take requests now.
	all, usable []Endpoint
	// turn counts the picks.
	turn int
}

func newTable() *table {
	return &table{services: map[types.NamespacedName]*service{}}
}

// serviceOf returns the Service that the slice belongs to; false if it belongs to none or has no IPv4 addresses.
func serviceOf(slice *discoveryv1.EndpointSlice) (types.NamespacedName, bool) {
	name := slice.Labels[discoveryv1.LabelServiceName]
	return types.NamespacedName{Namespace: slice.Namespace, Name: name}, name != "" && slice.AddressType == discoveryv1.AddressTypeIPv4
}

// set takes over a slice in place of its earlier version.
func (t *table) set(slice *discoveryv1.EndpointSlice) {
	key, ok := serviceOf(slice)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.services[key]
	if s == nil {
		s = &service{slices: map[string]*discoveryv1.EndpointSlice{}}
		t.services[key] = s
	}
	s.slices[slice.Name] = slice
	s.refresh()
}

// remove forgets a slice.
func (t *table) remove(slice *discoveryv1.EndpointSlice) {
	key, _ := serviceOf(slice)
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.services[key]; s != nil {
		delete(s.slices, slice.Name)
		s.refresh()
	}
}

// refresh computes the endpoints anew.
func (s *service) refresh() {
	s.all = nil
	for _, slice := range s.slices {
		ports := map[string]int32{}
		for _, p := range slice.Ports {
			if p.Port != nil {
				ports[value(p.Name, "")] = *p.Port
			}
		}
		for _, e := range slice.Endpoints {
			if len(e.Addresses) == 0 {
				continue
			}
			// A consumer uses the first address only, and takes an unset ready for true, an unset serving for ready.
			ready := value(e.Conditions.Ready, true)
			endpoint := Endpoint{
				IP: e.Addresses[0], ports: ports, Ready: ready,
				Serving:     value(e.Conditions.Serving, ready),
				Terminating: value(e.Conditions.Terminating, false),
			}
			if e.TargetRef != nil {
				endpoint.Pod = e.TargetRef.Name
			}
			s.all = append(s.all, endpoint)
		}
	}
	slices.SortFunc(s.all, func(a, b Endpoint) int { return cmp.Compare(a.IP, b.IP) })
	s.usable = usable(s.all)
}

// usable returns the endpoints that take requests: the ready ones, and if there is none those that serve while they
// terminate. It mirrors CategorizeEndpoints of pkg/proxy/topology.go for external traffic policy Cluster.
func usable(all []Endpoint) []Endpoint {
	var ready, terminating []Endpoint
	for _, e := range all {
		switch {
		case e.Ready:
			ready = append(ready, e)
		case e.Serving && e.Terminating:
			terminating = append(terminating, e)
		}
	}
	if len(ready) > 0 {
		return ready
	}
	return terminating
}

// pick returns the next endpoint of the Service in turn and its address with the port of that name; an empty name means
// the only or the first port by name. ok is false if no endpoint takes requests at such a port.
func (t *table) pick(key types.NamespacedName, portName string) (e Endpoint, hostPort string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.services[key]
	if s == nil {
		return Endpoint{}, "", false
	}
	for range s.usable {
		e = s.usable[s.turn%len(s.usable)]
		s.turn++
		if port, has := e.port(portName); has {
			return e, net.JoinHostPort(e.IP, strconv.Itoa(int(port))), true
		}
	}
	return Endpoint{}, "", false
}

// port returns the port of that name, and of an empty name that has no port of its own the first port by name.
func (e Endpoint) port(name string) (int32, bool) {
	if port, ok := e.ports[name]; ok || name != "" {
		return port, ok
	}
	var names []string
	for name := range e.ports {
		names = append(names, name)
	}
	if len(names) == 0 {
		return 0, false
	}
	return e.ports[slices.Min(names)], true
}

// endpoints returns all endpoints of the Service by address.
func (t *table) endpoints(key types.NamespacedName) []Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.services[key]; s != nil {
		return slices.Clone(s.all)
	}
	return nil
}

func value[T any](p *T, unset T) T {
	if p == nil {
		return unset
	}
	return *p
}
