package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/segue-dev/segue/lab/internal/lifeline"
)

const (
	// stopTimeout is how long a component may take to stop before it is killed.
	stopTimeout = 5 * time.Second
	// tailLines and tailBytes bound what an error quotes of a log.
	tailLines = 20
	tailBytes = 8 << 10
)

// passedEnv are the variables that a component takes over from the environment of the lab. Everything else stays out, so
// that a lab runs the same for everybody: Karpenter, for one, takes settings from names as common as LOG_LEVEL.
var passedEnv = []string{"PATH", "HOME", "TMPDIR", "TZ", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR"}

// defaultGOGC trades memory for a fifth of the processor time of a start. One in the environment, which comes later, wins.
const defaultGOGC = "GOGC=300"

// process is one running child.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string        // path of its log file
	exited chan struct{} // closed when it is gone; state is set before
	state  *os.ProcessState
}

// spawn starts component c, which inherits listener unless that is nil. The caller keeps listener.
func spawn(binary, dir string, pipe *os.File, c component, listener *net.TCPListener, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	defer log.Close()
	var socket *os.File
	if listener != nil {
		if socket, err = listener.File(); err != nil {
			return nil, fmt.Errorf("start %s: %w", c.name, err)
		}
		defer socket.Close()
	}
	args := append([]string{"component", c.name}, c.launch...)
	cmd := exec.Command(binary, append(append(args, "--"), c.args...)...)
	cmd.Dir = dir
	cmd.Env = childEnv(c.env)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = lifeline.Files(pipe, socket)
	// A process group of its own: Ctrl-C reaches the lab only, which then stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	p := &process{name: c.name, cmd: cmd, log: logPath, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state says it all
		p.state = cmd.ProcessState
		close(p.exited)
	}()
	return p, nil
}

func childEnv(own []string) []string {
	env := []string{defaultGOGC}
	for _, name := range passedEnv {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, own...)
}

// stop ends the process: by SIGTERM, and by SIGKILL when that takes too long.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it is gone already
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		p.kill()
	}
}

// kill ends the process at once and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it is gone already
	<-p.exited
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// waitReady returns when probe succeeds, or with the reason why it never will.
func (p *process) waitReady(ctx context.Context, probe func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return p.exitError()
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.As(cause, new(*exitError)) {
				return cause // another component is the reason
			}
			return fmt.Errorf("%s is not ready: %w (last answer: %v)%s", p.name, cause, err, p.quoteLog())
		case <-tick.C:
		}
	}
}

// exitError tells that a component ended unasked, how, and what it said last.
type exitError struct {
	component, state, log string
}

func (e *exitError) Error() string { return fmt.Sprintf("%s ended: %s%s", e.component, e.state, e.log) }

// exitError describes the end of the process.
func (p *process) exitError() error {
	return &exitError{component: p.name, state: p.state.String(), log: p.quoteLog()}
}

// quoteLog is the end of the log for an error message.
func (p *process) quoteLog() string {
	lines, err := tail(p.log)
	if err != nil {
		return fmt.Sprintf("; its log cannot be read: %v", err)
	}
	if len(lines) == 0 {
		return fmt.Sprintf("; it wrote nothing to its log %s", p.log)
	}
	return fmt.Sprintf("; the last lines of %s:\n  %s", p.log, strings.Join(lines, "\n  "))
}

// tail reads the last lines of a file that are not empty.
func tail(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil && !errors.Is(err, syscall.EINVAL) {
		return nil, err // EINVAL: shorter than that
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-tailLines):], nil
}
