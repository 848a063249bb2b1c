package view_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/internal/view/viewtest"
)

func TestColourIsOnlyForTerminals(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var buffer strings.Builder
	if view.UseColor(file) || view.UseColor(&buffer) {
		t.Error("a file or a buffer is coloured")
	}
	// The null device is a character device as a terminal is, which is what UseColor can see.
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !view.UseColor(device) {
		t.Error("a terminal is not coloured")
	}
	t.Setenv("NO_COLOR", "1")
	if view.UseColor(device) {
		t.Error("NO_COLOR is not respected")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if view.UseColor(device) {
		t.Error("a dumb terminal is coloured")
	}
}

// Without its colours the coloured text is the plain text, so colour carries nothing alone.
func TestColourCarriesNothingAlone(t *testing.T) {
	docs := append(load(t, "ci-consolidation.json"), viewtest.Odd()...)
	colour := regexp.MustCompile(`\x1b\[[0-9]+m`)
	coloured := text(t, docs, view.TextOptions{Color: true})
	plain := text(t, docs, view.TextOptions{})
	if !colour.MatchString(coloured) {
		t.Fatal("nothing is coloured")
	}
	stripped := colour.ReplaceAllString(coloured, "")
	trim := func(s string) string {
		lines := strings.Split(s, "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		return strings.Join(lines, "\n")
	}
	if trim(stripped) != plain {
		t.Errorf("coloured text says something else than plain text:\n%s\n%s", stripped, plain)
	}
}

func TestTextKeepsToItsWidthAndLeavesTheTerminalAlone(t *testing.T) {
	docs := append(load(t, "ci-consolidation.json"), viewtest.Odd()...)
	docs = append(docs, viewtest.Crowded(2, 3))
	for _, width := range []int{60, 80, 120} {
		for _, line := range strings.Split(text(t, docs, view.TextOptions{Width: width}), "\n") {
			if utf8.RuneCountInString(line) > width {
				t.Errorf("line is longer than %d: %q", width, line)
			}
		}
	}
	for _, r := range text(t, []view.Rehearsal{viewtest.Hostile()}, view.TextOptions{}) {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Fatalf("the text contains the control character %U", r)
		}
	}
}

func TestTextOfNothingSaysSo(t *testing.T) {
	if got := text(t, nil, view.TextOptions{}); got != "No rehearsal was run.\n" {
		t.Errorf("got %q", got)
	}
}
