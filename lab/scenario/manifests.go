package scenario

import (
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// manifests parses a file of YAML documents whose marker is at line marker of the scenario file.
func (p *parser) manifests(name string, marker int, data string) {
	objects, wrong := []Manifest{}, len(p.errs)
	for _, doc := range splitDocuments(data) {
		first := marker + 1 + doc.offset
		var fields map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc.text), &fields); err != nil {
			line, msg := yamlError(err, first)
			p.fail(line, "%s: broken YAML: %s", name, msg)
			continue
		}
		if len(fields) == 0 { // only comments
			continue
		}
		object := &unstructured.Unstructured{Object: fields}
		line := first + doc.blankLines()
		switch {
		case object.GetAPIVersion() == "" || object.GetKind() == "":
			p.fail(line, "%s: the object has no apiVersion or no kind", name)
		case object.GetName() == "":
			p.fail(line, "%s: the %s has no metadata.name", name, object.GetKind())
		default:
			objects = append(objects, Manifest{Line: line, Object: object})
		}
	}
	if len(objects) == 0 && len(p.errs) == wrong {
		p.fail(marker, "file %q holds no object", name)
	}
	p.s.Manifests[name] = objects
}

// document is one YAML document of a file.
type document struct {
	text   string
	offset int // lines of the file before it
}

// blankLines counts the lines before the document's first content.
func (d document) blankLines() int {
	n := 0
	for _, line := range strings.Split(d.text, "\n") {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "#") {
			return n
		}
		n++
	}
	return n
}

func splitDocuments(data string) []document {
	var docs []document
	var current document
	for i, line := range strings.SplitAfter(data, "\n") {
		if strings.TrimRight(line, " \t\r\n") == "---" {
			docs = append(docs, current)
			current = document{offset: i + 1}
			continue
		}
		current.text += line
	}
	return append(docs, current)
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// yamlError turns the line of a YAML error, which counts from the document's first line, into the line of the scenario
// file, and removes the library's prefixes.
func yamlError(err error, first int) (line int, msg string) {
	line = first
	msg = strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	msg = strings.TrimPrefix(msg, "yaml: ")
	msg = strings.TrimPrefix(msg, "unmarshal errors:\n  ")
	if m := yamlLine.FindStringSubmatchIndex(msg); m != nil {
		n, err := strconv.Atoi(msg[m[2]:m[3]])
		if err == nil {
			line = first + n - 1
			msg = msg[:m[0]] + "line " + strconv.Itoa(line) + msg[m[1]:]
			msg = strings.TrimPrefix(msg, "line "+strconv.Itoa(line)+": ")
		}
	}
	return line, msg
}
