package view_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/internal/view/viewtest"
)

// pages are all the pages that every test of a page looks at. They are made once; the crowded one takes its time.
func pages(t *testing.T) map[string][]byte {
	t.Helper()
	allPages.Do(func() {
		ci := load(t, "ci-consolidation.json")
		allPages.made = map[string][]byte{
			"ci":      render(t, ci),
			"several": render(t, append(ci, viewtest.Crowded(3, 4), viewtest.Hostile())),
			"crowded": render(t, []view.Rehearsal{viewtest.Crowded(30, 50)}),
			"hostile": render(t, []view.Rehearsal{viewtest.Hostile()}),
			"odd":     render(t, viewtest.Odd()),
			"nothing": render(t, nil),
			"numbers": render(t, []view.Rehearsal{impossible()}),
		}
	})
	return allPages.made
}

var allPages struct {
	sync.Once
	made map[string][]byte
}

// impossible has numbers that no clock gives.
func impossible() view.Rehearsal {
	nan, inf := math.NaN(), math.Inf(1)
	return view.Rehearsal{Scenario: "numbers", Runs: []view.Run{{Mode: view.ModeStock, DowntimeSeconds: nan, DrainSeconds: inf,
		Events: []view.Event{{T: nan}},
		Timeline: view.Timeline{EndSeconds: inf,
			Nodes: []view.NodeLane{{Name: "n", Span: view.Span{From: nan, To: inf}, Taints: []view.TaintSpan{{Span: view.Span{From: 0, To: inf}}},
				Pods: []view.PodBar{{Name: "p", Phases: []view.PhaseSpan{{Phase: view.PodReady, Span: view.Span{From: nan, To: 3}}}, Marks: []view.Mark{{T: nan}, {T: inf}}}}}},
			Services: []view.ServiceSeries{{Name: "s", Ready: []view.ReadyPoint{{T: nan, Ready: 1}, {T: inf, Ready: 0}, {T: 2, Ready: -1 << 62}}}},
			Failures: []view.RequestFailure{{T: nan}, {T: inf}, {T: -inf}},
			Steps:    []view.Mark{{T: nan}},
		}}}}
}

func TestPageIsSelfContained(t *testing.T) {
	var (
		link      = regexp.MustCompile(`href="([^"]*)"`)
		quoted    = regexp.MustCompile(`"[^"]*"`)
		loads     = regexp.MustCompile(`(?i)<(script|iframe|object|embed|base|form|img|image|use)\b|\s(src|srcset|on[a-z]+)=|@import`)
		cssSource = regexp.MustCompile(`url\([^#]`)
	)
	for name, page := range pages(t) {
		if name == "crowded" {
			continue // the page "several" has the same in less
		}
		for _, m := range link.FindAllSubmatch(page, -1) {
			if target := string(m[1]); target != "data:," && !strings.HasPrefix(target, "#scenario-") {
				t.Errorf("page %s links to %q", name, target)
			}
		}
		style := page[:bytes.Index(page, []byte("</style>"))]
		if found := cssSource.Find(style); found != nil {
			t.Errorf("page %s has a style with %q", name, found)
		}
		// What the page shows may speak of scripts; only its markup counts, without the values of attributes.
		markup := bytes.Join(regexp.MustCompile(`<[^>]*>`).FindAll(page, -1), nil)
		if found := loads.Find(quoted.ReplaceAll(markup, nil)); found != nil {
			t.Errorf("page %s contains %q", name, found)
		}
	}
}

func TestPageEscapesWhatItShows(t *testing.T) {
	page := render(t, []view.Rehearsal{viewtest.Hostile()})
	if !bytes.Contains(page, []byte("attack")) {
		t.Fatal("the page does not show the payloads, so this test proves nothing")
	}
	for _, harm := range []string{"<script", "<img", "onerror=attack()>", "' onload", "\x1b", "\x00", "\u202e", "\u2066", "\u200b", "\xff"} {
		if bytes.Contains(page, []byte(harm)) {
			t.Errorf("the page contains %q as it came", harm)
		}
	}
}

