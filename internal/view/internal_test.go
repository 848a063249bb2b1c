package view

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeconds(t *testing.T) {
	tests := []struct {
		in   float64
		want string
	}{
		{0, "0 s"}, {0.001, "<0.01 s"}, {0.3, "0.3 s"}, {5.07, "5.07 s"}, {9.999, "10 s"}, {26.44, "26.4 s"}, {-3.25, "-3.25 s"},
		{119.96, "2 min 0 s"}, {640, "10 min 40 s"}, {math.NaN(), "unknown"}, {math.Inf(1), "unknown"},
	}
	for _, test := range tests {
		if got := seconds(test.in); got != test.want {
			t.Errorf("seconds(%v) = %q, want %q", test.in, got, test.want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for in, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := grouped(in); got != want {
			t.Errorf("grouped(%d) = %q, want %q", in, got, want)
		}
	}
}

func TestCutMiddle(t *testing.T) {
	tests := []struct {
		in    string
		width int
		want  string
	}{
		{"short", 10, "short"}, {"abcdefghij", 10, "abcdefghij"}, {"abcdefghijk", 7, "abc…ijk"}, {"abcdefghijk", 6, "abc…jk"},
		{"abc", 2, "a…"}, {"abc", 0, ""}, {"攻撃攻撃攻撃", 6, "攻…撃"},
	}
	for _, test := range tests {
		got := cutMiddle(test.in, test.width)
		if got != test.want || columns(got) > test.width {
			t.Errorf("cutMiddle(%q, %d) = %q, want %q", test.in, test.width, got, test.want)
		}
	}
}

func TestGaps(t *testing.T) {
	tests := map[string]struct {
		ready []ReadyPoint
		want  []Span
	}{
		"never known":             {nil, nil},
		"never zero":              {[]ReadyPoint{{-5, 1}, {3, 2}}, nil},
		"one":                     {[]ReadyPoint{{-5, 1}, {3, 0}, {8, 1}}, []Span{{3, 8}}},
		"to the end":              {[]ReadyPoint{{-5, 1}, {3, 0}}, []Span{{3, 10}}},
		"from before the start":   {[]ReadyPoint{{-5, 0}, {2, 1}}, []Span{{0, 2}}},
		"unknown before first":    {[]ReadyPoint{{4, 1}}, nil},
		"zero said twice":         {[]ReadyPoint{{3, 0}, {4, 0}, {5, 1}}, []Span{{3, 5}}},
		"two":                     {[]ReadyPoint{{1, 0}, {2, 1}, {3, 0}, {4, 1}}, []Span{{1, 2}, {3, 4}}},
		"ended before the start":  {[]ReadyPoint{{-5, 0}, {-2, 1}}, nil},
		"begins after the end":    {[]ReadyPoint{{0, 1}, {11, 0}}, nil},
		"of no length is no gap":  {[]ReadyPoint{{0, 1}, {5, 0}, {5, 1}}, nil},
		"less than zero is a gap": {[]ReadyPoint{{0, 1}, {5, -1}, {6, 1}}, []Span{{5, 6}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, gaps(ServiceSeries{Ready: test.ready}, 10)); diff != "" {
				t.Errorf("gaps (-want +got)\n%s", diff)
			}
		})
	}
}

func TestHeadline(t *testing.T) {
	stock := Run{Mode: ModeStock, DowntimeSeconds: 5.07, Requests: Requests{1800, 253}, DrainSeconds: 5.32, NodesGone: 1}
	segue := Run{Mode: ModeSegue, Requests: Requests{1800, 0}, DrainSeconds: 6.62, NodesGone: 1}
	tests := map[string]struct {
		doc  Rehearsal
		want []string
	}{
		"both": {Rehearsal{Runs: []Run{stock, segue}}, []string{
			"Without Segue: 5.07 s of downtime, 253 of 1,800 requests failed; the node was gone after 5.32 s.",
			"With Segue: no downtime, none of 1,800 requests failed; the node was gone after 6.62 s."}},
		"none":          {Rehearsal{}, []string{"Nothing was run."}},
		"failures only": {Rehearsal{Runs: []Run{{Mode: ModeSegue, Requests: Requests{1, 1}}}}, []string{"With Segue: no downtime, 1 of 1 request failed; no node went."}},
		"no load": {Rehearsal{Verdict: VerdictInvalid, Runs: []Run{{Mode: ModeStock, DowntimeSeconds: 1, DrainSeconds: 2}}}, []string{
			"These runs prove nothing, whatever their figures say.", "Without Segue: 1 s of downtime, and no request was sent; the drain took 2 s."}},
		"a drain that gave up": {Rehearsal{Runs: []Run{{Mode: ModeStock, Requests: Requests{10, 0}, DrainSeconds: 30, DrainsFailed: 1}}}, []string{
			"Without Segue: no downtime, none of 10 requests failed; the drain gave up after 30 s."}},
		"twice the same": {Rehearsal{Runs: []Run{segue, segue}}, []string{
			"Segue 1: no downtime, none of 1,800 requests failed; the node was gone after 6.62 s.",
			"Segue 2: no downtime, none of 1,800 requests failed; the node was gone after 6.62 s."}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, headline(test.doc)); diff != "" {
				t.Errorf("headline (-want +got)\n%s", diff)
			}
		})
	}
}

