package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure lists the rooms that only think: data in, data out.
var pure = []string{"internal/decide", "internal/audit"}

// A pure room must not reach what acts on a cluster, however far down; apimachinery and the API types
// are data and allowed.
func TestPureRoomsReachNoClient(t *testing.T) {
	banned := []string{
		"k8s.io/client-go", "k8s.io/cli-runtime", "sigs.k8s.io/controller-runtime",
		module + "/internal/cluster", module + "/internal/operator", module + "/internal/report", module + "/internal/cli",
	}
	packages := pureRooms(t)
	for _, p := range packages {
		for _, dependency := range p.Deps {
			if within(dependency, banned...) {
				t.Errorf("%s depends on %s and perhaps more: it must get by with data", room(p), dependency)
				break
			}
		}
	}
}

// Beside clients a pure room has no context, log, network, file, process or chance of its own.
func TestPureRoomsImportNoSideEffects(t *testing.T) {
	banned := []string{"context", "io/fs", "log", "math/rand", "math/rand/v2", "net", "os", "sync", "syscall", "k8s.io/klog/v2", "k8s.io/utils/clock", "github.com/go-logr"}
	for _, p := range pureRooms(t) {
		for _, imported := range p.Imports {
			if within(imported, banned...) {
				t.Errorf("%s imports %s: pass in what it needs as data", room(p), imported)
			}
		}
	}
}

// Time comes in as data, and a decision is made by whoever asked, not by a goroutine.
func TestPureRoomsReadNoClockAndStartNothing(t *testing.T) {
	clocks := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	for _, p := range pureRooms(t) {
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: %s starts a goroutine", set.Position(n.Pos()), room(p))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
						t.Errorf("%s: %s calls time.%s: take the time from the world that was passed in", set.Position(n.Pos()), room(p), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// pureRooms returns the packages of the pure rooms that exist.
func pureRooms(t *testing.T) []listed {
	t.Helper()
	var found []listed
	for _, p := range list(t, ".", "./...") {
		if within(room(p), pure...) {
			found = append(found, p)
		}
	}
	if !slices.ContainsFunc(found, func(p listed) bool { return room(p) == "internal/decide" }) {
		t.Fatal("internal/decide is not there: these tests look at the wrong place")
	}
	return found
}

// Only internal/cluster reads from and writes to a cluster. The operator hands a manager's caches and client over to it, and
// maps what a cache reports to pods; the commands hand over a configuration. Tests may use what they like.
func TestOnlyClusterHoldsAClient(t *testing.T) {
	clients := []string{
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/discovery", "k8s.io/client-go/metadata",
		"k8s.io/client-go/scale", "k8s.io/client-go/informers", "k8s.io/client-go/listers",
		"sigs.k8s.io/controller-runtime/pkg/client",
	}
	data := []string{ // below the above, but no client
		"k8s.io/client-go/kubernetes/scheme", "sigs.k8s.io/controller-runtime/pkg/client/config",
	}
	holder := false
	for _, p := range list(t, ".", "./...") {
		for _, imported := range p.Imports {
			if !within(imported, clients...) || within(imported, data...) {
				continue
			}
			switch {
			case within(room(p), "internal/cluster"):
				holder = true
			case within(room(p), "internal/operator") && imported == "sigs.k8s.io/controller-runtime/pkg/client":
				// For the types that caches and controllers speak in; that it writes nothing, the next test sees to.
			default:
				t.Errorf("%s imports %s: reading and writing a cluster is internal/cluster's", room(p), imported)
			}
		}
	}
	if !holder {
		t.Error("internal/cluster holds no client: this test looks for the wrong imports")
	}
}

// The operator is glue: what is written to a cluster is an action of a decision, and internal/cluster writes it.
func TestOperatorWritesNothingItself(t *testing.T) {
	writes := []string{"Create", "Update", "Patch", "Apply", "Delete", "DeleteAllOf"}
	looked := 0
	for _, p := range list(t, ".", "./internal/operator/...") {
		for _, name := range p.GoFiles {
			looked++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(writes, method.Sel.Name) && !isHands(method.X) {
					t.Errorf("%s: %s calls %s: let internal/cluster apply an action", set.Position(call.Pos()), room(p), method.Sel.Name)
				}
				return true
			})
		}
	}
	if looked == 0 {
		t.Error("internal/operator has no files: this test looks at the wrong place")
	}
}

// isHands says whether an expression is the operator's hands, cluster.Hands, by the name that they have there.
func isHands(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name == "hands"
	case *ast.Ident:
		return x.Name == "hands"
	}
	return false
}

// The rooms form one direction; a room must not import the one that calls it.
func TestRoomsDoNotImportTheirCallers(t *testing.T) {
	callers := map[string][]string{
		"api":              {"internal", "cmd"},
		"internal/decide":  {"internal/cluster", "internal/report", "internal/operator", "internal/cli", "cmd"},
		"internal/cluster": {"internal/report", "internal/operator", "internal/cli", "cmd"},
		"internal/report":  {"internal/operator", "internal/cli", "cmd"},
		"internal/view":    {"internal/cluster", "internal/report", "internal/operator", "internal/cli", "cmd"},
	}
	for _, p := range list(t, ".", "./...") {
		for own, forbidden := range callers {
			if !within(room(p), own) {
				continue
			}
			for _, imported := range p.Imports {
				if below, ok := strings.CutPrefix(imported, module+"/"); ok && within(below, forbidden...) {
					t.Errorf("%s imports %s, which stands above it", room(p), below)
				}
			}
		}
	}
}

// A package is named after what it is about, and says so in its doc comment (staticcheck ST1000).
func TestPackagesHaveSpeakingNames(t *testing.T) {
	empty := []string{"util", "utils", "helper", "helpers", "common", "misc", "shared", "base", "lib"}
	for name, content := range files(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.PackageClauseOnly)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if slices.Contains(empty, file.Name.Name) {
			t.Errorf("%s: package %s says nothing about what is in it", name, strconv.Quote(file.Name.Name))
		}
	}
}
