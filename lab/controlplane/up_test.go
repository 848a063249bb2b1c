package controlplane_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/labtest"
)

// The tests in this file run the command `segue-lab up` as a user does. They live here and not beside its source, because
// a test binary of that package would link the whole control plane once more.

// up is a running `segue-lab up`.
type up struct {
	cmd    *exec.Cmd
	dir    string
	stderr lockedBuffer
	exited chan error
}

// lockedBuffer may be written and read at the same time.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startUp runs the command with its state in a new directory. The returned channel is closed when it says that it is ready.
func startUp(t *testing.T, args ...string) (u *up, ready <-chan struct{}) {
	t.Helper()
	binary, err := controlplane.FindBinary("")
	if err != nil {
		t.Fatal(err)
	}
	u = &up{dir: filepath.Join(t.TempDir(), "lab"), exited: make(chan error, 1)}
	u.cmd = exec.Command(binary, append([]string{"up", "--dir", u.dir}, args...)...)
	u.cmd.Stderr = &u.stderr
	stdout, err := u.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "KUBECONFIG=") {
				close(said)
			}
		}
		u.exited <- u.cmd.Wait()
	}()
	t.Cleanup(func() { _ = u.cmd.Process.Kill() }) // an error means that it ended long ago
	return u, said
}

// awaitReady waits until the command is ready.
func (u *up) awaitReady(t *testing.T, ready <-chan struct{}) {
	t.Helper()
	select {
	case <-ready:
	case err := <-u.exited:
		t.Fatalf("segue-lab up ended: %v\n%s", err, &u.stderr)
	case <-time.After(patience):
		t.Fatalf("segue-lab up is not ready after %s\n%s", patience, &u.stderr)
	}
}

// awaitExit returns the exit code, -1 for a signal.
func (u *up) awaitExit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case err := <-u.exited:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		if err != nil {
			t.Fatal(err)
		}
		return 0
	case <-time.After(within):
		t.Fatalf("segue-lab up still runs after %s\n%s", within, &u.stderr)
	}
	return 0
}

// expectNothingLeft fails unless processes and state directory go away soon.
func (u *up) expectNothingLeft(t *testing.T) {
	t.Helper()
	eventually(t, "nothing left behind", func(context.Context) error {
		if left := processesIn(t, u.dir); len(left) > 0 {
			return fmt.Errorf("processes %v", left)
		}
		if _, err := os.Stat(u.dir); !os.IsNotExist(err) {
			return fmt.Errorf("directory %s: %v", u.dir, err)
		}
		return nil
	})
}

// processesIn lists the processes whose working directory is dir, which is true of every component of the lab there.
func processesIn(t *testing.T, dir string) []int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc to see processes")
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, link := range links {
		// The kernel appends " (deleted)" when the directory is gone. A process that ends meanwhile is no error.
		if cwd, err := os.Readlink(link); err == nil && strings.TrimSuffix(cwd, " (deleted)") == dir {
			pid, err := strconv.Atoi(strings.Split(link, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// kubectl runs `segue-lab kubectl` and returns what it prints.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := controlplane.FindBinary("")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, append([]string{"kubectl"}, args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("kubectl %q: %v\n%s", args, err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestKubectlTakesTheLabFromTheEnvironment(t *testing.T) {
	lab := labtest.Shared(t)
	f := newFixture(t, lab)
	t.Setenv("KUBECONFIG", lab.Kubeconfig())
	if got, want := kubectl(t, "get", "namespace", f.namespace, "-o", "name"), "namespace/"+f.namespace+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("KUBECONFIG", "")
	// Which one is the newest depends on what else runs on this machine; the shared lab alone means that there is one.
	if path, err := controlplane.FindKubeconfig(""); err != nil {
		t.Errorf("the newest running lab: %q, %v", path, err)
	}
	if _, err := controlplane.FindKubeconfig(t.TempDir()); err == nil {
		t.Error("found a lab in an empty directory")
	}
}

func TestUpEndsCleanlyOnSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			u, ready := startUp(t, "--nodes", "3")
			u.awaitReady(t, ready)
			if got := len(processesIn(t, u.dir)); got != 5 {
				t.Errorf("%d processes run in the state directory, want 5", got)
			}
			if got, want := kubectl(t, "--dir", u.dir, "get", "nodes", "-o", "name"), "node/node-1\nnode/node-2\nnode/node-3\n"; got != want {
				t.Errorf("nodes to begin with: %q, want %q", got, want)
			}
			if err := u.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if code := u.awaitExit(t, patience); code != 0 {
				t.Errorf("exit code %d, want 0\n%s", code, &u.stderr)
			}
			u.expectNothingLeft(t)
		})
	}
}

