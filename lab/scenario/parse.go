package scenario

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/segue-dev/segue/internal/view"
	"golang.org/x/tools/txtar"
)

// ParseFile reads a scenario file. Its error is an Errors, or that of reading the file.
func ParseFile(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a scenario from data; path gives the scenario its name and stands in the messages. Its error is an Errors.
func Parse(path string, data []byte) (*Scenario, error) {
	p := &parser{
		s: &Scenario{
			Name:      strings.TrimSuffix(filepath.Base(path), ".txtar"),
			File:      path,
			Manifests: map[string][]Manifest{},
		},
		vars:    map[string]bool{},
		applied: map[string]bool{},
	}
	p.parse(txtar.Parse(data))
	if len(p.errs) > 0 {
		slices.SortStableFunc(p.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
		return nil, p.errs
	}
	return p.s, nil
}

// parser holds what is known while a file is read from top to bottom.
type parser struct {
	s        *Scenario
	errs     Errors
	vars     map[string]bool // variables that a step above has set
	applied  map[string]bool // files that a step applies
	measured bool
}

func (p *parser) fail(line int, format string, args ...any) {
	p.errs = append(p.errs, &Error{File: p.s.File, Line: line, Msg: fmt.Sprintf(format, args...)})
}

// nameRule is what a scenario's name must look like, because it becomes the name of a namespace.
var nameRule = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (p *parser) parse(archive *txtar.Archive) {
	if !nameRule.MatchString(p.s.Name) {
		p.fail(1, "the scenario's name %q, from its file name, must be lower-case letters, digits and dashes: it becomes a namespace", p.s.Name)
	}
	fileLines := p.files(archive)
	p.script(archive.Comment)
	for name, line := range fileLines {
		if name != ExpectFile && !p.applied[name] {
			p.fail(line, "file %q is never applied: add a step `apply %s` or remove the file", name, name)
		}
	}
	if !p.measured {
		p.fail(1, "the script has no step `measure`: it says from where on counts and times are taken")
	}
	if _, ok := fileLines[ExpectFile]; !ok {
		p.fail(1, "the scenario has no file %q: a rehearsal without an expectation proves nothing", ExpectFile)
	}
}

// files parses the archive's files and returns the line of each file's marker.
func (p *parser) files(archive *txtar.Archive) map[string]int {
	lines := map[string]int{}
	line := 1 + bytes.Count(archive.Comment, []byte("\n"))
	for _, f := range archive.Files {
		if _, twice := lines[f.Name]; twice {
			p.fail(line, "file %q is there twice", f.Name)
		}
		lines[f.Name] = line
		if f.Name == ExpectFile {
			p.expectations(line+1, string(f.Data))
		} else {
			p.manifests(f.Name, line, string(f.Data))
		}
		line += 1 + bytes.Count(f.Data, []byte("\n"))
	}
	return lines
}

func (p *parser) script(comment []byte) {
	for i, text := range strings.Split(string(comment), "\n") {
		line := i + 1
		text = stripComment(text)
		if text == "" {
			continue
		}
		if p.s.Title == "" {
			title, ok := strings.CutPrefix(text, "title ")
			if !ok {
				p.fail(line, "the first line must be `title`, followed by one sentence that says what the scenario plays")
				title = text
			}
			p.s.Title = strings.TrimSpace(title)
			continue
		}
		p.step(line, text)
	}
	if p.s.Title == "" {
		p.fail(1, "the script is empty: its first line is `title` and one sentence")
	}
}

// step parses one line of the script that is not empty and has no comment.
func (p *parser) step(line int, text string) {
	step := Step{Line: line, Text: text}
	for _, mode := range []view.Mode{view.ModeStock, view.ModeSegue} {
		if rest, ok := strings.CutPrefix(text, string(mode)+":"); ok {
			step.Mode, step.Text = mode, strings.TrimSpace(rest)
		}
	}
	fields := strings.Fields(step.Text)
	if len(fields) == 0 {
		p.fail(line, "nothing follows the mode")
		return
	}
	name := fields[0]
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == name })
	if i < 0 {
		p.fail(line, "unknown verb %q; the verbs are %s", name, verbNames())
		return
	}
	args, err := parseArgs(fields[1:])
	if err == nil {
		step.Action, err = verbs[i].parse(p, args)
	}
	if err != nil {
		p.fail(line, "%s: %v; usage: %s", name, err, verbs[i].usage)
		return
	}
	if step.Action == nil { // a declaration, not a step
		return
	}
	p.s.Steps = append(p.s.Steps, step)
}

// stripComment removes a comment, which begins with # at the start of a line or after a blank, and the blanks around.
func stripComment(line string) string {
	for i, r := range line {
		if r == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}
