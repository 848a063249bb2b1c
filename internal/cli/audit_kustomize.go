package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/segue-dev/segue/internal/audit"
)

// kustomizationNames are the names that kustomize looks for.
var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomizationOf returns the kustomization file of a folder, or "".
func kustomizationOf(folder string) string {
	for _, name := range kustomizationNames {
		if info, err := os.Stat(filepath.Join(folder, name)); err == nil && info.Mode().IsRegular() {
			return filepath.Join(folder, name)
		}
	}
	return ""
}

// kustomize builds a folder with kustomize's own library and reads the result. Plugins and charts stay off, and nothing is downloaded.
func (l *reader) kustomize(folder string) error {
	if remote := remoteResource(folder, map[string]bool{}); remote != "" {
		return fmt.Errorf("build the kustomization %s: it takes %s from elsewhere, and audit downloads nothing: kubectl kustomize %s | segue audit -f -", folder, remote, folder)
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	result, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return fmt.Errorf("build the kustomization %s: %w", folder, err)
	}
	text, err := result.AsYaml()
	if err != nil {
		return fmt.Errorf("build the kustomization %s: %w", folder, err)
	}
	l.documents = append(l.documents, audit.Split(filepath.ToSlash(folder)+" (built)", text)...)
	return nil
}

// kustomization is what is read of the file before kustomize sees it.
type kustomization struct {
	Resources, Bases, Components, CRDs []string
	Patches                            []struct{ Path string }
	PatchesStrategicMerge              []yaml.Node             `yaml:"patchesStrategicMerge"`
	PatchesJSON6902                    []struct{ Path string } `yaml:"patchesJson6902"`
	Transformers, Generators           []yaml.Node
}

// remoteResource returns the first resource of a folder, or of those that it is built from, that is no path on this disk, or "".
func remoteResource(folder string, seen map[string]bool) string {
	if seen[filepath.Clean(folder)] {
		return ""
	}
	seen[filepath.Clean(folder)] = true
	text, err := os.ReadFile(kustomizationOf(folder))
	var k kustomization
	if err != nil || yaml.Unmarshal(text, &k) != nil {
		return "" // kustomize says what is wrong
	}
	for _, name := range slices.Concat(k.Resources, k.Bases, k.Components) {
		if strings.Contains(name, "\n") {
			continue // written in place
		}
		below := filepath.Join(folder, filepath.FromSlash(name))
		info, err := os.Stat(below)
		if err != nil {
			return name
		}
		if info.IsDir() {
			if remote := remoteResource(below, seen); remote != "" {
				return remote
			}
		}
	}
	return ""
}

// kustomizationPatches returns the files that the kustomization of a folder lists as patches or transformers.
func kustomizationPatches(folder string) ([]string, error) {
	file := kustomizationOf(folder)
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	var k kustomization
	if yaml.Unmarshal(text, &k) != nil {
		return nil, nil // it is read like any other file, and reported there
	}
	var patches []string
	add := func(path string) {
		if path != "" && !strings.Contains(path, "\n") {
			patches = append(patches, filepath.Join(folder, filepath.FromSlash(path)))
		}
	}
	for _, p := range append(k.Patches, k.PatchesJSON6902...) {
		add(p.Path)
	}
	for _, n := range slices.Concat(k.PatchesStrategicMerge, k.Transformers, k.Generators) {
		add(n.Value)
	}
	return patches, nil
}
