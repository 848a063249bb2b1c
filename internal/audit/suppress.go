package audit

import (
	"bytes"
	"fmt"
	"strings"
)

// IgnoreAnnotation takes findings out of an object: "ID=reason; ID=reason".
const IgnoreAnnotation = "segue.dev/audit-ignore"

// ignoreComment does the same as a comment anywhere in the object's document: # segue:ignore ID=reason.
const ignoreComment = "segue:ignore"

// Ignore takes the findings of one rule out, with a reason that the next reader can judge.
type Ignore struct {
	ID     string
	Reason string
}

// ParseIgnore reads ID=reason, the value of --ignore. The reason is required.
func ParseIgnore(text string) (Ignore, error) {
	i := parseIgnore(text)
	switch {
	case i.Reason == "":
		return i, fmt.Errorf("--ignore %s: write ID=reason, such as single-replica-unprotected=\"a demo, may be away\"", text)
	case Lookup(i.ID) == nil:
		return i, fmt.Errorf("--ignore %s: there is no rule %q: see docs/audit.md for the list", text, i.ID)
	}
	return i, nil
}

func parseIgnore(text string) Ignore {
	id, reason, _ := strings.Cut(text, "=")
	return Ignore{ID: strings.TrimSpace(id), Reason: strings.TrimSpace(reason)}
}

func parseIgnores(text string) []Ignore {
	var ignores []Ignore
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) != "" {
			ignores = append(ignores, parseIgnore(part))
		}
	}
	return ignores
}

// commentIgnores returns the ignore comments of a document.
func commentIgnores(d Document) []Ignore {
	if !bytes.Contains(d.Text, []byte(ignoreComment)) {
		return nil
	}
	var ignores []Ignore
	for line := range bytes.Lines(d.Text) {
		_, comment, ok := strings.Cut(string(line), "#")
		if !ok {
			continue
		}
		if text, ok := strings.CutPrefix(strings.TrimSpace(comment), ignoreComment+" "); ok {
			ignores = append(ignores, parseIgnores(text)...)
		}
	}
	return ignores
}

// ignored says whether a finding is taken out by its own object or by one of the given ignores.
func ignored(f Finding, ignores []Ignore) bool {
	if f.ID == ruleIgnoreUseless {
		return false
	}
	for _, i := range ignores {
		if i.ID == f.ID {
			return true
		}
	}
	if f.source == nil {
		return false
	}
	for _, i := range f.source.Ignores {
		if i.ID == f.ID && i.Reason != "" {
			return true
		}
	}
	return false
}
