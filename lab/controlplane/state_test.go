package controlplane

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStateDirRefusesWhatItCannotUse(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(root, "closed")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir, want string
		asRoot    bool
	}{
		"not empty":          {root, "not empty", true},
		"parent missing":     {filepath.Join(root, "a", "b"), "no such file or directory", true},
		"below a file":       {filepath.Join(file, "lab"), "not a directory", true},
		"no permission":      {filepath.Join(closed, "lab"), "permission denied", false},
		"not writable":       {closed, "permission denied", false},
		"a file, not a dir.": {file, "not a directory", true},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.asRoot && os.Getuid() == 0 {
				t.Skip("root may write anywhere")
			}
			_, err := openStateDir(c.dir, false)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--dir") {
				t.Errorf("got %v, want an error with %q that points to --dir", err, c.want)
			}
		})
	}
}

func TestStateDirNeedsRoom(t *testing.T) {
	err := checkRoom(t.TempDir(), math.MaxUint64)
	if err == nil || !strings.Contains(err.Error(), "no space") || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("got %v, want an error that says that there is no space and points to --dir", err)
	}
}

func TestStateDirRemovesOnlyWhatTheLabMade(t *testing.T) {
	given := t.TempDir()
	made := filepath.Join(given, "made")
	for _, dir := range []string{made, given} {
		s, err := openStateDir(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.file(kubeconfig), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Errorf("a directory that the lab made is still there: %v", err)
	}
	left, err := os.ReadDir(given)
	if err != nil || len(left) > 0 {
		t.Errorf("a directory that was given: got %v, %v, want it there and empty", left, err)
	}
}

func TestStateDirIsKept(t *testing.T) {
	s, err := openStateDir(filepath.Join(t.TempDir(), "lab"), true)
	if err != nil {
		t.Fatal(err)
	}
	if s.removeWhenOrphaned() != "" {
		t.Error("a directory that is to be kept would be removed when the parent dies")
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.file(logDirectory)); err != nil {
		t.Errorf("the logs are gone: %v", err)
	}
}

func TestRunningLabIsTheOneWhoseLockIsHeld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), dirPrefix+"1")
	s, err := openStateDir(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, running := runningSince(dir); running {
		t.Error("running, but it has no kubeconfig yet")
	}
	if err := os.WriteFile(s.file(kubeconfig), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, running := runningSince(dir); !running {
		t.Error("not running, but its lock is held")
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if _, running := runningSince(dir); running {
		t.Error("running, but nobody holds its lock")
	}
}
