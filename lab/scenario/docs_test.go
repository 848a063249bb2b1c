package scenario

import (
	"os"
	"strings"
	"testing"
)

// TestDocs holds the documentation to the parser's own lists, so that no word can be added without being explained.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(data)
	var want []string
	for _, v := range verbs {
		want = append(want, "| `"+v.name)
	}
	for _, c := range conditions {
		want = append(want, "| `"+c.usage+"` |")
	}
	for _, m := range metrics {
		want = append(want, "`"+string(m)+"`")
	}
	for _, m := range moments {
		want = append(want, "`"+m+"`")
	}
	for _, c := range components {
		want = append(want, "`"+c+"`")
	}
	for _, w := range want {
		if !strings.Contains(docs, w) {
			t.Errorf("docs/scenarios.md does not have %s", w)
		}
	}
}
