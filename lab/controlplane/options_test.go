package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOverrideReplacesFlagsOfTheSameName(t *testing.T) {
	got := override([]string{"--a=1", "--b=2", "--bb=3"}, []string{"--b=9", "--c"})
	want := []string{"--a=1", "--bb=3", "--b=9", "--c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

func TestOptionsAreCheckedBeforeAnythingStarts(t *testing.T) {
	notJSON := filepath.Join(t.TempDir(), "types.json")
	if err := os.WriteFile(notJSON, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"unknown component":      {Options{ExtraArgs: map[string][]string{"kubelet": {"--v=1"}}}, `component "kubelet": unknown, choose one of etcd, kube-apiserver`},
		"argument without --":    {Options{ExtraArgs: map[string][]string{APIServer: {"v=1"}}}, "--flag=value"},
		"Karpenter is not there": {Options{ExtraArgs: map[string][]string{Karpenter: {"--x=1"}}}, "without Karpenter"},
		"port out of range":      {Options{Port: 70000}, "out of range"},
		"no instance types":      {Options{Karpenter: &KarpenterOptions{InstanceTypesFile: "missing.json"}}, "missing.json"},
		"broken instance types":  {Options{Karpenter: &KarpenterOptions{InstanceTypesFile: notJSON}}, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.options.check()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check: got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestFindBinary(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		t.Setenv("SEGUE_LAB_BIN", "")
		t.Chdir(t.TempDir())
		if _, err := FindBinary(""); err == nil || !strings.Contains(err.Error(), "make build") {
			t.Errorf("got %v, want an error that tells to build it", err)
		}
	})
	t.Run("above the working directory", func(t *testing.T) {
		t.Setenv("SEGUE_LAB_BIN", "")
		root := t.TempDir()
		want := filepath.Join(root, "bin", "segue-lab")
		below := filepath.Join(root, "lab", "play")
		for _, dir := range []string{filepath.Dir(want), below} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(want, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Chdir(below)
		got, err := FindBinary("")
		if err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})
}