func TestMarksCloseTogetherAreCounted(t *testing.T) {
	a := axis{end: 40, step: 5}
	var marks []Mark
	for i := range 6 {
		marks = append(marks, Mark{T: 20 + float64(i)/10, Kind: MarkEvictionDenied, Label: "429"})
	}
	marks = append(marks, Mark{T: 20.2, Kind: MarkHandover, Label: "Waiting"}, Mark{T: 30, Kind: MarkHandover, Label: "Done"})
	var got []string
	for _, k := range clusters(marks, a) {
		got = append(got, string(k.kind)+" "+k.note)
	}
	want := []string{"eviction-denied ×6", "handover Waiting", "handover Done"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clusters (-want +got)\n%s", diff)
	}
}

// However many marks there are and wherever they lie, none is lost, none covers another, and all stay in the picture.
func TestMarksNeverOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kinds := []MarkKind{MarkStep, MarkDeletion, MarkHandover, MarkEvictionAllowed, MarkEvictionDenied, "unknown", "other"}
	for range 500 {
		a := axis{end: math.Pow(10, 4*random.Float64()-1)}
		marks := make([]Mark, random.IntN(300))
		focus := random.Float64() * a.end
		for i := range marks {
			at := random.Float64() * a.end
			if random.IntN(2) == 0 {
				at = min(focus+random.ExpFloat64()*a.end/100, a.end)
			}
			marks[i] = Mark{T: at, Kind: kinds[random.IntN(len(kinds))], Label: strings.Repeat("label ", random.IntN(5))}
		}
		list := clusters(marks, a)
		total := 0
		for i, k := range list {
			total += len(k.marks)
			if k.left() < plotLeft-markRadius-1 || k.right() > pictureWidth {
				t.Fatalf("a mark lies at %v to %v, outside the picture", k.left(), k.right())
			}
			if i > 0 && k.left() < list[i-1].right() {
				t.Fatalf("a mark at %v covers the one that ends at %v", k.left(), list[i-1].right())
			}
		}
		if total != len(marks) {
			t.Fatalf("%d marks became %d", len(marks), total)
		}
	}
}

func TestQuietPodsAreFoldedAndManyPodsAreDense(t *testing.T) {
	a := axis{end: 40}
	node := NodeLane{Span: Span{-10, 40}}
	ready := func(from, to float64) PodBar { return PodBar{Phases: []PhaseSpan{{PodReady, Span{from, to}}}} }
	for range 20 {
		node.Pods = append(node.Pods, ready(-10, 40))
	}
	node.Pods = append(node.Pods, ready(5, 40), PodBar{Name: "nothing seen"})
	rows := sortPods(node, a)
	if len(rows.folded[PodReady]) != 20 || len(rows.named) != 1 || len(rows.dense) != 0 {
		t.Errorf("20 quiet pods and a new one: %d folded, %d named, %d dense", len(rows.folded[PodReady]), len(rows.named), len(rows.dense))
	}
	for range 8 {
		node.Pods = append(node.Pods, ready(6, 30))
	}
	if rows = sortPods(node, a); len(rows.dense) != 9 || len(rows.named) != 0 {
		t.Errorf("9 changing pods: %d named, %d dense", len(rows.named), len(rows.dense))
	}
	node.Pods = node.Pods[:4]
	if rows = sortPods(node, a); len(rows.named) != 4 {
		t.Errorf("4 quiet pods: %d named", len(rows.named))
	}
}

func TestAxis(t *testing.T) {
	for _, end := range []float64{1e-3, 0.4, 1, 7, 40, 180, 181, 900, 3599, 7200, 1e6, 1e12} {
		a := newAxis([]Run{{Timeline: Timeline{EndSeconds: end}}, {}})
		ticks := a.ticks()
		if len(ticks) < 1 || len(ticks) > 12 {
			t.Errorf("%v s has %d ticks", end, len(ticks))
		}
		for i := 1; i < len(ticks); i++ {
			if a.x(ticks[i])-a.x(ticks[i-1]) < 79 {
				t.Errorf("%v s: ticks are %v apart", end, a.x(ticks[i])-a.x(ticks[i-1]))
			}
			if a.tickLabel(ticks[i]) == a.tickLabel(ticks[i-1]) {
				t.Errorf("%v s: two ticks are called %s", end, a.tickLabel(ticks[i]))
			}
		}
	}
}
