package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/segue-dev/segue/internal/audit/schemas"
)

// openAPI is what is read of a schema, in OpenAPI 2 and in a CRD.
type openAPI struct {
	Type                 string                                  `json:"type"`
	Format               string                                  `json:"format"`
	Ref                  string                                  `json:"$ref"`
	Properties           map[string]openAPI                      `json:"properties"`
	Items                *openAPI                                `json:"items"`
	AdditionalProperties json.RawMessage                         `json:"additionalProperties"`
	Enum                 []any                                   `json:"enum"`
	Default              any                                     `json:"default"`
	IntOrString          bool                                    `json:"x-kubernetes-int-or-string"`
	PreserveUnknown      bool                                    `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded             bool                                    `json:"x-kubernetes-embedded-resource"`
	Kinds                []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

const definitions = "#/definitions/"

// builtIn returns the lines for the built-in kinds and for the definitions that they need.
func builtIn(document []byte) ([]string, error) {
	var spec struct{ Definitions map[string]openAPI }
	if err := json.Unmarshal(document, &spec); err != nil {
		return nil, err
	}
	var lines []string
	needed := map[string]bool{}
	var need func(s openAPI)
	need = func(s openAPI) {
		if name := strings.TrimPrefix(s.Ref, definitions); name != "" && !needed[name] {
			needed[name] = true
			need(spec.Definitions[name])
		}
		for _, p := range s.Properties {
			need(p)
		}
		if s.Items != nil {
			need(*s.Items)
		}
		if values := values(s); values != nil {
			need(*values)
		}
	}
	for name, s := range spec.Definitions {
		if len(s.Kinds) != 1 || strings.HasSuffix(s.Kinds[0].Kind, "List") {
			continue // options of requests, and lists, which Read takes apart
		}
		k := s.Kinds[0]
		lines = append(lines, schemas.KindLine(k.Group, k.Version, k.Kind, shorten(name)))
		need(openAPI{Ref: definitions + name})
	}
	for name := range needed {
		line, err := schemas.DefinitionLine(shorten(name), compact(spec.Definitions[name]))
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// fromCRD returns the lines for the served versions of a CRD.
func fromCRD(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
				Schema struct{ OpenAPIV3Schema openAPI }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	var lines []string
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		name := crd.Spec.Group + "." + v.Name + "." + crd.Spec.Names.Kind
		s := compact(v.Schema.OpenAPIV3Schema)
		if s.Properties == nil {
			return nil, fmt.Errorf("version %s has no properties", v.Name)
		}
		s.Properties["metadata"] = &schemas.Schema{Ref: "meta.v1.ObjectMeta"}
		line, err := schemas.DefinitionLine(name, s)
		if err != nil {
			return nil, err
		}
		lines = append(lines, schemas.KindLine(crd.Spec.Group, v.Name, crd.Spec.Names.Kind, name), line)
	}
	return lines, nil
}

// shorten cuts the long prefixes of definition names, which stand in every reference.
func shorten(name string) string {
	for _, prefix := range []string{"io.k8s.apimachinery.pkg.apis.", "io.k8s.apimachinery.pkg.", "io.k8s.kube-aggregator.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis.", "io.k8s.api."} {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			return short
		}
	}
	return name
}

// compact keeps of a schema what says whether a field exists and what type it has.
func compact(s openAPI) *schemas.Schema {
	out := &schemas.Schema{Type: s.Type, Ref: shorten(strings.TrimPrefix(s.Ref, definitions)), Default: s.Default}
	switch {
	case s.IntOrString, s.Format == "int-or-string":
		out.Type = schemas.IntOrString
	case out.Ref == "api.resource.Quantity":
		out.Type, out.Ref = schemas.Quantity, ""
	}
	for name, p := range s.Properties {
		if out.Properties == nil {
			out.Properties = map[string]*schemas.Schema{}
		}
		out.Properties[name] = compact(p)
	}
	if s.Items != nil {
		out.Items = compact(*s.Items)
	}
	if v := values(s); v != nil {
		out.Values = compact(*v)
	}
	out.Open = s.PreserveUnknown || s.Embedded || s.Ref == "" && (s.Type == "" && !s.IntOrString || s.Type == "object" && out.Properties == nil && out.Values == nil)
	for _, e := range s.Enum {
		if text, ok := e.(string); ok {
			out.Enum = append(out.Enum, text)
		}
	}
	return out
}

// values returns the schema of a map's values; additionalProperties may also be just true or false.
func values(s openAPI) *openAPI {
	if len(s.AdditionalProperties) == 0 || s.AdditionalProperties[0] != '{' {
		return nil
	}
	var v openAPI
	if json.Unmarshal(s.AdditionalProperties, &v) != nil {
		return nil
	}
	return &v
}
