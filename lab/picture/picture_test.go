package picture

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/internal/view/viewtest"
)

//go:embed check.js
var check string

// shared is the one browser of all tests; to start it is most of their time.
var shared struct {
	once    sync.Once
	browser *Browser
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.browser != nil {
		if err := shared.browser.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// browser is the shared browser. Without Chromium the test is skipped, but in CI (environment variable CI) it fails.
func browser(t *testing.T) *Browser {
	t.Helper()
	shared.once.Do(func() {
		var path string
		if path, shared.err = FindChromium(); shared.err == nil {
			shared.browser, shared.err = Start(context.Background(), path)
		}
	})
	switch {
	case mayBeSkipped(shared.err, os.Getenv("CI")):
		t.Skip("not looked at the picture:", shared.err)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	return shared.browser
}

// mayBeSkipped says whether a test may be skipped for err: only for want of a browser, and never in CI.
func mayBeSkipped(err error, ci string) bool {
	return errors.Is(err, ErrNoChromium) && (ci == "" || ci == "false")
}

func TestWithoutChromium(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(EnvChromium, "")
	_, err := FindChromium()
	if !errors.Is(err, ErrNoChromium) {
		t.Errorf("with an empty PATH: %v", err)
	}
	if !mayBeSkipped(err, "") || mayBeSkipped(err, "true") || mayBeSkipped(err, "1") {
		t.Error("a missing browser is skipped in CI, or not skipped elsewhere")
	}
	t.Setenv(EnvChromium, "/no/such/browser")
	if _, err = FindChromium(); err == nil || !strings.Contains(err.Error(), EnvChromium) || mayBeSkipped(err, "") {
		t.Errorf("with a wrong %s: %v", EnvChromium, err)
	}
}

// consolidation is the rehearsal that the README shows.
func consolidation(t *testing.T) view.Rehearsal {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "internal", "view", "testdata", "ci-consolidation.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	docs, err := view.ReadJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	return docs[0]
}

// write makes a page of docs in a temporary folder, changed by edit if there is one.
func write(t *testing.T, docs []view.Rehearsal, edit func(string) string) string {
	t.Helper()
	var out bytes.Buffer
	if err := view.HTML(&out, docs); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if edit != nil {
		page = edit(page)
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string, look Look) *Page {
	t.Helper()
	page, err := browser(t).Open(path, look)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	return page
}

func ask[T any](t *testing.T, page *Page, expression string) T {
	t.Helper()
	value, err := Ask[T](page, expression)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestPagesLookRight(t *testing.T) {
	looks := map[string]Look{"wide": {Width: 1280}, "phone": {Width: 390}, "dark": {Width: 1600, Dark: true}, "paper": {Width: 1000, Print: true}}
	for name, docs := range map[string][]view.Rehearsal{
		"consolidation": {consolidation(t)},
		"several":       {consolidation(t), viewtest.Crowded(4, 6), viewtest.Crowded(3, 12)},
		"hostile":       {viewtest.Hostile()},
		"odd":           viewtest.Odd(),
		"nothing":       nil,
	} {
		path := write(t, docs, nil)
		for look, options := range looks {
			t.Run(name+"/"+look, func(t *testing.T) { looksRight(t, open(t, path, options), path) })
		}
	}
}

func TestCrowdedPageLooksRight(t *testing.T) {
	path := write(t, []view.Rehearsal{viewtest.Crowded(30, 50)}, nil)
	looksRight(t, open(t, path, Look{}), path)
}

// looksRight checks the page's shapes, that it complains about nothing and that it asked for nothing but itself.
func looksRight(t *testing.T, page *Page, path string) {
	t.Helper()
	for _, problem := range ask[[]string](t, page, check) {
		t.Error(problem)
	}
	for _, complaint := range page.Complaints() {
		t.Error("console:", complaint)
	}
	if diff := cmp.Diff([]string{"file://" + path}, page.Requests()); diff != "" {
		t.Errorf("the page asked for other things than itself (-want +got)\n%s", diff)
	}
}

// What looksRight looks for, it must find: each edit breaks the page in one way.
func TestBrokenPagesAreFound(t *testing.T) {
	replace := func(pattern, with string) func(string) string {
		return func(page string) string {
			found := regexp.MustCompile(pattern)
			at := found.FindStringIndex(page)
			if at == nil {
				t.Fatalf("the page has nothing like %s", pattern)
			}
			return page[:at[0]] + found.ReplaceAllString(page[at[0]:at[1]], with) + page[at[1]:]
		}
	}
	tests := map[string]struct {
		edit func(string) string
		want string
	}{
		"bar outside":     {replace(`(class="bar bar-ready" x=")232"`, `${1}900"`), "leaves its strip"},
		"bar of no width": {replace(`(class="bar bar-starting" x="[0-9]{3}[0-9.]*" y="[0-9.]*" width=")[0-9.]*"`, `${1}0"`), "is 0 by"},
		"labels overlap":  {replace(`(class="t-type" x="0" y=")[0-9.]*(">)c-4x`, `${1}18${2}c-4x`), "covers"},
		"no legend":       {replace(`(?s)<ul class="legend".*?</ul>`, ""), "legend of 0 entries"},
		"other axis":      {replace(`(class="t-tick" x=")340.5"`, `${1}350"`), "different time axes"},
		"wide page":       {replace(`<main>`, `<main><div style="width:3000px">wide</div>`), "the page is"},
		"no label":        {replace(`role="img" aria-label="[^"]*"`, ""), "no label"},
		"script":          {replace(`<main>`, `<main><script>attack()</script>`), "no business"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			page := open(t, write(t, []view.Rehearsal{consolidation(t)}, test.edit), Look{})
			problems := strings.Join(ask[[]string](t, page, check), "\n")
			if !strings.Contains(problems, test.want) {
				t.Errorf("found %q, want something with %q", problems, test.want)
			}
		})
	}
}

func TestRequestsAndComplaintsAreFound(t *testing.T) {
	browser(t)
	// Without its policy the page may ask; nothing listens on the port, so nothing answers.
	path := write(t, []view.Rehearsal{consolidation(t)}, func(page string) string {
		page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page, "")
		return strings.Replace(page, "<main>", `<main><img src="http://127.0.0.1:1/x.png"><script>console.error("no")</script>`, 1)
	})
	page := open(t, path, Look{})
	if got := page.Requests(); len(got) != 2 {
		t.Errorf("requests %q, want the page and the picture", got)
	}
	if len(page.Complaints()) == 0 {
		t.Error("the page's complaints were not heard")
	}
	// With its policy the page may not even ask.
	path = write(t, []view.Rehearsal{consolidation(t)}, func(page string) string {
		return strings.Replace(page, "<main>", `<main><img src="http://127.0.0.1:1/x.png"><script>document.title = "attack"</script>`, 1)
	})
	page = open(t, path, Look{})
	if title := ask[string](t, page, "document.title"); title == "attack" {
		t.Error("the page's policy lets scripts run")
	}
}

func TestLightDarkAndPaper(t *testing.T) {
	browser(t)
	path := write(t, []view.Rehearsal{consolidation(t)}, nil)
	background := func(look Look) string {
		return ask[string](t, open(t, path, look), "getComputedStyle(document.body).backgroundColor")
	}
	light, dark := background(Look{}), background(Look{Dark: true})
	if light != "rgb(255, 255, 255)" || dark == light {
		t.Errorf("light is %s, dark is %s", light, dark)
	}
	if paper := background(Look{Dark: true, Print: true}); paper != light {
		t.Errorf("paper of a dark screen is %s, not %s", paper, light)
	}
}

func TestPaper(t *testing.T) {
	tests := map[string]struct {
		doc         view.Rehearsal
		least, most int
	}{
		"consolidation": {consolidation(t), 2, 4},
		"crowded":       {viewtest.Crowded(30, 50), 20, 60},
		"nothing":       {view.Rehearsal{}, 1, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pdf, err := open(t, write(t, []view.Rehearsal{test.doc}, nil), Look{}).PDF()
			if err != nil {
				t.Fatal(err)
			}
			pages := len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(pdf, -1))
			if pages < test.least || pages > test.most {
				t.Errorf("%d pages, want %d to %d", pages, test.least, test.most)
			}
		})
	}
}

func TestScreenshot(t *testing.T) {
	page := open(t, write(t, []view.Rehearsal{consolidation(t)}, nil), Look{Width: 1280, Scale: 2})
	data, err := page.PNG("")
	if err != nil {
		t.Fatal(err)
	}
	shot, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	size := shot.Bounds().Size()
	if size.X != 2560 || size.Y < 2000 {
		t.Errorf("the picture is %v", size)
	}
	colours := map[[3]uint32]bool{}
	for y := 0; y < size.Y; y += 7 {
		for x := 0; x < size.X; x += 7 {
			r, g, b, _ := shot.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
		}
	}
	if len(colours) < 20 {
		t.Errorf("the picture has %d colours only", len(colours))
	}
	if _, err := page.PNG(".no-such-element"); err == nil {
		t.Error("a picture of nothing was taken")
	}
}
