package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The kind under which the values for a chart are looked at.
const (
	valuesVersion = "chart.audit.segue.dev/v1"
	valuesKind    = "Values"
)

// Values is what is known of the values that were given to a Helm chart, after rendering it.
type Values struct {
	// Chart is the chart's name.
	Chart string
	// Document is the values file, for file and lines.
	Document Document
	// Defaults are the chart's own values.
	Defaults map[string]any
	// Given are the values of the file.
	Given map[string]any
	// Unread are the paths of given values that change nothing in what is rendered.
	Unread []string
}

// Object returns the values as an object that the rules can look at.
func (v Values) Object() *Object {
	unread := make([]any, 0, len(v.Unread))
	for _, path := range v.Unread {
		unread = append(unread, path)
	}
	content := map[string]any{
		"apiVersion": valuesVersion, "kind": valuesKind, "metadata": map[string]any{"name": v.Chart},
		"given": v.Given, "defaults": v.Defaults, "unread": unread,
	}
	o := newObject(content, v.Document, "")
	o.Ignores = append(o.Ignores, commentIgnores(v.Document)...)
	return o
}

func chartRules() []Rule {
	return []Rule{{
		ID: "chart-value-unread", Severity: Error, Title: "a value that no template of the chart reads",
		Why: "Helm accepts any value. One at a level, or under a name, that no template reads changes nothing, without a word. A value is reported when " +
			"the chart has no such default and nothing that is rendered changes with it.",
		Remedy: "Set the key that the chart reads, or remove the value.",
		check:  checkUnreadValues,
	}}
}

func checkUnreadValues(inv *Inventory, r *reporter) {
	for _, o := range inv.kinds[valuesKind] {
		if o.APIVersion != valuesVersion {
			continue
		}
		defaults, _ := o.at("defaults")
		list, _ := o.at("unread")
		unread, _ := list.([]any)
		for _, item := range unread {
			path, _ := item.(string)
			if _, known := valueAt(defaults, steps(path)); known || path == "" {
				continue // the chart has it, and reads it under other conditions
			}
			given, _ := o.at("given")
			value, _ := valueAt(given, steps(path))
			d := detail{path: path, effective: "nothing: the value is not read",
				message: fmt.Sprintf("no template of the chart %s reads %s, so %s is not in force", o.Name, path, shown(value))}
			if right := nearestKey(asMap(defaults), path); right != "" {
				now, _ := valueAt(defaults, steps(right))
				d.effective = fmt.Sprintf("%s is %s (the chart's default)", right, shown(now))
				if own, set := valueAt(given, steps(right)); set {
					d.effective = fmt.Sprintf("%s is %s", right, shown(own))
				}
				d.remedy = "Write it as " + right + "."
			}
			r.add(o, d)
		}
	}
}

// valueAt returns what stands under a path of maps, and whether the path is known: also below an empty or missing value, which
// takes anything.
func valueAt(v any, path []string) (any, bool) {
	for i, step := range path {
		m, ok := v.(map[string]any)
		if i > 0 && len(m) == 0 {
			return nil, v == nil || ok
		}
		if v, ok = m[step]; !ok {
			return nil, false
		}
	}
	return v, true
}

// nearestKey returns the path of a default that an unread value most likely means: the same last key at another level, or a
// key at the same level but for a letter or two.
func nearestKey(defaults map[string]any, path string) string {
	parts := steps(path)
	last, parent := parts[len(parts)-1], parts[:len(parts)-1]
	if siblings, ok := valueAt(defaults, parent); ok {
		for _, key := range slices.Sorted(maps.Keys(asMap(siblings))) {
			if distance(strings.ToLower(key), strings.ToLower(last)) <= 2 && len(last) > 3 {
				return joined(append(slices.Clone(parent), key))
			}
		}
	}
	var found []string
	var look func(m map[string]any, at []string)
	look = func(m map[string]any, at []string) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			here := append(slices.Clone(at), key)
			if strings.EqualFold(key, last) && len(here) <= len(parts)+2 {
				found = append(found, joined(here))
			}
			look(asMap(m[key]), here)
		}
	}
	look(defaults, nil)
	if len(found) != 1 {
		return "" // none, or more than one could be meant
	}
	return found[0]
}

func joined(parts []string) string {
	path := ""
	for _, part := range parts {
		path = join(path, part)
	}
	return path
}
