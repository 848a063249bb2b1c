package view_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/internal/view/viewtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// load reads a rehearsal of testdata.
func load(t *testing.T, name string) []view.Rehearsal {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	docs, err := view.ReadJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func render(t *testing.T, docs []view.Rehearsal) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := view.HTML(&out, docs); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func text(t *testing.T, docs []view.Rehearsal, o view.TextOptions) string {
	t.Helper()
	var out bytes.Buffer
	if err := view.Text(&out, docs, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestGolden(t *testing.T) {
	ci := load(t, "ci-consolidation.json")
	odd := viewtest.Odd()
	tests := map[string][]byte{
		"ci-consolidation.html": render(t, ci),
		"ci-consolidation.txt":  []byte(text(t, ci, view.TextOptions{})),
		"ci-consolidation.ansi": []byte(text(t, ci, view.TextOptions{Color: true, Width: 80})),
		"odd.html":              render(t, odd),
		"odd.txt":               []byte(text(t, odd, view.TextOptions{})),
	}
	for name, got := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s differs (-want +got); after a wanted change run go test with -update\n%s", path, diff)
			}
		})
	}
}

// The fixture is what the README shows, so it must be the story that it tells.
func TestFixtureTellsItsStory(t *testing.T) {
	runs := load(t, "ci-consolidation.json")[0].Runs
	stock, segue := runs[0], runs[1]
	if stock.Requests.Failed != len(stock.Timeline.Failures) || stock.Requests.Failed == 0 || stock.DowntimeSeconds == 0 {
		t.Errorf("stock: %d failed, %d in the timeline, %v s down", stock.Requests.Failed, len(stock.Timeline.Failures), stock.DowntimeSeconds)
	}
	if segue.Requests.Failed != 0 || segue.DowntimeSeconds != 0 || segue.NodesGone != 1 {
		t.Errorf("segue: %d failed, %v s down, %d nodes gone", segue.Requests.Failed, segue.DowntimeSeconds, segue.NodesGone)
	}
}
