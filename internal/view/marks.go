package view

import (
	"slices"
	"sort"
	"strings"
)

// Sizes of marks, in units of the picture.
const (
	markRadius    = 5.5
	markText      = 10.5
	clusterWithin = 13.0 // marks closer than this are drawn as one
	clusterSpan   = 36.0 // what one symbol stands for is no wider than the symbol with its number
	clusterAir    = 4.0
)

// markNames are the kinds of marks in the words of the legend.
var markNames = map[MarkKind]string{
	MarkStep:            "scenario step",
	MarkEvictionAllowed: "eviction allowed",
	MarkEvictionDenied:  "eviction denied (429)",
	MarkDeletion:        "deletion",
	MarkHandover:        "handover step",
}

func markName(k MarkKind) string {
	if name, known := markNames[k]; known {
		return name
	}
	if k == "" {
		return "mark"
	}
	return clean(string(k))
}

// cluster is one or more marks of a kind that are too close together to be drawn apart.
type cluster struct {
	kind  MarkKind
	marks []Mark
	// at is where the first mark is; x is where the symbol is drawn, moved aside where symbols would overlap.
	at, x float64
	// note is the text beside the symbol: "×6", or the label of a single mark where there is room for it.
	note string
}

// clusters places marks in a row so that no two symbols or notes overlap. Marks outside the axis are left out.
func clusters(marks []Mark, a axis) []cluster {
	list := fit(marks, a)
	annotate(list)
	return list
}

// fit gathers marks over ever longer stretches until what is left has room in one row, and places it.
func fit(marks []Mark, a axis) []cluster {
	for span := clusterSpan; ; span *= 2 {
		list := gather(marks, a, span)
		width := 0.0
		for _, k := range list {
			width += k.right() - k.left() + clusterAir
		}
		if width <= plotWidth || span > plotWidth {
			spread(list)
			return list
		}
	}
}

// gather joins marks of one kind of which each follows the one before within clusterWithin, over at most span units,
// and sorts the result by time.
func gather(marks []Mark, a axis, span float64) []cluster {
	shown := make([]Mark, 0, len(marks))
	for _, m := range marks {
		if a.shows(m.T) {
			shown = append(shown, m)
		}
	}
	sort.SliceStable(shown, func(i, j int) bool { return shown[i].T < shown[j].T })
	within := max(clusterWithin, span/3)
	var list []cluster
	open := map[string]int{}
	lastX := map[string]float64{}
	for _, m := range shown {
		x, class := a.x(m.T), markClass(m.Kind)
		i, found := open[class]
		if found && x-lastX[class] < within && x-list[i].at < span {
			list[i].marks = append(list[i].marks, m)
		} else {
			open[class] = len(list)
			list = append(list, cluster{kind: m.Kind, marks: []Mark{m}, at: x, x: x})
		}
		lastX[class] = x
	}
	for i := range list {
		if n := len(list[i].marks); n > 1 {
			list[i].note = "×" + grouped(n)
		}
	}
	return list
}

// left and right are the sides of a cluster with its note.
func (c cluster) left() float64  { return c.x - markRadius }
func (c cluster) right() float64 { return c.x + markRadius + c.noteWidth() }

func (c cluster) noteWidth() float64 {
	if c.note == "" {
		return 0
	}
	return 3 + textWidth(c.note, markText)
}

// spread moves overlapping clusters to the right, and back to the left where that would leave the picture.
func spread(list []cluster) {
	for i := 1; i < len(list); i++ {
		if overlap := list[i-1].right() + clusterAir - list[i].left(); overlap > 0 {
			list[i].x += overlap
		}
	}
	limit := pictureWidth - 2
	for i := len(list) - 1; i >= 0; i-- {
		if over := list[i].right() - limit; over > 0 {
			list[i].x -= over
		}
		limit = list[i].left() - clusterAir
	}
}

