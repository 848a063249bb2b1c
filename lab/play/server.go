package play

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// server is the HTTP server of one container: a listener on loopback for every port that the container declares.
// It knows which connections have an open request, so that a container can finish them, or be killed under them.
type server struct {
	handler http.Handler
	// onIdle is called, from any goroutine, when the server no longer accepts and its last open request has ended.
	onIdle func()

	mu        sync.Mutex
	https     []*http.Server
	listeners []net.Listener
	serving   sync.WaitGroup
	// conns says for every open connection whether it has, or may soon have, an open request; busy counts those.
	conns map[net.Conn]bool
	busy  int
	// closed says that nothing is accepted any more.
	closed bool
}

func newServer(handler http.Handler, onIdle func()) *server {
	return &server{handler: handler, onIdle: onIdle, conns: map[net.Conn]bool{}}
}

// listen starts a listener for every port and returns their loopback addresses by port. After an error nothing listens.
func (s *server) listen(ports []int32) (map[int32]string, error) {
	addresses := map[int32]string{}
	for _, port := range ports {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			s.stopAccepting()
			s.https, s.listeners, s.closed = nil, nil, false
			return nil, fmt.Errorf("listen on loopback for container port %d: %w", port, err)
		}
		h := &http.Server{
			Handler: s.handler, ConnState: s.track,
			ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		}
		s.https, s.listeners = append(s.https, h), append(s.listeners, l)
		s.serving.Go(func() { _ = h.Serve(l) }) // ends with an error whenever the listener is closed
		addresses[port] = l.Addr().String()
	}
	return addresses, nil
}

// stopAccepting closes the listeners and all connections without a request; requests that run go on. When it returns,
// open knows every connection that was ever accepted.
func (s *server) stopAccepting() {
	for _, l := range s.listeners {
		_ = l.Close() // a listener that is closed already is what we want
	}
	s.serving.Wait()
	for _, h := range s.https {
		h.SetKeepAlivesEnabled(false)
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// listening says whether listen has succeeded before.
func (s *server) listening() bool { return len(s.listeners) > 0 }

// open returns the number of connections that have an open request.
func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// kill ends the server as SIGKILL does: nothing listens, and every open connection is reset. It returns the number of
// connections that had an open request.
func (s *server) kill() int {
	s.mu.Lock()
	cut := s.busy
	for conn := range s.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // makes Close send a reset
		}
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.stopAccepting()
	for _, h := range s.https {
		_ = h.Close() // what was accepted in the meantime
	}
	return cut
}

// track follows the state of a connection. A new connection counts as busy: its request is on the way.
func (s *server) track(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	if s.conns[conn] {
		s.busy--
	}
	switch state {
	case http.StateNew, http.StateActive:
		s.conns[conn] = true
		s.busy++
	case http.StateIdle:
		s.conns[conn] = false
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, conn)
	}
	idle := s.closed && s.busy == 0
	s.mu.Unlock()
	if idle {
		s.onIdle()
	}
}
