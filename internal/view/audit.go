package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/segue-dev/segue/internal/audit"
)

// AuditSchema names the format of `segue audit -o json`.
const AuditSchema = "segue.dev/audit/v1"

// AuditJSON writes a report as one document on one line.
func AuditJSON(w io.Writer, r audit.Report) error {
	doc := struct {
		Schema   string          `json:"schema"`
		Findings []audit.Finding `json:"findings"`
	}{AuditSchema, r.Findings}
	if doc.Findings == nil {
		doc.Findings = []audit.Finding{}
	}
	return auditEncode(w, doc, "")
}

// AuditBaseline writes a baseline, a finding a line, so that its changes can be read.
func AuditBaseline(w io.Writer, b audit.Baseline) error { return auditEncode(w, b, "  ") }

func auditEncode(w io.Writer, doc any, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(doc); err != nil {
		return fmt.Errorf("encode an audit: %w", err)
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write an audit: %w", err)
	}
	return nil
}

// AuditTable writes a report for people: the objects with their findings, then what was counted.
func AuditTable(w io.Writer, r audit.Report, o TextOptions) error {
	if o.Width == 0 {
		o.Width = 110
	}
	t := &textPage{TextOptions: o}
	t.Width = max(o.Width, 60)
	var places audit.Locator
	for start := 0; start < len(r.Findings); {
		end := start
		for end < len(r.Findings) && sameObject(r.Findings[start], r.Findings[end]) {
			end++
		}
		t.auditObject(&places, r.Findings[start:end])
		start = end
	}
	t.line(auditSummary(r))
	if _, err := w.Write(t.out.Bytes()); err != nil {
		return fmt.Errorf("write an audit as a table: %w", err)
	}
	return nil
}

// sameObject says whether two findings are of one object of one file.
func sameObject(a, b audit.Finding) bool {
	return a.Object == b.Object && a.File() == b.File()
}

func (t *textPage) auditObject(places *audit.Locator, findings []audit.Finding) {
	title := findings[0].Object
	if parts := strings.Split(title, "/"); len(parts) >= 4 {
		kind, namespace, name := parts[len(parts)-3], parts[len(parts)-2], parts[len(parts)-1]
		title = kind + " " + name
		if namespace != "" {
			title = kind + " " + namespace + "/" + name
		}
	}
	file, line := places.Position(findings[0])
	if len(findings) > 1 {
		line = 0
	}
	where := file
	if line > 0 {
		where = fmt.Sprintf("%s:%d", file, line)
	}
	if title != where && where != "" {
		title = t.bold(title) + "  " + t.dim(where)
	} else {
		title = t.bold(title)
	}
	t.line(title)
	for _, f := range findings {
		line := 0
		if len(findings) > 1 {
			_, line = places.Position(f)
		}
		t.auditFinding(f, line)
	}
	t.line("")
}

var severityStyles = map[audit.Severity]string{audit.Critical: styleBad, audit.Error: styleBad, audit.Warning: styleDoubt, audit.Info: styleDim}

func (t *textPage) auditFinding(f audit.Finding, line int) {
	where := f.Path
	if line > 0 {
		where = strings.TrimSpace(fmt.Sprintf("%s (line %d)", where, line))
	}
	severity := fmt.Sprintf("%-8s", f.Severity)
	t.line("  " + t.paint(severityStyles[f.Severity], severity) + "  " + t.bold(f.ID) + "  " + t.dim(where))
	t.auditText("", f.Message)
	if f.Effective != "" {
		t.auditText("in force: ", f.Effective)
	}
	t.auditText("remedy: ", f.Remedy)
}

// auditText writes a sentence of a finding, wrapped under its label.
func (t *textPage) auditText(label, text string) {
	const indent = "            "
	for i, line := range auditWrap(label+text, t.Width-len(indent)) {
		if i == 0 && label != "" {
			line = t.dim(label) + strings.TrimPrefix(line, label)
		}
		t.line(indent + line)
	}
}

func auditWrap(text string, width int) []string {
	var lines []string
	current := ""
	for word := range strings.FieldsSeq(text) {
		if current != "" && len([]rune(current))+1+len([]rune(word)) > width {
			lines = append(lines, current)
			current = word
			continue
		}
		if current != "" {
			current += " "
		}
		current += word
	}
	return append(lines, current)
}

func auditSummary(r audit.Report) string {
	counts := map[audit.Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	var parts []string
	for _, s := range []audit.Severity{audit.Critical, audit.Error, audit.Warning, audit.Info} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no findings"}
	}
	text := fmt.Sprintf("%s in %d objects", strings.Join(parts, ", "), r.Objects)
	if r.Objects == 1 {
		text = strings.Join(parts, ", ") + " in 1 object"
	}
	if r.Ignored > 0 {
		text += fmt.Sprintf("; %d ignored with a reason", r.Ignored)
	}
	if r.Known > 0 {
		text += fmt.Sprintf("; %d known from the baseline", r.Known)
	}
	return text
}
