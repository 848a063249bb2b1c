package view

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
)

// TextOptions say how Text writes.
type TextOptions struct {
	// Color adds bold and colour. They never carry meaning alone; see UseColor.
	Color bool
	// Width is the number of columns to stay within; 0 means 100, anything less than 60 counts as 60.
	Width int
}

// UseColor says whether text for w may be coloured: only when w is a terminal, NO_COLOR is unset or empty, and TERM is
// not "dumb".
func UseColor(w io.Writer) bool {
	file, isFile := w.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Text writes rehearsals for a terminal: the headline, the comparison of the runs, when each Service had no ready
// endpoint, and the expectations. It fails only when w fails.
func Text(w io.Writer, docs []Rehearsal, o TextOptions) error {
	if o.Width == 0 {
		o.Width = 100
	}
	t := &textPage{TextOptions: o}
	t.Width = max(o.Width, 60)
	for i, doc := range docs {
		if i > 0 {
			t.line("")
			t.line(t.dim(strings.Repeat("─", t.Width)))
			t.line("")
		}
		t.rehearsal(doc)
	}
	if len(docs) == 0 {
		t.line("No rehearsal was run.")
	}
	if _, err := w.Write(t.out.Bytes()); err != nil {
		return fmt.Errorf("write rehearsals as text: %w", err)
	}
	return nil
}

type textPage struct {
	TextOptions
	out bytes.Buffer
}

const (
	styleBold  = "1"
	styleDim   = "2"
	styleGood  = "32"
	styleBad   = "31"
	styleDoubt = "33"
)

func (t *textPage) line(s string) { t.out.WriteString(strings.TrimRight(s, " ") + "\n") }

func (t *textPage) paint(style, s string) string {
	if !t.Color || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

func (t *textPage) bold(s string) string { return t.paint(styleBold, s) }
func (t *textPage) dim(s string) string  { return t.paint(styleDim, s) }

func (t *textPage) rehearsal(doc Rehearsal) {
	symbol, word := verdictWords(doc.Verdict)
	style := map[Verdict]string{VerdictPass: styleGood, VerdictFail: styleBad}[doc.Verdict]
	if style == "" {
		style = styleDoubt
	}
	name := clean(doc.Scenario)
	if name == "" {
		name = "unnamed scenario"
	}
	t.line(t.bold(name) + "  " + t.paint(style, symbol+" "+word))
	for _, l := range wrap(clean(doc.Title), t.Width) {
		t.line(t.dim(l))
	}
	t.line("")
	for _, sentence := range headline(doc) {
		for _, l := range wrap(sentence, t.Width) {
			t.line(l)
		}
	}
	if len(doc.Runs) > 0 {
		t.line("")
		t.comparison(doc.Runs)
		t.endpoints(doc)
	}
	t.expectations(doc.Expectations)
}

// comparison is the table of measures, one column a run.
func (t *textPage) comparison(runs []Run) {
	const label = 18
	names := runNames(runs)
	cells := make([][]string, len(measures))
	width := 12
	for i, m := range measures {
		for _, r := range runs {
			value, unit := m.value(r)
			cell := strings.TrimSpace(value + " " + unit)
			cells[i] = append(cells[i], cell)
			width = max(width, columns(cell)+2)
		}
	}
	for _, n := range names {
		width = max(width, min(columns(n), 24)+2)
	}
	head := strings.Repeat(" ", label)
	for _, n := range names {
		head += left(cutEnd(strings.ToLower(n), width-2), width)
	}
	t.line(t.bold(strings.TrimRight(head, " ")))
	for i, m := range measures {
		row := left(strings.ToLower(m.name), label)
		for j, cell := range cells[i] {
			padded := left(cell, width)
			if m.isLoss(runs[j]) {
				padded = t.paint(styleBad, padded)
			}
			row += padded
		}
		t.line(row)
	}
}

// endpoints draws, for every Service and run, a strip of time in which `·` stands for no ready endpoint.
func (t *textPage) endpoints(doc Rehearsal) {
	a := newAxis(doc.Runs)
	names := runNames(doc.Runs)
	label := 18
	cells := min(t.Width-label-2, 80)
	drawn := false
	for i, r := range doc.Runs {
		for _, s := range r.Timeline.Services {
			if !drawn {
				t.line("")
				t.line(t.bold("ready endpoints") + t.dim(fmt.Sprintf("   ━ one or more   · none   (0 to %s)", seconds(a.end))))
				drawn = true
			}
			name := cutEnd(strings.ToLower(names[i])+" "+clean(s.Name), label-2)
			strip, lost := t.strip(s, a, r.Timeline.EndSeconds, cells)
			t.line(left(name, label) + strip)
			for _, g := range lost {
				t.line(strings.Repeat(" ", label) + t.paint(styleBad, fmt.Sprintf("none for %s, from %s to %s",
					seconds(g.To-g.From), moment(g.From), moment(g.To))))
			}
		}
	}
}

// strip is one Service's line. A gap shorter than a cell still takes one cell.
func (t *textPage) strip(s ServiceSeries, a axis, end float64, cells int) (string, []Span) {
	lost := gaps(s, min(end, a.end))
	line := []rune(strings.Repeat(" ", cells))
	cell := func(at float64) int { return int(math.Min(at/a.end*float64(cells), float64(cells-1))) }
	if len(s.Ready) > 0 && s.Ready[0].T < end {
		last := int(math.Round(math.Min(end/a.end, 1) * float64(cells)))
		for i := cell(max(s.Ready[0].T, 0)); i < last; i++ {
			line[i] = '━'
		}
	}
	for _, g := range lost {
		for i := cell(g.From); i <= cell(math.Nextafter(g.To, 0)); i++ {
			line[i] = '·'
		}
	}
	return string(line), lost
}

func (t *textPage) expectations(list []Expectation) {
	if len(list) == 0 {
		return
	}
	met := 0
	for _, e := range list {
		if e.Met {
			met++
		}
	}
	t.line("")
	t.line(t.bold("expectations") + t.dim(fmt.Sprintf("   %d of %d met", met, len(list))))
	for _, e := range list {
		result := t.paint(styleGood, "✓ met    ")
		if !e.Met {
			result = t.paint(styleBad, "✗ not met")
		}
		text := clean(e.Text)
		if e.Got != "" {
			text += "  (" + clean(e.Got) + ")"
		}
		lead := "  " + result + "  " + left(cutEnd(strings.ToLower(modeName(e.Mode)), 8), 8)
		for i, l := range wrap(text, t.Width-21) {
			if i > 0 {
				lead = strings.Repeat(" ", 21)
			}
			t.line(lead + l)
		}
	}
}

// left pads s on the right to width cells.
func left(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-columns(s)))
}
