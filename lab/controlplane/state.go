package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// minRoom is the free space below which a lab does not start: etcd's first files and a few minutes of logs.
	minRoom = 256 << 20
	// memoryRoom is the free space from which on memory-backed storage is chosen: as much as etcd may ever take, and logs.
	memoryRoom = 4 << 30

	memoryDir    = "/dev/shm"
	dirPrefix    = "segue-lab-"
	lockFile     = "lock"
	kubeconfig   = "kubeconfig"
	logDirectory = "logs"
)

// stateDir is the directory of one lab. A lab that runs holds a lock in it, which ends with the process.
type stateDir struct {
	path    string
	lock    *os.File
	created bool // the directory itself, not only what is in it
	keep    bool
}

// openStateDir makes or takes over the state directory of a lab. On an error nothing is left behind.
func openStateDir(path string, keep bool) (*stateDir, error) {
	s := &stateDir{path: path, keep: keep}
	if err := s.create(); err != nil {
		return nil, err
	}
	if err := s.fill(); err != nil {
		s.keep = false // nothing in it yet that is worth keeping
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stateDir) create() error {
	if s.path == "" {
		path, err := os.MkdirTemp(temporaryRoot(), dirPrefix)
		if err != nil {
			return fmt.Errorf("make state directory: %w: choose another place with --dir", err)
		}
		s.path, s.created = path, true
		return nil
	}
	path, err := filepath.Abs(s.path)
	if err != nil {
		return fmt.Errorf("state directory %s: %w", s.path, err)
	}
	s.path = path
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("make state directory: %w: choose another place with --dir", err)
		}
		s.created = true
	case err != nil:
		return fmt.Errorf("state directory %s: %w: choose another place with --dir", path, err)
	case len(entries) > 0:
		return fmt.Errorf("state directory %s: not empty: choose an empty or a new one with --dir", path)
	}
	return nil
}

// fill checks the room, takes the lock and makes the subdirectories.
func (s *stateDir) fill() error {
	if err := checkRoom(s.path, minRoom); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("state directory %s: %w: choose another place with --dir", s.path, err)
	}
	s.lock = lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("state directory %s: lock it: %w", s.path, err)
	}
	if err := os.Mkdir(filepath.Join(s.path, logDirectory), 0o700); err != nil {
		return fmt.Errorf("state directory %s: %w", s.path, err)
	}
	return nil
}

// close gives the lock back and removes what the lab wrote, unless it is to be kept.
func (s *stateDir) close() error {
	if s.lock != nil {
		_ = s.lock.Close() // gives the lock back; nothing was written
	}
	if s.keep {
		return nil
	}
	if s.created {
		return os.RemoveAll(s.path)
	}
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.path, e.Name())))
	}
	return err
}

// removeWhenOrphaned is the directory that the last component removes when the parent is gone; empty for none. One that
// the caller provided is left to the caller.
func (s *stateDir) removeWhenOrphaned() string {
	if s.keep || !s.created {
		return ""
	}
	return s.path
}

func (s *stateDir) file(elem ...string) string {
	return filepath.Join(append([]string{s.path}, elem...)...)
}

// temporaryRoot is where new state directories go: memory where there is room, since etcd writes all the time.
func temporaryRoot() string {
	if checkRoom(memoryDir, memoryRoom) == nil {
		return memoryDir
	}
	return os.TempDir()
}

// checkRoom fails when fewer than need bytes are free for this user at path.
func checkRoom(path string, need uint64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return fmt.Errorf("state directory %s: %w", path, err)
	}
	if free := uint64(fs.Bavail) * uint64(fs.Bsize); free < need {
		return fmt.Errorf("state directory %s: no space: %d MiB free, a lab needs %d MiB: choose another place with --dir", path, free>>20, need>>20)
	}
	return nil
}

// FindKubeconfig is the admin kubeconfig of the lab in dir or, when dir is empty, of the lab that this user started last
// and that still runs in a temporary directory.
func FindKubeconfig(dir string) (string, error) {
	if dir != "" {
		path := filepath.Join(dir, kubeconfig)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("find the lab in %s: %w", dir, err)
		}
		return path, nil
	}
	var newest string
	var since time.Time
	for _, root := range []string{memoryDir, os.TempDir()} {
		candidates, err := filepath.Glob(filepath.Join(root, dirPrefix+"*"))
		if err != nil {
			return "", fmt.Errorf("find a running lab: %w", err)
		}
		for _, c := range candidates {
			if started, ok := runningSince(c); ok && started.After(since) {
				newest, since = c, started
			}
		}
	}
	if newest == "" {
		return "", errors.New("find a running lab: none runs in a temporary directory: start one with `segue-lab up`, or name its --dir")
	}
	return filepath.Join(newest, kubeconfig), nil
}

// runningSince tells whether a lab of this user runs in dir. Directories of others are not trusted: a kubeconfig can name
// programs to run.
func runningSince(dir string) (time.Time, bool) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return time.Time{}, false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
		return time.Time{}, false
	}
	lock, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil || !strings.HasPrefix(filepath.Base(dir), dirPrefix) {
		return time.Time{}, false
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return time.Time{}, false // nobody holds it
	}
	written, err := os.Stat(filepath.Join(dir, kubeconfig))
	if err != nil {
		return time.Time{}, false
	}
	return written.ModTime(), true
}
