package play

import (
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

const patience = 30 * time.Second

// slow is a handler that tells when a request has begun and answers when it is let go.
type slow struct {
	begun, letGo chan struct{}
}

func newSlow() *slow { return &slow{begun: make(chan struct{}, 10), letGo: make(chan struct{})} }

func (s *slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.begun <- struct{}{}
	select {
	case <-s.letGo:
	case <-r.Context().Done():
	}
}

// listening starts a server for port 80 and one request that is open.
func listening(t *testing.T) (s *server, h *slow, addr string, idle chan struct{}, answer chan error) {
	t.Helper()
	h, idle, answer = newSlow(), make(chan struct{}, 10), make(chan error, 1)
	s = newServer(h, func() { idle <- struct{}{} })
	addresses, err := s.listen([]int32{80, 81})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kill() })
	addr = addresses[80]
	go func() {
		resp, err := new(http.Transport).RoundTrip(get(addr))
		if err == nil {
			err = resp.Body.Close()
		}
		answer <- err
	}()
	receive(t, h.begun, "the request to begin")
	return s, h, addr, idle, answer
}

func get(addr string) *http.Request {
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		panic(err)
	}
	return req
}

func receive[T any](t *testing.T, c <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
	return got
}

func TestServerFinishesOpenRequests(t *testing.T) {
	s, h, addr, idle, answer := listening(t)
	s.stopAccepting()
	if conn, err := net.Dial("tcp4", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting after the end of accepting gives %v, %v; want refused", conn, err)
	}
	if open := s.open(); open != 1 {
		t.Errorf("server says that %d requests are open, want 1", open)
	}
	close(h.letGo)
	if err := receive(t, answer, "the answer"); err != nil {
		t.Errorf("the open request failed: %v", err)
	}
	receive(t, idle, "the server to become idle")
	if open := s.open(); open != 0 {
		t.Errorf("server says that %d requests are still open", open)
	}
}

func TestServerKillResets(t *testing.T) {
	s, _, addr, _, answer := listening(t)
	if cut := s.kill(); cut != 1 {
		t.Errorf("kill cut off %d requests, want 1", cut)
	}
	if err := receive(t, answer, "the reset"); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the open request ended with %v, want a reset", err)
	}
	if conn, err := net.Dial("tcp4", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting after the kill gives %v, %v; want refused", conn, err)
	}
}
