package view

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
)

var (
	//go:embed page.css
	pageCSS string
	//go:embed page.html.tmpl
	pageTemplate string

	page = template.Must(template.New("page").Parse(pageTemplate))
)

// HTML writes rehearsals as one self-contained page: no script, and nothing to load from anywhere. The same documents
// always give the same bytes. It fails only when w fails.
func HTML(w io.Writer, docs []Rehearsal) error {
	var out bytes.Buffer
	if err := page.Execute(&out, newPage(docs)); err != nil {
		return fmt.Errorf("make the page of %s: %w", count(len(docs), "rehearsal"), err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write the page of %s: %w", count(len(docs), "rehearsal"), err)
	}
	return nil
}

// The types below are what the template sees. Texts are cleaned; html/template escapes them.
type htmlPage struct {
	Title     string
	CSS       template.CSS
	Scenarios []htmlScenario
}

type htmlScenario struct {
	ID, Name, Title string
	Headline        []string
	Verdict         htmlVerdict
	Measures        []string
	Runs            []htmlRun
	Expectations    []htmlExpectation
	Met             int
	Legend          []legendEntry
}

type htmlVerdict struct{ Class, Symbol, Word string }

type htmlRun struct {
	Name, About, Outcome string
	Cells                []htmlCell
	Strips               []template.HTML
	Empty                bool
	Events               []htmlEvent
}

type htmlCell struct {
	Value, Unit string
	Loss        bool
}

type htmlEvent struct{ T, Kind, Object, Reason, Message string }

type htmlExpectation struct {
	Met             bool
	Mode, Text, Got string
}

func newPage(docs []Rehearsal) htmlPage {
	p := htmlPage{Title: "Segue rehearsal", CSS: template.CSS(pageCSS)}
	if len(docs) == 1 {
		p.Title += ": " + clean(docs[0].Scenario)
	} else {
		p.Title += ": " + count(len(docs), "scenario")
	}
	for i, doc := range docs {
		p.Scenarios = append(p.Scenarios, newScenario("scenario-"+strconv.Itoa(i+1), doc))
	}
	return p
}

func newScenario(id string, doc Rehearsal) htmlScenario {
	s := htmlScenario{ID: id, Name: clean(doc.Scenario), Title: clean(doc.Title), Headline: headline(doc)}
	if s.Name == "" {
		s.Name = "unnamed scenario"
	}
	s.Verdict = newVerdict(doc.Verdict)
	for _, m := range measures {
		s.Measures = append(s.Measures, m.name)
	}
	names := runNames(doc.Runs)
	picture := newPicture(doc.Runs)
	for i, r := range doc.Runs {
		s.Runs = append(s.Runs, newRun(names[i], r, picture))
	}
	s.Legend = legend(picture.dense)
	for _, e := range doc.Expectations {
		s.Expectations = append(s.Expectations, htmlExpectation{e.Met, modeName(e.Mode), clean(e.Text), clean(e.Got)})
		if e.Met {
			s.Met++
		}
	}
	return s
}

func newVerdict(v Verdict) htmlVerdict {
	symbol, word := verdictWords(v)
	class := "doubt"
	if v == VerdictPass || v == VerdictFail {
		class = string(v)
	}
	return htmlVerdict{class, symbol, word}
}

func newRun(name string, r Run, p *picture) htmlRun {
	run := htmlRun{Name: name, About: modeAbout(r.Mode), Outcome: outcome(r)}
	for _, m := range measures {
		value, unit := m.value(r)
		run.Cells = append(run.Cells, htmlCell{value, unit, m.isLoss(r)})
	}
	t := r.Timeline
	run.Empty = len(t.Nodes)+len(t.Services)+len(t.Failures)+len(t.Steps) == 0
	if !run.Empty {
		for _, s := range p.run(r) {
			run.Strips = append(run.Strips, s.SVG())
		}
	}
	for _, e := range r.Events {
		run.Events = append(run.Events, htmlEvent{moment(e.T), clean(e.Kind), clean(e.Object), clean(e.Reason), clean(e.Message)})
	}
	return run
}

// modeAbout says what a mode is.
func modeAbout(m Mode) string {
	switch m {
	case ModeStock:
		return "the cluster as it is"
	case ModeSegue:
		return "Segue installed"
	}
	return ""
}

// legendEntry is one line of the legend: a small picture and what it means.
type legendEntry struct {
	Sign template.HTML
	Text string
}

// legend explains every phase, mark and band that a picture can show, and the blocks of many pods if there are any.
func legend(dense bool) []legendEntry {
	var list []legendEntry
	add := func(width float64, text string, draw func(*canvas)) {
		c := &canvas{}
		draw(c)
		svg := `<svg class="sign" aria-hidden="true" viewBox="0 0 ` + num(width) + ` 15" width="` + num(width) + `" height="15">`
		list = append(list, legendEntry{template.HTML(svg + c.out.String() + "</svg>"), text})
	}
	for _, phase := range []PodPhase{PodStarting, PodReady, PodNotReady, PodStopping} {
		add(30, "pod "+phaseName(phase), func(c *canvas) { c.textured(0.5, 0.5, 29, 14, "bar bar-"+phaseClass(phase), "") })
	}
	if dense {
		add(40, "the same for one of many pods", func(c *canvas) {
			for i, phase := range []PodPhase{PodStarting, PodReady, PodNotReady, PodStopping} {
				for row := range 3 {
					c.rect(float64(i)*10, float64(row)*5, 10, 4, "thin thin-"+phaseClass(phase), "")
				}
			}
		})
	}
	add(30, "node is there", func(c *canvas) { c.roundRect(0.5, 0.5, 29, 14, 3, "node", "") })
	add(30, "node is tainted", func(c *canvas) {
		c.roundRect(0.5, 0.5, 29, 14, 3, "node", "")
		c.textured(0.5, 0.5, 29, 14, "taint", "")
		c.line(1, 0.5, 1, 14.5, "taint-edge")
	})
	add(30, "no ready endpoint", func(c *canvas) { c.textured(0.5, 0.5, 29, 14, "gap", "") })
	for _, kind := range []MarkKind{MarkStep, MarkHandover, MarkEvictionDenied, MarkEvictionAllowed, MarkDeletion} {
		add(14, markName(kind), func(c *canvas) {
			done := c.group("mark mark-"+markClass(kind), "")
			c.symbol(kind, 7, 7.5)
			done()
		})
	}
	add(26, "six marks close together", func(c *canvas) { c.text(13, 11.5, "t-note", atMiddle, "×6", "") })
	return list
}
