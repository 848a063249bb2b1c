package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/segue-dev/segue/internal/audit"
)

// kubeVersion is what charts are told that they are rendered for.
const kubeVersion = "v1.37.0"

// chartInputs are the charts to render and the values for them.
type chartInputs struct {
	folders, values []string
}

// loadChart renders a chart with Helm's own library, adds what comes out to the documents, and finds the given values that nothing
// reads. Nothing is downloaded: dependencies must be in the chart's charts/ folder.
func (l *reader) loadChart(folder string, valueFiles []string) ([]*audit.Object, error) {
	c, err := loadChartFolder(folder)
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	var files []audit.Values
	for _, name := range valueFiles {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read values: %w", err)
		}
		values, err := chartutil.ReadValues(text)
		if err != nil {
			return nil, fmt.Errorf("read values %s: %w", name, err)
		}
		given = chartutil.CoalesceTables(values, given) // the later file wins
		again, _ := chartutil.ReadValues(text)
		files = append(files, audit.Values{Chart: c.Name(), Given: again, Document: audit.Document{File: filepath.ToSlash(name), Line: 1, Text: text}})
	}
	rendered, err := render(folder, given)
	if err != nil {
		return nil, fmt.Errorf("render the chart %s: %w", folder, err)
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		l.documents = append(l.documents, audit.Split(name+" (rendered)", []byte(rendered[name]))...)
	}
	for _, crd := range c.CRDObjects() {
		l.documents = append(l.documents, audit.Split(filepath.ToSlash(filepath.Join(folder, crd.Filename)), crd.File.Data)...)
	}
	var objects []*audit.Object
	for _, f := range files {
		f.Defaults = defaultsOf(c)
		f.Unread = unreadValues(folder, f.Given, given, rendered)
		objects = append(objects, f.Object())
	}
	return objects, nil
}

// loadChartFolder reads a chart and says what is missing of it.
func loadChartFolder(folder string) (*chart.Chart, error) {
	if !exists(filepath.Join(folder, "Chart.yaml")) {
		return nil, fmt.Errorf("read the chart %s: it has no Chart.yaml: --chart takes the folder of a chart", folder)
	}
	c, err := loaderLoad(folder)
	if err != nil {
		return nil, fmt.Errorf("read the chart %s: %w", folder, err)
	}
	if missing := missingDependencies(c); len(missing) > 0 {
		return nil, fmt.Errorf("read the chart %s: the charts %s that it depends on are not in its charts/ folder: run helm dependency build %s",
			folder, strings.Join(missing, ", "), folder)
	}
	return c, nil
}

func missingDependencies(c *chart.Chart) []string {
	var missing []string
	for _, d := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(have *chart.Chart) bool { return have.Name() == d.Name }) {
			missing = append(missing, d.Name)
		}
	}
	return missing
}

// render returns what the chart's templates give, by template. The chart is read anew each time: rendering changes it.
func render(folder string, given map[string]any) (map[string]string, error) {
	c, err := loaderLoad(folder)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, given); err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *version
	values, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: c.Name(), Namespace: "default", Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	out, err := engine.Render(c, values)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(out, func(name, _ string) bool {
		base := filepath.Base(name)
		return strings.HasPrefix(base, "_") || base == "NOTES.txt"
	})
	return out, nil
}

// defaultsOf returns the chart's values, those of the charts that it depends on under their names.
func defaultsOf(c *chart.Chart) map[string]any {
	defaults := map[string]any{"global": map[string]any{}}
	maps.Copy(defaults, c.Values)
	for _, d := range c.Dependencies() {
		own := defaultsOf(d)
		if set, ok := defaults[d.Name()].(map[string]any); ok {
			own = chartutil.CoalesceTables(maps.Clone(set), own)
		}
		defaults[d.Name()] = own
	}
	return defaults
}

// unreadValues returns the paths of given values that can be changed without any change in what is rendered.
func unreadValues(folder string, file, given map[string]any, rendered map[string]string) []string {
	var unread []string
	for _, path := range leaves(file, nil) {
		changed := copyValues(given)
		if !changeAt(changed, path) {
			continue
		}
		out, err := render(folder, changed)
		if err != nil || !maps.Equal(out, rendered) {
			continue // what makes a template fail is read
		}
		unread = append(unread, strings.Join(path, "."))
	}
	return unread
}

// maxLeaves bounds how many values are tried, each by one rendering.
const maxLeaves = 500

// leaves returns the paths of values that are no maps; keys with dots are left out, since a path could not name them.
func leaves(m map[string]any, at []string) [][]string {
	var paths [][]string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		here := append(slices.Clone(at), key)
		if strings.Contains(key, ".") {
			continue
		}
		if below, ok := m[key].(map[string]any); ok {
			paths = append(paths, leaves(below, here)...)
		} else {
			paths = append(paths, here)
		}
	}
	return paths[:min(len(paths), maxLeaves)]
}

func copyValues(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		if below, ok := value.(map[string]any); ok {
			value = copyValues(below)
		}
		out[key] = value
	}
	return out
}

// changeAt replaces the value at a path by another of its type.
func changeAt(m map[string]any, path []string) bool {
	for _, key := range path[:len(path)-1] {
		below, ok := m[key].(map[string]any)
		if !ok {
			return false
		}
		m = below
	}
	last := path[len(path)-1]
	switch v := m[last].(type) {
	case string:
		m[last] = v + "-changed"
	case bool:
		m[last] = !v
	case float64:
		m[last] = v + 1
	case []any:
		m[last] = append(slices.Clone(v), "changed")
	default:
		m[last] = "changed"
	}
	return true
}

// loaderLoad reads a chart. The library panics on some broken charts; here that is an error.
func loaderLoad(folder string) (c *chart.Chart, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.Join(err, fmt.Errorf("the chart is broken: %v", r))
		}
	}()
	return loader.Load(folder)
}
