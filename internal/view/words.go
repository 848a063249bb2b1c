package view

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// seconds writes a duration in seconds for people: two decimals below 10 s, one below 2 min, then minutes and seconds.
// What is not quite zero never reads as zero.
func seconds(s float64) string {
	abs := math.Abs(s)
	switch {
	case math.IsNaN(s) || math.IsInf(s, 0):
		return "unknown"
	case s == 0:
		return "0 s"
	case abs < 0.005:
		return "<0.01 s"
	case abs < 9.995:
		return trimZeros(strconv.FormatFloat(s, 'f', 2, 64)) + " s"
	case abs < 119.95:
		return trimZeros(strconv.FormatFloat(s, 'f', 1, 64)) + " s"
	}
	whole := int64(math.Round(abs))
	sign := ""
	if s < 0 {
		sign = "-"
	}
	return sign + grouped(whole/60) + " min " + strconv.FormatInt(whole%60, 10) + " s"
}

// moment writes a point in time, in seconds since `measure`, with two decimals so that columns of them line up.
func moment(t float64) string {
	if math.IsNaN(t) || math.IsInf(t, 0) {
		return "unknown"
	}
	return strconv.FormatFloat(t, 'f', 2, 64) + " s"
}

func trimZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// grouped writes n with a comma between thousands.
func grouped[T ~int | ~int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// count writes n with its noun, which takes an s in the plural.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// clean makes a string of the model safe to show: control and invisible formatting characters (which could move a
// terminal's cursor or turn the reading direction of a page) become U+FFFD, line breaks and tabs become spaces.
// Markup is not its business; the SVG canvas and html/template escape that.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case ' ' <= r && r <= '~':
			return r // nearly always
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}

// columns is the width of s in character cells, with everything outside Latin, Greek and Cyrillic counted double: too
// wide rather than too narrow, so that what is said to fit does fit.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += cells(r)
	}
	return n
}

func cells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
		return 0
	case r < 0x530 || r >= 0x2010 && r <= 0x203a || r == unicode.ReplacementChar:
		return 1
	}
	return 2
}

// cutMiddle shortens s to at most width character cells by taking out its middle: the ends of a Kubernetes name say
// what it belongs to and which one it is.
func cutMiddle(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	if width < 3 {
		return cutEnd(s, width)
	}
	tail := (width - 1) / 2
	head := width - 1 - tail
	runes := []rune(s)
	end := len(runes)
	for used := 0; end > 0 && used+cells(runes[end-1]) <= tail; end-- {
		used += cells(runes[end-1])
	}
	return prefix(s, head) + "…" + string(runes[end:])
}

// cutEnd shortens s to at most width character cells by taking off its end.
func cutEnd(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return strings.TrimRight(prefix(s, width-1), " ") + "…"
}

// prefix is the longest beginning of s that is at most width cells wide.
func prefix(s string, width int) string {
	used := 0
	for i, r := range s {
		used += cells(r)
		if used > width {
			return s[:i]
		}
	}
	return s
}

// wrap breaks text into lines of at most width cells at spaces; a longer word gets a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case columns(line)+1+columns(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