func TestUpEndsCleanlyWhenInterruptedWhileStarting(t *testing.T) {
	u, _ := startUp(t)
	eventually(t, "first component", func(context.Context) error {
		if len(processesIn(t, u.dir)) == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	if err := u.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	u.awaitExit(t, patience)
	u.expectNothingLeft(t)
}

func TestNothingOutlivesAParentThatIsKilled(t *testing.T) {
	u, ready := startUp(t)
	u.awaitReady(t, ready)
	if err := u.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	u.awaitExit(t, patience)
	u.expectNothingLeft(t)
}

func TestUpFailsWhenAComponentDies(t *testing.T) {
	u, ready := startUp(t)
	u.awaitReady(t, ready)
	victim := 0
	for _, pid := range processesIn(t, u.dir) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), "component\x00"+controlplane.ControllerManager) {
			victim = pid
		}
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); victim == 0 || err != nil {
		t.Fatalf("kill the controller manager, process %d: %v", victim, err)
	}
	if code := u.awaitExit(t, 2*noticeTime); code == 0 {
		t.Error("exit code 0, want a failure")
	}
	if got := u.stderr.String(); !strings.Contains(got, controlplane.ControllerManager+" ended: signal: killed") {
		t.Errorf("the error does not name the component:\n%s", got)
	}
	u.expectNothingLeft(t)
}

func TestUpRefusesBadInput(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"port in use":         {[]string{"--port", port}, []string{"127.0.0.1:" + port, "address already in use", "--port"}},
		"unknown component":   {[]string{"--extra-arg", "kubelet=--v=1"}, []string{`"kubelet"`, "unknown", "kube-apiserver"}},
		"broken argument":     {[]string{"--extra-arg", "nonsense"}, []string{"component=--flag=value"}},
		"unknown flag of it":  {[]string{"--extra-arg", "kube-apiserver=--nonsense=1"}, []string{"kube-apiserver ended", "unknown flag: --nonsense"}},
		"flag of etcd":        {[]string{"--extra-arg", "etcd=--nonsense=1"}, []string{"etcd ended", "nonsense"}},
		"unknown gate":        {[]string{"--feature-gates", "Nonsense=true"}, []string{"kube-apiserver ended", "unrecognized feature gate: Nonsense"}},
		"only with Karpenter": {[]string{"--fast-clock"}, []string{"--karpenter"}},
		"unknown option":      {[]string{"--nonsense"}, []string{"unknown flag: --nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			u, _ := startUp(t, c.args...)
			if code := u.awaitExit(t, patience); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			for _, want := range c.want {
				if got := u.stderr.String(); !strings.Contains(got, want) {
					t.Errorf("the error does not say %q:\n%s", want, got)
				}
			}
			u.expectNothingLeft(t)
		})
	}
}

func TestUpRefusesAFullDisk(t *testing.T) {
	full := t.TempDir()
	if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs a small file system, and this user may not mount one: %v", err)
	}
	defer syscall.Unmount(full, 0)
	u, _ := startUp(t, "--dir", filepath.Join(full, "lab"))
	if code := u.awaitExit(t, patience); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	if got := u.stderr.String(); !strings.Contains(got, "no space") {
		t.Errorf("the error does not say that there is no space:\n%s", got)
	}
	if left, err := os.ReadDir(full); err != nil || len(left) > 0 {
		t.Errorf("left on the full disk: %v, %v", left, err)
	}
}
