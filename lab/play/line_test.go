package play_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// line is a connection to the API server that can be cut.
type line struct {
	addr, target string

	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

// newLine listens for connections to the host, an https address, until the test ends.
func newLine(t *testing.T, host string) *line {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{addr: listener.Addr().String(), target: strings.TrimPrefix(host, "https://")}
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			l.connect(conn)
		}
	}()
	return l
}

func (l *line) connect(in net.Conn) {
	out, err := net.Dial("tcp4", l.target)
	if err != nil {
		_ = in.Close()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, in, out)
	if l.dead {
		l.closeAll()
		return
	}
	for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}()
	}
}

// cut ends all connections, and every new one at once, until repair.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	l.closeAll()
}

func (l *line) repair() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}

func (l *line) closeAll() {
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}
