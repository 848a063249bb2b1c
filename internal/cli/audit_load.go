package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/segue-dev/segue/internal/audit"
)

// maxInput bounds what is read in one run, so that an endless input ends in an error.
const maxInput = 256 << 20

// manifests is what was read.
type manifests struct {
	objects  []*audit.Object
	problems []audit.Problem
	// notes say what was left out and how to have it audited.
	notes []string
}

// reader reads files one after the other and keeps count of the bytes.
type reader struct {
	documents []audit.Document
	notes     []string
	left      int64
}

// loadManifests reads files, folders and, for "-", standard input. A document that is broken is a problem beside the others; an
// input that cannot be read at all is an error.
func loadManifests(inputs []string, charts chartInputs, in io.Reader) (manifests, error) {
	l := &reader{left: maxInput}
	for _, input := range inputs {
		if err := l.input(input, in); err != nil {
			return manifests{}, err
		}
	}
	var values []*audit.Object
	for _, folder := range charts.folders {
		given, err := l.loadChart(folder, charts.values)
		if err != nil {
			return manifests{}, err
		}
		values = append(values, given...)
	}
	loaded := parseDocuments(l.documents)
	loaded.objects = append(loaded.objects, values...)
	loaded.notes = append(l.notes, loaded.leaveOutTemplates(inputs)...)
	if len(loaded.objects)+len(loaded.problems) == 0 {
		loaded.notes = append(loaded.notes, "no Kubernetes object was found in "+strings.Join(append(slices.Clone(inputs), charts.folders...), ", "))
	}
	return loaded, nil
}

// leaveOutTemplates turns the problems of templates that were met in a folder into one note a file; those that were asked for by name
// stay problems.
func (m *manifests) leaveOutTemplates(inputs []string) []string {
	var notes []string
	m.problems = slices.DeleteFunc(m.problems, func(p audit.Problem) bool {
		if !p.Template || slices.Contains(inputs, p.File) || p.File == "-" {
			return false
		}
		note := p.File + " looks like a template and was left out where it is no YAML: audit what is rendered from it"
		if len(notes) == 0 || notes[len(notes)-1] != note {
			notes = append(notes, note)
		}
		return true
	})
	return notes
}

func (l *reader) input(input string, in io.Reader) error {
	if input == "-" {
		return l.read("-", in)
	}
	info, err := os.Stat(input)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	if info.IsDir() && kustomizationOf(input) != "" {
		return l.kustomize(input)
	}
	if info.IsDir() && exists(filepath.Join(input, "Chart.yaml")) {
		_, err := l.loadChart(input, nil)
		return err
	}
	if info.IsDir() {
		return l.folder(input)
	}
	return l.file(input)
}

func (l *reader) file(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	defer file.Close()
	return l.read(filepath.ToSlash(name), file)
}

func (l *reader) read(name string, from io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(from, l.left+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if l.left -= int64(len(text)); l.left < 0 {
		return fmt.Errorf("read %s: more than %d MiB of manifests: audit them in parts", name, maxInput>>20)
	}
	l.documents = append(l.documents, audit.Split(name, text)...)
	return nil
}

// folder reads the YAML and JSON files of a folder and of those below, but not what is no manifest though it is YAML: templates and
// values of Helm charts, and the files that a kustomization lists as patches.
func (l *reader) folder(root string) error {
	patches := map[string]bool{}
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
		if entry.IsDir() {
			return l.enter(root, name, patches)
		}
		extension := strings.ToLower(filepath.Ext(name))
		if !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, extension) || patches[filepath.Clean(name)] {
			return nil
		}
		if exists(filepath.Join(filepath.Dir(name), "Chart.yaml")) {
			return nil // Chart.yaml itself and the values
		}
		return l.file(name)
	})
}

// enter decides whether a folder is walked, and notes what its kustomization lists as patches.
func (l *reader) enter(root, name string, patches map[string]bool) error {
	base := filepath.Base(name)
	if name != root && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "vendor") {
		return filepath.SkipDir
	}
	if base == "templates" && exists(filepath.Join(filepath.Dir(name), "Chart.yaml")) {
		chart := filepath.ToSlash(filepath.Dir(name))
		l.notes = append(l.notes, fmt.Sprintf("%s is a Helm chart and was left out: segue audit --chart %s", chart, chart))
		return filepath.SkipDir
	}
	found, err := kustomizationPatches(name)
	if err != nil {
		return err
	}
	for _, patch := range found {
		patches[patch] = true
	}
	if len(found) > 0 {
		l.notes = append(l.notes, fmt.Sprintf("%s patches its resources, and they were read unpatched: segue audit -f %s", filepath.ToSlash(name), filepath.ToSlash(name)))
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// parseDocuments parses on all cores and keeps the order.
func parseDocuments(documents []audit.Document) manifests {
	type result struct {
		objects []*audit.Object
		problem *audit.Problem
	}
	results := make([]result, len(documents))
	const batch = 64
	var workers sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for start := range next {
				for i := start; i < min(start+batch, len(documents)); i++ {
					results[i].objects, results[i].problem = audit.Read(documents[i], audit.DefaultLimits)
				}
			}
		})
	}
	for start := 0; start < len(documents); start += batch {
		next <- start
	}
	close(next)
	workers.Wait()
	var all manifests
	for _, r := range results {
		all.objects = append(all.objects, r.objects...)
		if r.problem != nil {
			all.problems = append(all.problems, *r.problem)
		}
	}
	return all
}
