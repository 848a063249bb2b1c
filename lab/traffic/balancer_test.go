package traffic

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

const patience = 30 * time.Second

// at is a Resolver that knows one pod port.
type at struct{ pod, addr string }

func (a at) Address(ip string, port int32) (string, bool) {
	return a.addr, a.addr != "" && fmt.Sprintf("%s:%d", ip, port) == a.pod
}

// balancerTo returns a Balancer whose service shop/web has one endpoint, a pod that really listens at addr.
func balancerTo(addr string) *Balancer {
	b := NewBalancer(&rest.Config{}, at{"10.0.0.1:8080", addr}, BalancerOptions{})
	b.table.set(slice("a", map[string]int32{"": 8080}, map[string]string{"10.0.0.1": "ready"}))
	return b
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// hijack ends the connection of a request in the way that end does.
func hijack(end func(*net.TCPConn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		end(conn.(*net.TCPConn))
		_ = conn.Close()
	}
}

func TestDo(t *testing.T) {
	release := make(chan struct{})
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		service string
		want    Cause
		status  int
	}{
		"answered": {handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.URL.Path)
		}, status: 200},
		"redirects are answers": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, status: 302},
		"client error": {handler: http.NotFound, want: HTTPStatus, status: 404},
		"server error": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}, want: HTTPStatus, status: 503},
		"reset":                    {handler: hijack(func(c *net.TCPConn) { _ = c.SetLinger(0) }), want: Reset},
		"closed without an answer": {handler: hijack(func(*net.TCPConn) {}), want: Reset},
		"closed within the answer": {handler: hijack(func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		}), want: Reset, status: 200},
		"too slow":      {handler: func(http.ResponseWriter, *http.Request) { <-release }, want: Timeout},
		"not HTTP":      {handler: hijack(func(c *net.TCPConn) { _, _ = io.WriteString(c, "hello\r\n\r\n") }), want: Other},
		"no endpoints":  {service: "nobody", want: NoEndpoints},
		"no such port":  {service: "web:metrics", want: NoEndpoints},
		"refused":       {want: Refused},
		"not listening": {service: "web", want: Refused},
	} {
		t.Run(name, func(t *testing.T) {
			addr := closedPort(t)
			if name == "not listening" {
				addr = ""
			}
			if test.handler != nil {
				server := httptest.NewServer(test.handler)
				defer server.Close()
				defer func() {
					if test.want == Timeout {
						close(release)
					}
				}()
				addr = strings.TrimPrefix(server.URL, "http://")
			}
			limit := patience
			if test.want == Timeout {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			service := test.service
			if service == "" {
				service = "web"
			}
			r := balancerTo(addr).Do(ctx, "shop", service, "path")
			if r.Cause != test.want || r.Status != test.status || r.Failed() != (test.want != "") {
				t.Errorf("cause %q, status %d, message %q; want %q and %d", r.Cause, r.Status, r.Message, test.want, test.status)
			}
			if r.Sent.IsZero() || r.Duration <= 0 {
				t.Errorf("sent at %v, took %v; want both set", r.Sent, r.Duration)
			}
			if r.Failed() && r.Message == "" {
				t.Error("a failure without words")
			}
		})
	}
}

// TestDoConnectsAnew shows that no connection outlives its request.
func TestDoConnectsAnew(t *testing.T) {
	peers := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { peers <- r.RemoteAddr }))
	defer server.Close()
	b := balancerTo(strings.TrimPrefix(server.URL, "http://"))
	seen := map[string]bool{}
	for range 5 {
		if r := b.Do(t.Context(), "shop", "web", "/"); r.Failed() {
			t.Fatal(r.Message)
		}
		seen[<-peers] = true
	}
	if len(seen) != 5 {
		t.Errorf("5 requests came over %d connections, want 5", len(seen))
	}
}

func TestRunNeedsAConfiguration(t *testing.T) {
	b := NewBalancer(&rest.Config{Host: "http://[broken"}, at{}, BalancerOptions{})
	if err := b.Run(t.Context()); err == nil {
		t.Error("Run accepts a broken address")
	}
}

func TestDelayLine(t *testing.T) {
	const delay = 50 * time.Millisecond
	d := newDelayLine(delay)
	type ran struct {
		k  int
		at time.Time
	}
	done := make(chan ran, 10)
	var added []time.Time
	for k := range 3 {
		added = append(added, time.Now())
		d.add(func() { done <- ran{k, time.Now()} })
	}
	go d.run(t.Context())
	for k := range 3 {
		select {
		case r := <-done:
			if r.k != k || r.at.Sub(added[k]) < delay {
				t.Errorf("change %d took effect as number %d, %v after it was seen; want in order and after %v", r.k, k, r.at.Sub(added[k]), delay)
			}
		case <-time.After(patience):
			t.Fatalf("change %d did not take effect in %v", k, patience)
		}
	}
}
