package view

import (
	"math"
	"strings"
)

// A texture fills a shape so that it is told apart without colour. Textures are drawn as plain lines and not as SVG
// patterns: browsers print a pattern as a bitmap, which makes the paper coarse and a large page take minutes.
type texture struct {
	kind    textureKind
	spacing float64
}

type textureKind int

const (
	rising textureKind = iota // lines from bottom left to top right
	falling
	upright
	level
	dots
)

// textures are the textures by the class of the shape; a class without one is plain.
var textures = map[string]texture{
	"bar-starting":  {rising, 9},
	"bar-not-ready": {dots, 6},
	"bar-stopping":  {upright, 4},
	"taint":         {falling, 9},
	"gap":           {rising, 7},
	"cause-1":       {rising, 5},
	"cause-2":       {level, 4},
	"cause-3":       {dots, 4},
	"cause-4":       {falling, 6},
}

// textured draws a rectangle with the texture of its class, which is the last word of class.
func (c *canvas) textured(x, y, w, h float64, class, tooltip string) {
	c.rect(x, y, w, h, class, tooltip)
	name := class[strings.LastIndex(class, " ")+1:]
	if t, found := textures[name]; found {
		if d := t.path(x, y, w, h); d != "" {
			c.path(d, "texture on-"+name, "")
		}
	}
}

// path is the texture of a rectangle. Lines are placed by the coordinates of the strip, so that neighbours join.
func (t texture) path(x, y, w, h float64) string {
	var d strings.Builder
	right, bottom := x+w, y+h
	segment := func(x1, y1, x2, y2 float64) {
		d.WriteString("M" + num(x1) + " " + num(y1) + "L" + num(x2) + " " + num(y2))
	}
	switch t.kind {
	case rising:
		for at := next(x+y, t.spacing); at < right+bottom; at += t.spacing {
			from, to := max(x, at-bottom), min(right, at-y)
			segment(from, at-from, to, at-to)
		}
	case falling:
		for at := next(x-bottom, t.spacing); at < right-y; at += t.spacing {
			from, to := max(x, at+y), min(right, at+bottom)
			segment(from, from-at, to, to-at)
		}
	case upright:
		for at := next(x, t.spacing); at < right; at += t.spacing {
			segment(at, y, at, bottom)
		}
	case level:
		for at := next(y, t.spacing); at < bottom; at += t.spacing {
			segment(x, at, right, at)
		}
	case dots:
		for down := next(y, t.spacing/2); down < bottom; down += t.spacing / 2 {
			shift := float64(int(math.Round(down/(t.spacing/2)))%2) * t.spacing / 2
			for at := next(x-shift, t.spacing) + shift; at < right; at += t.spacing {
				// A line of no length with round ends is a dot.
				d.WriteString("M" + num(at) + " " + num(down) + "h0")
			}
		}
	}
	return d.String()
}

// next is the first multiple of spacing after from.
func next(from, spacing float64) float64 { return (math.Floor(from/spacing) + 1) * spacing }
