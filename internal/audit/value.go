package audit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// converter turns YAML nodes into the values that JSON has, which is what an API server gets: map[string]any, []any, string,
// bool, int64, float64 and nil. It reads plain words as the Kubernetes clients do, by YAML 1.1: yes, on and y are true.
type converter struct {
	limits Limits
	nodes  int
	// duplicates holds the paths of keys that stand twice in one map; the last one wins, as with the clients.
	duplicates []string
	// open holds the aliases that are being put in, to find one that contains itself.
	open map[*yaml.Node]bool
}

// valueError is an error with the line of the document, from 1, that it is about.
type valueError struct {
	line int
	text string
}

func (e valueError) Error() string { return e.text }

func (c *converter) value(n *yaml.Node, path string, depth int) (any, error) {
	c.nodes++
	if c.nodes > c.limits.Nodes {
		return nil, valueError{n.Line, fmt.Sprintf("more than %d values (aliases put in): split the document", c.limits.Nodes)}
	}
	if depth > c.limits.Depth {
		return nil, valueError{n.Line, fmt.Sprintf("nested more than %d deep", c.limits.Depth)}
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 0 {
			return nil, nil
		}
		return c.value(n.Content[0], path, depth)
	case yaml.AliasNode:
		if c.open[n.Alias] {
			return nil, valueError{n.Line, "the alias *" + n.Value + " contains itself"}
		}
		if c.open == nil {
			c.open = map[*yaml.Node]bool{}
		}
		c.open[n.Alias] = true
		defer delete(c.open, n.Alias)
		return c.value(n.Alias, path, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			v, err := c.value(item, path+"["+strconv.Itoa(i)+"]", depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		return c.mapping(n, path, depth)
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, errors.New("empty document")
}

func (c *converter) mapping(n *yaml.Node, path string, depth int) (any, error) {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style == 0 {
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return nil, valueError{key.Line, "a key that is not a plain word"}
		}
		at := join(path, key.Value)
		v, err := c.value(n.Content[i+1], at, depth+1)
		if err != nil {
			return nil, err
		}
		if _, twice := m[key.Value]; twice {
			c.duplicates = append(c.duplicates, at)
		}
		m[key.Value] = v
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style == 0 {
			if err := c.merge(m, n.Content[i+1], path, depth); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// merge adds the entries of a merge key (<<) that m does not have itself.
func (c *converter) merge(m map[string]any, n *yaml.Node, path string, depth int) error {
	v, err := c.value(n, path, depth+1)
	if err != nil {
		return err
	}
	sources, isList := v.([]any)
	if !isList {
		sources = []any{v}
	}
	for _, source := range sources {
		entries, ok := source.(map[string]any)
		if !ok {
			return valueError{n.Line, "a merge key (<<) takes a map or a list of maps"}
		}
		for key, value := range entries {
			if _, has := m[key]; !has {
				m[key] = value
			}
		}
	}
	return nil
}

// yaml11 holds the plain words that are not strings for the Kubernetes clients.
var yaml11 = map[string]any{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"true": true, "True": true, "TRUE": true, "n": false, "N": false, "no": false, "No": false, "NO": false,
	"off": false, "Off": false, "OFF": false, "false": false, "False": false, "FALSE": false,
	"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
}

func scalar(n *yaml.Node) (any, error) {
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Value, nil
	}
	if n.Style&yaml.TaggedStyle != 0 && n.ShortTag() == "!!str" {
		return n.Value, nil
	}
	if v, ok := yaml11[n.Value]; ok {
		return v, nil
	}
	if first := n.Value[0]; !strings.ContainsRune("0123456789+-.", rune(first)) {
		return n.Value, nil
	}
	plain := strings.ReplaceAll(n.Value, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return i, nil
	}
	if tag := n.ShortTag(); tag == "!!float" || tag == "!!int" {
		f, err := strconv.ParseFloat(plain, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, valueError{n.Line, fmt.Sprintf("the number %s, which JSON cannot hold", n.Value)}
		}
		return f, nil
	}
	return n.Value, nil
}

// join appends a key to a path; keys with dots or slashes are quoted, as in metadata.annotations["a/b"].
func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, `./[]"' `) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