// annotate writes the labels of a cluster beside its symbol where they fit before the next one.
func annotate(list []cluster) {
	for i := range list {
		room := plotRight - list[i].x - markRadius
		if i+1 < len(list) {
			room = list[i+1].left() - list[i].x - markRadius - clusterAir
		}
		note := list[i].labels()
		if columns(note) > 0 && columns(note) <= 32 && 3+textWidth(note, markText) <= room {
			list[i].note = note
		}
	}
}

// labels are the different labels of a cluster, with the number of marks where they do not tell it.
func (c cluster) labels() string {
	var labels []string
	for _, m := range c.marks {
		if label := clean(m.Label); label != "" && !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	words := strings.Join(labels, ", ")
	if strings.Contains(markName(c.kind), words) {
		words = "" // the symbol says it already
	}
	if len(labels) != len(c.marks) && len(c.marks) > 1 {
		return strings.TrimSpace("×" + grouped(len(c.marks)) + " " + words)
	}
	return words
}

// clusters draws symbols at height y, with stems down to the true time at height foot. A stem to a symbol that was moved
// aside runs below the symbols, so that it crosses no note.
func (c *canvas) clusters(list []cluster, y, foot float64) {
	for _, k := range list {
		done := c.group("mark mark-"+markClass(k.kind), k.tooltip())
		stem := "M" + num(k.at) + " " + num(foot)
		if k.x != k.at {
			stem += "V" + num(y+markRadius+2) + "H" + num(k.x)
		}
		c.path(stem+"V"+num(y), "stem", "")
		c.symbol(k.kind, k.x, y)
		if k.note != "" {
			c.text(k.x+markRadius+3, y+3.8, "t-note", atStart, k.note, "")
		}
		done()
	}
}

// tooltip lists the marks of a cluster with their times, up to 20 of them.
func (c cluster) tooltip() string {
	const most = 20
	var lines []string
	for i, m := range c.marks {
		if i == most {
			lines = append(lines, "and "+grouped(len(c.marks)-most)+" more")
			break
		}
		line := moment(m.T) + " " + markName(m.Kind)
		if m.Label != "" {
			line += ": " + clean(m.Label)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// markClass is the class of a known kind; what is unknown gets a ring.
func markClass(k MarkKind) string {
	if _, known := markNames[k]; known {
		return string(k)
	}
	return "other"
}

// symbol draws the shape of a kind around x, y. The shapes differ, so that they need no colour.
func (c *canvas) symbol(kind MarkKind, x, y float64) {
	at := func(points ...float64) string {
		d := ""
		for i := 0; i+1 < len(points); i += 2 {
			op := "L"
			if i == 0 {
				op = "M"
			}
			d += op + num(x+points[i]) + " " + num(y+points[i+1])
		}
		return d
	}
	switch kind {
	case MarkEvictionAllowed:
		c.element("circle", "", "class", "shape", "cx", num(x), "cy", num(y), "r", num(5))
		c.path(at(-2.4, 0.1, -0.6, 2, 2.5, -1.8), "stroke", "")
	case MarkEvictionDenied:
		c.path(at(-2.3, -5.5, 2.3, -5.5, 5.5, -2.3, 5.5, 2.3, 2.3, 5.5, -2.3, 5.5, -5.5, 2.3, -5.5, -2.3)+"Z", "shape", "")
		c.path(at(-2.8, 0, 2.8, 0), "stroke", "")
	case MarkDeletion:
		c.path(at(-4, -4, 4, 4)+at(4, -4, -4, 4), "cross", "")
	case MarkHandover:
		c.path(at(0, -5.5, 5.5, 0, 0, 5.5, -5.5, 0)+"Z", "shape", "")
	case MarkStep:
		c.path(at(-4, 5.5, -4, -5.5, 5, -2.2, -4, 1.1)+"Z", "shape", "")
	default:
		c.element("circle", "", "class", "shape", "cx", num(x), "cy", num(y), "r", num(4))
	}
}