func TestPageIsTheSameEveryTime(t *testing.T) {
	docs := append(viewtest.Odd(), viewtest.Crowded(4, 12), viewtest.Hostile())
	first := render(t, docs)
	for range 5 {
		if !bytes.Equal(first, render(t, docs)) {
			t.Fatal("the page differs from one time to the next")
		}
	}
}

func TestPageStaysSmallEnough(t *testing.T) {
	const most = 12 << 20
	if size := len(pages(t)["crowded"]); size > most {
		t.Errorf("30 nodes with 50 pods make a page of %d bytes, more than %d", size, most)
	}
}

// Every SVG must be well-formed, and every shape in a strip must have a size and lie inside the strip.
func TestShapesLieInsideTheirStrip(t *testing.T) {
	svg := regexp.MustCompile(`(?s)<svg class="strip .*?</svg>`)
	for name, page := range pages(t) {
		t.Run(name, func(t *testing.T) {
			strips := svg.FindAll(page, -1)
			if len(strips) == 0 && name != "nothing" {
				t.Fatal("the page has no picture")
			}
			for _, strip := range strips {
				if err := checkStrip(strip); err != nil {
					t.Fatalf("%v in\n%.2000s", err, strip)
				}
			}
		})
	}
}

func checkStrip(strip []byte) error {
	dec := xml.NewDecoder(bytes.NewReader(strip))
	var width, height float64
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		start, isStart := token.(xml.StartElement)
		if !isStart {
			continue
		}
		a := map[string]float64{}
		for _, attribute := range start.Attr {
			if n, err := strconv.ParseFloat(attribute.Value, 64); err == nil {
				a[attribute.Name.Local] = n
			}
		}
		switch start.Name.Local {
		case "svg":
			width, height = a["width"], a["height"]
		case "rect":
			if a["width"] <= 0 || a["height"] <= 0 || a["x"] < 0 || a["y"] < -0.01 || a["x"]+a["width"] > width+0.01 || a["y"]+a["height"] > height+0.01 {
				return fmt.Errorf("rect %v in a strip of %v by %v", a, width, height)
			}
		case "text":
			if a["x"] < 0 || a["x"] > width || a["y"] < 0 || a["y"] > height {
				return fmt.Errorf("text at %v, %v in a strip of %v by %v", a["x"], a["y"], width, height)
			}
		}
	}
}

func TestEveryScenarioIsInTheIndex(t *testing.T) {
	page := string(render(t, viewtest.Odd()))
	for i := range viewtest.Odd() {
		id := "scenario-" + strconv.Itoa(i+1)
		if !strings.Contains(page, `href="#`+id+`"`) || !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("scenario %d is not linked or not there", i+1)
		}
	}
	if strings.Contains(string(render(t, load(t, "ci-consolidation.json"))), "<nav") {
		t.Error("a page of one scenario has an index")
	}
}

func TestPageNamesAreCutInTheMiddleAndWholeInTheTooltip(t *testing.T) {
	doc := viewtest.Crowded(1, 2)
	page := string(render(t, []view.Rehearsal{doc}))
	name := doc.Runs[0].Timeline.Nodes[0].Name
	if !strings.Contains(page, "<title>"+name+"</title>") {
		t.Error("the whole name of the node is not in a tooltip")
	}
	if !strings.Contains(page, "</title>ip-10-0-7-13") || !strings.Contains(page, "…") {
		t.Error("the name of the node is not cut in the middle")
	}
}

func TestFailureToWriteIsReported(t *testing.T) {
	if err := view.HTML(failing{}, nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("HTML gave %v", err)
	}
	if err := view.Text(failing{}, nil, view.TextOptions{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Text gave %v", err)
	}
	if err := view.JSON(failing{}, view.Rehearsal{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("JSON gave %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
