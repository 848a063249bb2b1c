package house

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// Paths of the machine on which somebody worked. The pattern is written so that it does not match itself.
var machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_.])/(w[o]rk|r[o]ot|f[a]rm|home/[a-z])[/a-z]|\.\./sh[a]red`)

func TestNoFileNamesAPathOfAMachine(t *testing.T) {
	for name, content := range files(t) {
		if strings.HasSuffix(name, ".sum") {
			continue
		}
		for _, found := range machinePath.FindAllIndex(content, -1) {
			t.Errorf("%s names a path that exists on one machine only: %q", at(name, content, found[0]), content[found[0]:found[1]])
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)

func TestLinksInDocumentsLead(t *testing.T) {
	tree := files(t)
	for name, content := range tree {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, found := range link.FindAllSubmatchIndex(content, -1) {
			target := string(content[found[2]:found[3]])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if wanted := path.Join(path.Dir(name), target); !exists(t, wanted) {
				t.Errorf("%s links to %s, which is not there", at(name, content, found[0]), wanted)
			}
		}
	}
}

// A command in a document is one that make knows.
var (
	namedTarget = regexp.MustCompile("(?m)(?:^\\s*(?:\\$ )?|`)make ((?:-[a-z] )?[a-z][a-z-]*)")
	ownTarget   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

func TestDocumentsNameTargetsThatExist(t *testing.T) {
	tree := files(t)
	targets := map[string]bool{}
	for _, found := range ownTarget.FindAllSubmatch(tree["Makefile"], -1) {
		targets[string(found[1])] = true
	}
	for name, content := range tree {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, found := range namedTarget.FindAllSubmatchIndex(content, -1) {
			words := strings.Fields(string(content[found[2]:found[3]]))
			if target := words[len(words)-1]; !targets[target] {
				t.Errorf("%s names make %s, which the Makefile does not have", at(name, content, found[0]), target)
			}
		}
	}
}

// A test that a document names, to say what enforces a promise, is there.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	tree := files(t)
	tests := map[string]bool{}
	for name, content := range tree {
		if strings.HasSuffix(name, "_test.go") {
			for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`).FindAllSubmatch(content, -1) {
				tests[string(found[1])] = true
			}
		}
	}
	for name, content := range tree {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, found := range regexp.MustCompile("`((?:Test|Benchmark)[A-Z]\\w*)`").FindAllSubmatchIndex(content, -1) {
			if test := string(content[found[2]:found[3]]); !tests[test] {
				t.Errorf("%s names %s, which is not there", at(name, content, found[0]), test)
			}
		}
	}
}

var reasonConstant = regexp.MustCompile(`(?m)^\tReason[A-Za-z]+ +Reason = "([A-Za-z]+)"`)

// A reason that a user meets in an event, a condition or an answer is explained under a heading of its own.
func TestEveryReasonIsDocumented(t *testing.T) {
	tree := files(t)
	const page = "docs/reasons.md"
	reasons := map[string]bool{}
	for name, content := range tree {
		if strings.HasPrefix(name, "internal/decide/") {
			for _, found := range reasonConstant.FindAllSubmatch(content, -1) {
				reasons[string(found[1])] = true
			}
		}
	}
	if len(reasons) == 0 {
		t.Fatal("internal/decide has no reasons: this test looks for the wrong constants")
	}
	explained := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^### ([A-Za-z]+)$`).FindAllSubmatch(tree[page], -1) {
		explained[string(found[1])] = true
	}
	for reason := range reasons {
		if !explained[reason] {
			t.Errorf("%s has no heading for %s", page, reason)
		}
	}
	for reason := range explained {
		if !reasons[reason] {
			t.Errorf("%s explains %s, which internal/decide does not know", page, reason)
		}
	}
}
