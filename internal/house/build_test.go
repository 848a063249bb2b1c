package house

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build runs hack/go-build with a go in its path that does what script says, and returns what a user
// sees in a pipe and the exit code.
func build(t *testing.T, script string) (string, int) {
	t.Helper()
	files(t) // a result from the cache is good only while hack/go-build did not change
	fake := t.TempDir()
	if err := os.WriteFile(filepath.Join(fake, "go"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	command := exec.Command(filepath.Join(repository(t), "hack", "go-build"), "build it", "first build: takes long", "-o", "it", "./cmd/it")
	command.Env = append(os.Environ(), "PATH="+fake+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+fake, "BUILD_PROGRESS_SECONDS=0")
	command.Stdout, command.Stderr = &seen, &seen
	err := command.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("run hack/go-build: %v", err)
	}
	return seen.String(), command.ProcessState.ExitCode()
}

func TestBuildIsSilentWhenEverythingIsCached(t *testing.T) {
	if seen, code := build(t, "exit 0"); seen != "" || code != 0 {
		t.Errorf("hack/go-build printed %q and exited %d, want nothing and 0", seen, code)
	}
}

func TestBuildPassesOnErrorsAndExitCode(t *testing.T) {
	const problem = "./main.go:3:38: undefined: y"
	seen, code := build(t, `case $1 in build) printf '# example.com/it\n`+problem+`\n' >&2; exit 3 ;; esac`)
	if code != 3 {
		t.Errorf("hack/go-build exited %d, want 3, the exit code of go build", code)
	}
	for _, wanted := range []string{"# example.com/it\n", problem + "\n", "build it: failed after "} {
		if !strings.Contains(seen, wanted) {
			t.Errorf("hack/go-build printed %q, want in it %q", seen, wanted)
		}
	}
}

// The number of stale packages comes from go list beside the build; the fake build waits until
// hack/go-build has it in its temporary file.
func TestBuildShowsHowFarItIs(t *testing.T) {
	seen, code := build(t, `
case $1 in
list)
  case "$*" in *" -o "*) exit 1 ;; esac
  yes x | head -500 ;;
build)
  echo 'go: downloading example.com/a v1.0.0' >&2
  echo example.com/a/b >&2
  tries=0
  while [ -z "$(find "$TMPDIR" -name 'tmp.*' ! -name '*.part' -size +0)" ] && [ $tries -lt 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  echo example.com/a/c >&2 ;;
esac`)
	if code != 0 {
		t.Errorf("hack/go-build exited %d, want 0", code)
	}
	for _, wanted := range []string{
		"downloading modules, 1 so far", "build it: first build: takes long\n", "2 of 500 packages, example.com/a/c\n",
	} {
		if !strings.Contains(seen, wanted) {
			t.Errorf("hack/go-build printed %q, want in it %q", seen, wanted)
		}
	}
}
