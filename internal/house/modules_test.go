package house

import (
	"encoding/json"
	"strings"
	"testing"
)

// required returns the modules that the go.mod of a folder below the top names. It names every module that
// the packages need, also indirectly.
func required(t *testing.T, folder string) []string {
	t.Helper()
	var file struct {
		Require []struct{ Path string }
	}
	if err := json.Unmarshal(run(t, folder, "go", "mod", "edit", "-json"), &file); err != nil {
		t.Fatalf("read %s/go.mod: %v", folder, err)
	}
	var paths []string
	for _, r := range file.Require {
		paths = append(paths, r.Path)
	}
	if len(paths) == 0 {
		t.Fatalf("read %s/go.mod: it requires nothing, which cannot be", folder)
	}
	return paths
}

// versions returns, by its path, the version of each module that the packages of a folder below the top
// are built with, replacements applied.
func versions(t *testing.T, folder string) map[string]string {
	t.Helper()
	const version = `{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}`
	built := map[string]string{}
	for line := range strings.Lines(string(run(t, folder, "go", "list", "-deps", "-f", version, "./..."))) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok && version != "" {
			built[name] = version
		}
	}
	return built
}

// Segue is tested in the lab, so the lab must be built with what Segue is built with. For all other
// modules that both need, one version keeps the build cache common: a different golang.org/x/net alone
// compiles the Kubernetes client libraries a second time.
func TestModulesResolveTheSameVersions(t *testing.T) {
	files(t) // a result from the cache is good only while no file changed
	root, lab := versions(t, "."), versions(t, "lab")

	shared := 0
	for name, version := range root {
		other, both := lab[name]
		if !both {
			continue
		}
		if within(name, "sigs.k8s.io/controller-runtime") || strings.HasPrefix(name, "k8s.io/") {
			shared++
		}
		if version != other {
			t.Errorf("the root module is built with %s %s, lab/ with %s: make them the same with go get", name, version, other)
		}
	}
	if shared < 5 {
		t.Errorf("found %d modules of Kubernetes in both builds, want client-go, api, controller-runtime and more", shared)
	}
}

func TestRootModuleStaysLight(t *testing.T) {
	files(t)
	heavy := []string{
		"k8s.io/kubernetes", "go.etcd.io/etcd/server", "sigs.k8s.io/karpenter", "sigs.k8s.io/kwok",
		"github.com/chromedp/chromedp", module + "/lab",
	}
	for _, name := range required(t, ".") {
		if within(name, heavy...) {
			t.Errorf("go.mod requires %s: only lab/go.mod may", name)
		}
	}
}

func TestNoWorkspaceFileIsCommitted(t *testing.T) {
	files(t)
	for name := range strings.SplitSeq(string(run(t, ".", "git", "ls-files", "-z")), "\x00") {
		if strings.HasSuffix(name, "go.work") || strings.HasSuffix(name, "go.work.sum") {
			t.Errorf("%s is committed: the modules must resolve without it", name)
		}
	}
}

// The tests of the lab run with the race detector and in seconds because they start the control plane
// as child processes. A package that links it would compile all of Kubernetes once more for each of both.
func TestOnlyTheLabBinaryLinksTheControlPlane(t *testing.T) {
	files(t)
	linking := []string{module + "/lab/internal/components", module + "/lab/cmd/segue-lab"}
	controlPlane := []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3", "sigs.k8s.io/karpenter", "sigs.k8s.io/kwok"}
	linked := 0
	for _, p := range list(t, "lab", "-deps", "-test", "./...") {
		name, _, _ := strings.Cut(p.ImportPath, " ") // a package built for a test carries the test's name behind it
		name = strings.TrimSuffix(strings.TrimSuffix(name, ".test"), "_test")
		if !within(name, module+"/lab") {
			continue
		}
		allowed := within(name, linking...)
		for _, dependency := range p.Deps {
			if !within(dependency, controlPlane...) {
				continue
			}
			if !allowed {
				t.Errorf("%s links %s: start it as a child process (package controlplane) instead", name, dependency)
				break
			}
			linked++
		}
	}
	if linked == 0 {
		t.Errorf("none of %s links the control plane: this test looks at the wrong packages", strings.Join(linking, ", "))
	}
}
