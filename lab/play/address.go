package play

import (
	"fmt"
	"net/netip"
	"sync"
)

// podRange is where served pods get their addresses from: the range that clusters use for pods beside their network's
// own. It must not overlap with KWOK's range, 10.0.0.0/8: KWOK hands out anew what any deleted pod had there.
var podRange = netip.MustParsePrefix("100.64.0.0/10")

// addresses hands out unique pod addresses and maps them to the loopback addresses where the pods really listen.
// EndpointSlices refuse loopback addresses, so that the API server shows the former only.
type addresses struct {
	mu     sync.Mutex
	last   netip.Addr
	used   map[netip.Addr]bool
	routes map[string]route
}

// route is where a pod listens: a loopback address by container port. A pod that declares no port answers on every one,
// at the address of port 0.
type route map[int32]string

func newAddresses() *addresses {
	return &addresses{last: podRange.Addr(), used: map[netip.Addr]bool{}, routes: map[string]route{}}
}

// reserve takes an address that a pod has already. Addresses of other ranges and malformed ones are left alone.
func (a *addresses) reserve(ip string) {
	addr, err := netip.ParseAddr(ip)
	if err != nil || !podRange.Contains(addr) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[addr] = true
}

// allocate returns an address that no pod has. It starts over only at the end of the range, so that an address that is
// still in somebody's tables does not come back as another pod soon.
func (a *addresses) allocate() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range 1 << (32 - podRange.Bits()) {
		a.last = a.last.Next()
		if !podRange.Contains(a.last) {
			a.last = podRange.Addr().Next()
		}
		if !a.used[a.last] {
			a.used[a.last] = true
			return a.last.String(), nil
		}
	}
	return "", fmt.Errorf("allocate a pod address: all of %s are in use; delete some served pods", podRange)
}

// release gives an address back.
func (a *addresses) release(ip string) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, addr)
	delete(a.routes, ip)
}

// set makes the pod reachable at the route's addresses, in addition to those of earlier calls.
func (a *addresses) set(ip string, r route) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.routes[ip] == nil {
		a.routes[ip] = route{}
	}
	for port, addr := range r {
		a.routes[ip][port] = addr
	}
}

// unset takes back what set did for these ports.
func (a *addresses) unset(ip string, ports []int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, port := range ports {
		delete(a.routes[ip], port)
	}
}

// lookup returns the loopback address where the pod listens for the port, and false if nothing listens there.
func (a *addresses) lookup(ip string, port int32) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.routes[ip]
	if addr, ok := r[port]; ok {
		return addr, true
	}
	addr, ok := r[0]
	return addr, ok
}
