package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// module is the import path of the root module.
const module = "github.com/segue-dev/segue"

// repository returns the absolute path of the top of the tree.
func repository(t *testing.T) string {
	t.Helper()
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(top, "lab", "go.mod")); err != nil {
		t.Fatalf("find the top of the repository: %v", err)
	}
	return top
}

// skipped names folders that hold no source of the project.
func skipped(name string) bool {
	return name == ".git" || name == "bin" || name == ".cache" || name == ".idea" || name == ".vscode"
}

// files returns the content of every text file of the tree by its path below the top. Opening all of
// them is also what makes a cached result of these tests valid: go test notices a change in any.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	top := repository(t)
	found := map[string][]byte{}
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's file, gone again
		}
		if err != nil {
			return err
		}
		if !bytes.ContainsRune(content, 0) {
			below, err := filepath.Rel(top, name)
			if err != nil {
				return err
			}
			found[filepath.ToSlash(below)] = content
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// listed is what go list says about one package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// lists keeps what go list said, since it takes a second or more each time.
var lists = map[string][]listed{}

// list runs go list in a folder below the top and returns the packages that it finds.
func list(t *testing.T, folder string, arguments ...string) []listed {
	t.Helper()
	files(t) // a result of go test from its cache is good only while no file changed
	question := folder + " " + strings.Join(arguments, " ")
	if known, ok := lists[question]; ok {
		return known
	}
	out := run(t, folder, "go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports,Deps"}, arguments...)...)
	var packages []listed
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			lists[question] = packages
			return packages
		}
		if err != nil {
			t.Fatalf("read the output of go list %s: %v", strings.Join(arguments, " "), err)
		}
		packages = append(packages, p)
	}
}

// run executes a program in a folder below the top and returns what it printed.
func run(t *testing.T, folder, program string, arguments ...string) []byte {
	t.Helper()
	var problem bytes.Buffer
	command := exec.Command(program, arguments...)
	command.Dir = filepath.Join(repository(t), folder)
	command.Stderr = &problem
	out, err := command.Output()
	if err != nil {
		t.Fatalf("run %s %s in %s: %v\n%s", program, strings.Join(arguments, " "), command.Dir, err, problem.String()[:min(problem.Len(), 2000)])
	}
	return out
}

// within says whether an import path is one of the roots or below one.
func within(importPath string, roots ...string) bool {
	for _, root := range roots {
		if importPath == root || strings.HasPrefix(importPath, root+"/") {
			return true
		}
	}
	return false
}

// room returns the path of a package below the root module, such as internal/decide.
func room(p listed) string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// at names a file and a line for a message.
func at(name string, content []byte, offset int) string {
	return fmt.Sprintf("%s:%d", path.Clean(name), 1+bytes.Count(content[:offset], []byte("\n")))
}

// exists says whether a path below the top is a file or a folder of the tree.
func exists(t *testing.T, name string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(repository(t), filepath.FromSlash(name)))
	return err == nil
}
