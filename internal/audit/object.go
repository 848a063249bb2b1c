package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Object is one Kubernetes object as it is written, and where.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// Content is the whole object, as JSON values.
	Content map[string]any
	// Duplicates are the paths of keys that stand twice in the text.
	Duplicates []string
	// Ignores are the findings that the object's own annotation and comments take out.
	Ignores []Ignore

	document Document
	prefix   string // path of the object in its document: empty, or items[3] in a List
}

// ID returns apiVersion/kind/namespace/name, the way that findings name objects; the namespace may be empty.
func (o *Object) ID() string {
	return o.APIVersion + "/" + o.Kind + "/" + o.Namespace + "/" + o.Name
}

// File names the input that the object comes from.
func (o *Object) File() string { return o.document.File }

// Group returns the API group, which is empty for the core one.
func (o *Object) Group() string {
	if group, _, ok := strings.Cut(o.APIVersion, "/"); ok {
		return group
	}
	return ""
}

// Read parses a document. A List gives its items, and what is not a Kubernetes object (no apiVersion or no kind) gives none.
func Read(d Document, l Limits) ([]*Object, *Problem) {
	if len(d.Text) > l.Bytes {
		return nil, &Problem{File: d.File, Line: d.Line, Message: fmt.Sprintf("the document has %d bytes, more than %d: split it", len(d.Text), l.Bytes)}
	}
	content, duplicates, err := parse(d.Text, l)
	if err != nil {
		return nil, problem(d, err)
	}
	object, ok := content.(map[string]any)
	if !ok {
		return nil, nil
	}
	var objects []*Object
	ignores := commentIgnores(d)
	add := func(content map[string]any, prefix string) {
		if o := newObject(content, d, prefix); o != nil {
			o.Ignores = append(o.Ignores, ignores...)
			for _, path := range duplicates {
				if below, inside := strings.CutPrefix(path, prefix); inside {
					o.Duplicates = append(o.Duplicates, strings.TrimPrefix(below, "."))
				}
			}
			objects = append(objects, o)
		}
	}
	kind, _ := object["kind"].(string)
	items, isList := object["items"].([]any)
	if !isList || !strings.HasSuffix(kind, "List") {
		add(object, "")
		return objects, nil
	}
	for i, item := range items {
		if m, ok := item.(map[string]any); ok {
			add(m, "items["+strconv.Itoa(i)+"]")
		}
	}
	return objects, nil
}

// newObject returns nil for what is not a Kubernetes object.
func newObject(content map[string]any, d Document, prefix string) *Object {
	o := &Object{Content: content, document: d, prefix: prefix}
	o.APIVersion, _ = content["apiVersion"].(string)
	o.Kind, _ = content["kind"].(string)
	if o.APIVersion == "" || o.Kind == "" {
		return nil
	}
	if metadata, ok := content["metadata"].(map[string]any); ok {
		o.Namespace, _ = metadata["namespace"].(string)
		o.Name, _ = metadata["name"].(string)
		if o.Name == "" {
			if generated, _ := metadata["generateName"].(string); generated != "" {
				o.Name = generated + "*"
			}
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			text, _ := annotations[IgnoreAnnotation].(string)
			o.Ignores = parseIgnores(text)
		}
	}
	return o
}

// parse reads one document as JSON values.
func parse(text []byte, l Limits) (any, []string, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' && depth(trimmed) <= l.Depth {
		if v, err := parseJSON(trimmed); err == nil {
			return v, nil, nil
		} // and else it may be YAML in its flow style
	}
	var node yaml.Node
	if err := decode(text, &node); err != nil {
		return nil, nil, err
	}
	c := converter{limits: l}
	v, err := c.value(&node, "", 0)
	return v, c.duplicates, err
}

// decode parses YAML into a node. The library panics on some hostile texts; here that is an error like any other.
func decode(text []byte, node *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return yaml.Unmarshal(text, node)
}

// depth returns how deep brackets are nested in a text, strings not looked at, which can only make it more.
func depth(text []byte) int {
	deepest, now := 0, 0
	for _, c := range text {
		switch c {
		case '{', '[':
			now++
			deepest = max(deepest, now)
		case '}', ']':
			now--
		}
	}
	return deepest
}

func parseJSON(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("more than one value")
	}
	return numbers(v), nil
}

// numbers replaces json.Number by int64 or float64.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = numbers(value)
		}
	case []any:
		for i, value := range v {
			v[i] = numbers(value)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// parserError matches the messages of go-yaml's parser, which counts lines from 0 where its scanner counts from 1.
var parserError = regexp.MustCompile(`^did not find expected (node content|'|key|<)`)

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// problem turns an error of the parser, which counts lines from the document's start, into one that counts in the file.
func problem(d Document, err error) *Problem {
	p := &Problem{File: d.File, Line: d.Line, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	var at valueError
	if errors.As(err, &at) {
		p.Line += at.line - 1
	} else if found := yamlLine.FindStringSubmatch(p.Message); found != nil {
		line, _ := strconv.Atoi(found[1])
		p.Message = strings.TrimPrefix(p.Message, found[0])
		if parserError.MatchString(p.Message) {
			line++
		}
		last := bytes.Count(bytes.TrimRight(d.Text, "\n"), []byte("\n")) // an end that came too early is reported behind it
		p.Line += min(max(line-1, 0), last)
	}
	if bytes.Contains(d.Text, []byte("{{")) {
		p.Template = true
		p.Message += " (it looks like a template: audit what `helm template` renders from it)"
	}
	return p
}

// Locator finds the lines of paths. It keeps the document that it parsed last, so it is fast for findings in their order, and
// needs little memory. The zero value is ready for use.
type Locator struct {
	parsed *Object
	root   *yaml.Node
}

// Line returns the line of the file at which a path of the object stands, or the nearest part of it that is written.
func (l *Locator) Line(o *Object, path string) int {
	if l.parsed == nil || l.parsed.document.File != o.document.File || l.parsed.document.Line != o.document.Line {
		l.parsed, l.root = o, &yaml.Node{}
		if decode(o.document.Text, l.root) != nil {
			l.root = nil
		}
	}
	if l.root == nil || len(l.root.Content) == 0 {
		return o.document.Line
	}
	node := l.root.Content[0]
	line := node.Line
	if o.prefix != "" {
		path = o.prefix + "." + path
	}
	for _, step := range steps(path) {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return o.document.Line + line - 1
}

// child returns what stands under a key or an index, and its line.
func child(n *yaml.Node, step string) (*yaml.Node, int) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line
		}
	}
	return nil, 0
}

// steps takes a path apart: spec.containers[0].env["a.b"] is spec, containers, 0, env, a.b.
func steps(path string) []string {
	var out []string
	for len(path) > 0 {
		switch {
		case path[0] == '.':
			path = path[1:]
		case strings.HasPrefix(path, `["`):
			quoted, err := strconv.QuotedPrefix(path[1:])
			if err != nil {
				return out
			}
			key, _ := strconv.Unquote(quoted)
			out = append(out, key)
			path = strings.TrimPrefix(path[1+len(quoted):], "]")
		case path[0] == '[':
			index, rest, _ := strings.Cut(path[1:], "]")
			out = append(out, index)
			path = rest
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out = append(out, path[:end])
			path = path[end:]
		}
	}
	return out
}

// at returns the value under a path of maps, and whether it is there.
func (o *Object) at(keys ...string) (any, bool) {
	var v any = o.Content
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// text returns the string under a path of maps, or "".
func (o *Object) text(keys ...string) string {
	v, _ := o.at(keys...)
	s, _ := v.(string)
	return s
}
