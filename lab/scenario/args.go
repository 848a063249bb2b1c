package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// args are the words of a step after its verb.
type args struct {
	// words are the words in their order, without options and without `within TIME`.
	words []string
	// options are the words of the form key=value.
	options map[string]string
	// within is the deadline of a step, 0 when it has none.
	within time.Duration
}

func parseArgs(fields []string) (args, error) {
	a := args{options: map[string]string{}}
	for i := 0; i < len(fields); i++ {
		word := fields[i]
		if word == "within" {
			if i+2 != len(fields) {
				return a, errors.New("`within` is followed by a time and nothing else")
			}
			d, err := parseDuration(fields[i+1])
			if err != nil {
				return a, err
			}
			a.within = d
			return a, nil
		}
		key, value, isOption := strings.Cut(word, "=")
		if !isOption || key == "" {
			a.words = append(a.words, word)
			continue
		}
		if _, twice := a.options[key]; twice {
			return a, fmt.Errorf("option %s is given twice", key)
		}
		a.options[key] = value
	}
	return a, nil
}

// expect checks the number of words and the names of the options; maxWords below 0 means any number.
func (a args) expect(minWords, maxWords int, options ...string) error {
	if len(a.words) < minWords {
		return fmt.Errorf("needs %s", plural(minWords, "argument"))
	}
	if maxWords >= 0 && len(a.words) > maxWords {
		return fmt.Errorf("unexpected argument %q", a.words[maxWords])
	}
	for name := range a.options {
		if !slices.Contains(options, name) {
			return fmt.Errorf("unknown option %s=", name)
		}
	}
	return nil
}

// expectNoDeadline refuses `within` where nothing is waited for.
func (a args) expectNoDeadline() error {
	if a.within != 0 {
		return errors.New("`within` does not belong here")
	}
	return nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a time above 0 such as 60s", s)
	}
	return d, nil
}

func parseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number of 0 or more", s)
	}
	return n, nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ref is a name in a step: a literal, or $name for a variable that a step above has set with `let`.
type ref string

func (p *parser) ref(s string) (ref, error) {
	name, isVariable := strings.CutPrefix(s, "$")
	if isVariable && !p.vars[name] {
		return "", fmt.Errorf("variable $%s is not set by a step above; set it with `let %s = node of KIND/NAME`", name, name)
	}
	return ref(s), nil
}

func (w *World) resolve(r ref) string {
	if name, isVariable := strings.CutPrefix(string(r), "$"); isVariable {
		return w.vars[name]
	}
	return string(r)
}

// objectRef names an object as kind/name; the kind is a resource in singular or plural, such as deployment or nodes.
type objectRef struct {
	kind string
	name ref
}

func (o objectRef) String() string { return o.kind + "/" + string(o.name) }

func (p *parser) objectRef(s string) (objectRef, error) {
	kind, name, ok := strings.Cut(s, "/")
	if !ok || kind == "" || name == "" || kind != strings.ToLower(kind) {
		return objectRef{}, fmt.Errorf("%q does not name an object: write kind/name, for example deployment/web", s)
	}
	r, err := p.ref(name)
	return objectRef{kind: kind, name: r}, err
}
