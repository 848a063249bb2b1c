package audit

import (
	"bytes"
	"fmt"
	"strings"
)

// Limits bound what one document may cost. A document beyond them is a Problem, never a long wait or much memory.
type Limits struct {
	// Bytes is the size of a document's text.
	Bytes int
	// Nodes is the number of scalars, lists and maps after aliases were put in.
	Nodes int
	// Depth is how deep lists and maps are nested.
	Depth int
}

// DefaultLimits are above what an API server stores (3 MiB an object) and leave room for the lists that kubectl prints.
var DefaultLimits = Limits{Bytes: 16 << 20, Nodes: 1_000_000, Depth: 64}

// Document is the text of one YAML document and where it stands.
type Document struct {
	// File names the input as the user did; "-" is standard input.
	File string
	// Line is that of the document's first line, from 1.
	Line int
	// Text is the document without the next one's marker.
	Text []byte
}

// Problem is a document that could not be read.
type Problem struct {
	File    string
	Line    int
	Message string
	// Template says that the document looks like a template, which is no YAML before it is rendered.
	Template bool
}

// Error returns the problem as file:line: message.
func (p Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message) }

// Split cuts a stream at its document markers, by lines and before anything is parsed, so that a broken document cannot hide
// the next one. Documents without content are left out.
func Split(file string, text []byte) []Document {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var documents []Document
	start, startLine, line := 0, 1, 0
	cut := func(end int) {
		if part := text[start:end]; hasContent(part) {
			documents = append(documents, Document{File: file, Line: startLine, Text: part})
		}
	}
	for at := 0; at < len(text); {
		line++
		next := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		switch current := text[at:next]; {
		case isMarker(current, "---"):
			cut(at)
			start, startLine = at, line // what follows the marker on its line belongs to the document
		case isMarker(current, "..."):
			cut(at)
			start, startLine = next, line+1
		}
		at = next
	}
	cut(len(text))
	return documents
}

// isMarker says whether a line is a document marker: three characters at its start and then nothing or a blank.
func isMarker(line []byte, marker string) bool {
	return bytes.HasPrefix(line, []byte(marker)) && (len(line) == len(marker) || strings.IndexByte(" \t\r\n", line[len(marker)]) >= 0)
}

// hasContent says whether a document has a line that is not blank, a comment, a directive or a bare marker.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		if isMarker(line, "---") {
			line = line[3:]
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return true
		}
	}
	return false
}
