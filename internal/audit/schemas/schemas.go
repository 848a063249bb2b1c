// Package schemas knows which fields the kinds of Kubernetes, Karpenter, KEDA and Argo Rollouts have, of which type, and with
// which defaults. The data is generated (lab/schemas) and embedded; nothing is read at run time. It must not judge manifests:
// that is package audit's.
package schemas

import (
	_ "embed" // the generated schemas
	"encoding/json"
	"fmt"
	"strings"
)

// Types beyond those of JSON.
const (
	IntOrString = "int-or-string"
	Quantity    = "quantity"
)

// Schema is what is known of one value. The JSON names are short because there are thousands.
type Schema struct {
	// Type is object, array, string, integer, number, boolean, IntOrString or Quantity; empty with a Ref.
	Type string `json:"t,omitempty"`
	// Ref names another definition, which replaces this one.
	Ref string `json:"r,omitempty"`
	// Properties are the fields of an object.
	Properties map[string]*Schema `json:"p,omitempty"`
	// Items is what an array holds.
	Items *Schema `json:"i,omitempty"`
	// Values is what a map with free keys holds.
	Values *Schema `json:"v,omitempty"`
	// Open says that unknown fields are kept.
	Open bool `json:"o,omitempty"`
	// Enum lists the values that a string may have.
	Enum []string `json:"e,omitempty"`
	// Default is what the server puts in.
	Default any `json:"d,omitempty"`
}

//go:embed schemas.txt
var generated string

// Set is a collection of kinds. It parses a definition when it is first asked for, so it is not safe for several goroutines.
type Set struct {
	kinds   map[string]string // group/version/kind to the name of a definition
	source  map[string]string // definition to its JSON
	parsed  map[string]*Schema
	version map[string][]string // group/kind to its known versions
}

// Builtin returns the kinds that were generated into the binary.
func Builtin() *Set {
	s := &Set{kinds: map[string]string{}, source: map[string]string{}, parsed: map[string]*Schema{}, version: map[string][]string{}}
	for line := range strings.Lines(generated) {
		name, content, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if kind, isKind := strings.CutPrefix(name, "@"); isKind {
			s.kinds[kind] = content
			parts := strings.SplitN(kind, "/", 3)
			s.version[parts[0]+"/"+parts[2]] = append(s.version[parts[0]+"/"+parts[2]], parts[1])
		} else {
			s.source[name] = content
		}
	}
	return s
}

// Kind returns the schema of a kind, nil when it is not known. The core group is "".
func (s *Set) Kind(group, version, kind string) *Schema {
	name, ok := s.kinds[group+"/"+version+"/"+kind]
	if !ok {
		return nil
	}
	return s.definition(name)
}

// Versions returns the versions in which a kind is known; none when the kind is not known at all.
func (s *Set) Versions(group, kind string) []string { return s.version[group+"/"+kind] }

// Resolve follows references. It returns nil when a schema leads nowhere.
func (s *Set) Resolve(schema *Schema) *Schema {
	for range 8 {
		if schema == nil || schema.Ref == "" {
			return schema
		}
		schema = s.definition(schema.Ref)
	}
	return nil
}

func (s *Set) definition(name string) *Schema {
	if schema, ok := s.parsed[name]; ok {
		return schema
	}
	var schema *Schema
	if source, ok := s.source[name]; ok {
		schema = &Schema{}
		if json.Unmarshal([]byte(source), schema) != nil {
			schema = nil
		}
	}
	s.parsed[name] = schema
	return schema
}

// KindLine and DefinitionLine write the lines of the generated file.
func KindLine(group, version, kind, definition string) string {
	return "@" + group + "/" + version + "/" + kind + "\t" + definition
}

// DefinitionLine returns the line of a definition.
func DefinitionLine(name string, s *Schema) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode the schema %s: %w", name, err)
	}
	return name + "\t" + string(text), nil
}
