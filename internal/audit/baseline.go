package audit

import (
	"encoding/json"
	"fmt"
	"slices"
)

// BaselineSchema names the format of a baseline file.
const BaselineSchema = "segue.dev/audit-baseline/v1"

// Baseline is a set of findings that are known, so that only new ones are shown. It holds rule, object and path: a baseline
// outlives changes of wording, and a finding that moves to another object is new.
type Baseline struct {
	Schema   string   `json:"schema"`
	Findings []string `json:"findings"`

	known map[string]bool
}

// NewBaseline returns the baseline of a report's findings.
func NewBaseline(r Report) Baseline {
	b := Baseline{Schema: BaselineSchema, Findings: []string{}}
	for _, f := range r.Findings {
		b.Findings = append(b.Findings, f.key())
	}
	slices.Sort(b.Findings)
	b.Findings = slices.Compact(b.Findings)
	return b
}

// ParseBaseline reads a baseline file.
func ParseBaseline(text []byte) (*Baseline, error) {
	var b Baseline
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("read a baseline: %w", err)
	}
	if b.Schema != BaselineSchema {
		return nil, fmt.Errorf("read a baseline: its schema is %q, want %q: write it anew with --write-baseline", b.Schema, BaselineSchema)
	}
	b.known = map[string]bool{}
	for _, key := range b.Findings {
		b.known[key] = true
	}
	return &b, nil
}

func (b *Baseline) has(f Finding) bool { return b != nil && b.known[f.key()] }
