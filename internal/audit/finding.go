package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says how bad a finding is.
type Severity string

// The severities, the worst first. A finding of severity warning or worse makes `segue audit` exit with 1 unless told
// otherwise.
const (
	Critical Severity = "critical"
	Error    Severity = "error"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

var severities = []Severity{Critical, Error, Warning, Info}

// ParseSeverity reads a severity as users write it.
func ParseSeverity(text string) (Severity, error) {
	if s := Severity(text); slices.Contains(severities, s) {
		return s, nil
	}
	return "", fmt.Errorf("unknown severity %q: it is one of critical, error, warning, info", text)
}

// AtLeast says whether s is as bad as other or worse.
func (s Severity) AtLeast(other Severity) bool {
	return slices.Index(severities, s) <= slices.Index(severities, other)
}

// Finding is one thing that will hurt, or is not in force, in one object.
type Finding struct {
	// ID is that of the rule.
	ID string `json:"id"`
	// Severity is the rule's, or lower where the rule says so.
	Severity Severity `json:"severity"`
	// Object is apiVersion/kind/namespace/name; for a document that could not be read it is file:line.
	Object string `json:"object"`
	// Path is where in the object, such as spec.template.spec.containers[0].livenessProbe; empty for the whole.
	Path string `json:"path"`
	// Message says in one sentence what is wrong and what it leads to.
	Message string `json:"message"`
	// Effective is what is in force, where that differs from what one would think.
	Effective string `json:"effective"`
	// Remedy says what to change.
	Remedy string `json:"remedy"`

	source *Object
	file   string
	line   int
}

// Position returns the file and the line that a finding is about.
func (l *Locator) Position(f Finding) (file string, line int) {
	if f.source == nil {
		return f.file, f.line
	}
	return f.source.File(), l.Line(f.source, f.Path)
}

// key is what a baseline remembers of a finding: not its words, which change with versions of Segue.
func (f Finding) key() string { return f.ID + " " + f.Object + " " + f.Path }

// order sorts by object, then the worst first, then by rule and path.
func order(a, b Finding) int {
	return cmp.Or(
		strings.Compare(a.Object, b.Object), strings.Compare(a.File(), b.File()),
		cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
		strings.Compare(a.ID, b.ID), strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message),
	)
}

// File names the input that the finding comes from.
func (f Finding) File() string {
	if f.source == nil {
		return f.file
	}
	return f.source.File()
}
