package install

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// child is the operator's process.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// startChild starts the process from a goroutine that keeps its thread until the process has ended: the parent death
// signal, which ends the operator when this process is killed, is tied to the thread that started it.
func startChild(binary string, args []string, logPath string) (*child, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the operator's log: %w", err)
	}
	defer log.Close()
	p := &child{cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return p, nil
}

// exit says how the process ended; it may be called once done is closed.
func (p *child) exit(logPath string) error {
	return fmt.Errorf("segue operator ended unasked (%s); the end of its log %s:\n%s", p.cmd.ProcessState, logPath, tail(logPath))
}

func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	// The lab's own impatience fills the log while the operator is not ready; the cause is in the other lines.
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(string(data), "\n"), "\n"), func(line string) bool {
		return strings.Contains(line, "healthz check failed") || strings.Contains(line, "TLS handshake error")
	})
	if len(lines) > logTailLines {
		lines = lines[len(lines)-logTailLines:]
	}
	return strings.Join(lines, "\n")
}
