package view

import (
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// canvas writes the inside of an SVG. Every string goes through escape, so nothing in a model can become markup.
type canvas struct{ out strings.Builder }

// escape makes a string safe as text and as a quoted attribute.
func escape(s string) string { return html.EscapeString(clean(s)) }

// num writes a coordinate: at most two decimals, and never NaN or infinity, which would break the whole picture.
func num(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	s := trimZeros(strconv.FormatFloat(f, 'f', 2, 64))
	if s == "-0" {
		return "0"
	}
	return s
}

// element writes <name attributes> with a tooltip inside; attributes are pairs of name and value.
func (c *canvas) element(name, tooltip string, attributes ...string) {
	c.out.WriteString("<" + name)
	for i := 0; i+1 < len(attributes); i += 2 {
		if attributes[i+1] != "" {
			c.out.WriteString(" " + attributes[i] + `="` + escape(attributes[i+1]) + `"`)
		}
	}
	if tooltip == "" {
		c.out.WriteString("/>")
		return
	}
	c.out.WriteString("><title>" + escape(tooltip) + "</title></" + name + ">")
}

func (c *canvas) rect(x, y, w, h float64, class, tooltip string) {
	c.element("rect", tooltip, "class", class, "x", num(x), "y", num(y), "width", num(w), "height", num(h))
}

// roundRect is a rect with corners of radius r.
func (c *canvas) roundRect(x, y, w, h, r float64, class, tooltip string) {
	c.element("rect", tooltip, "class", class, "x", num(x), "y", num(y), "width", num(w), "height", num(h), "rx", num(r))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.element("line", "", "class", class, "x1", num(x1), "y1", num(y1), "x2", num(x2), "y2", num(y2))
}

func (c *canvas) path(d, class, tooltip string) {
	c.element("path", tooltip, "class", class, "d", d)
}

// Anchors of a text: where its x is.
const (
	atStart  = ""
	atMiddle = "middle"
	atEnd    = "end"
)

func (c *canvas) text(x, y float64, class, anchor, s, tooltip string) {
	c.out.WriteString(`<text class="` + escape(class) + `" x="` + num(x) + `" y="` + num(y) + `"`)
	if anchor != atStart {
		c.out.WriteString(` text-anchor="` + anchor + `"`)
	}
	c.out.WriteString(">")
	if tooltip != "" && tooltip != s {
		c.out.WriteString("<title>" + escape(tooltip) + "</title>")
	}
	c.out.WriteString(escape(s) + "</text>")
}

// group opens a <g>; the returned function closes it.
func (c *canvas) group(class, tooltip string) (done func()) {
	c.out.WriteString(`<g class="` + escape(class) + `">`)
	if tooltip != "" {
		c.out.WriteString("<title>" + escape(tooltip) + "</title>")
	}
	return func() { c.out.WriteString("</g>") }
}

// strip is one horizontal slice of a picture: an SVG of its own, so that paper can break between two of them. All
// strips of a scenario are pictureWidth wide and share one time axis.
type strip struct {
	// class tells what the strip shows: strip-axis, strip-lane, strip-service, strip-failures.
	class  string
	height float64
	// label and description are what a screen reader says instead of the picture.
	label, description string
	body               template.HTML
}

// SVG is the strip as markup.
func (s strip) SVG() template.HTML {
	size := num(pictureWidth) + " " + num(s.height)
	out := `<svg class="strip ` + s.class + `" role="img" aria-label="` + escape(s.label) + `" viewBox="0 0 ` + size +
		`" width="` + num(pictureWidth) + `" height="` + num(s.height) + `">`
	if s.description != "" {
		out += "<desc>" + escape(s.description) + "</desc>"
	}
	return template.HTML(out) + s.body + "</svg>"
}

// charAdvance is the estimated advance of a character in em, generous enough for the widest of the usual system fonts:
// text that is placed by it does not run into its neighbour on another machine.
const charAdvance = 0.62

// textWidth is the estimated width of s in units of the picture at a font size.
func textWidth(s string, size float64) float64 { return float64(columns(s)) * size * charAdvance }

// fitting is how many characters of a font size fit into a width.
func fitting(width, size float64) int { return int(width / (size * charAdvance)) }
