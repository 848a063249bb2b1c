package view

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every text of the page has a contrast of at least 4.5 to what it stands on, in light and in dark.
func TestContrast(t *testing.T) {
	light, dark, found := strings.Cut(pageCSS, "prefers-color-scheme: dark")
	if !found {
		t.Fatal("page.css has no dark colours")
	}
	pairs := [][2]string{
		{"ink", "bg"}, {"muted", "bg"}, {"link", "bg"}, {"good", "bg"}, {"bad", "bg"}, {"ink", "panel"}, {"muted", "panel"},
		{"good", "good-soft"}, {"bad", "bad-soft"}, {"doubt", "doubt-soft"}, {"muted", "good-soft"}, {"bad", "gap"},
		{"ready-text", "ready"}, {"starting-text", "starting"}, {"starting-text", "starting-ink"},
		{"not-ready-text", "not-ready"}, {"stopping-text", "stopping"}, {"stopping-text", "stopping-ink"},
	}
	for name, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = m[2]
		}
		for _, pair := range pairs {
			if ratio := contrast(t, colours[pair[0]], colours[pair[1]]); ratio < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", name, pair[0], pair[1], ratio)
			}
		}
	}
}

// contrast is the ratio of WCAG 2 between two colours.
func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) != 7 {
		t.Fatalf("colour %q is not defined", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
