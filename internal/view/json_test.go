package view_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/internal/view/viewtest"
)

func TestJSONIsOneLineADocument(t *testing.T) {
	docs := append(load(t, "ci-consolidation.json"), viewtest.Hostile(), view.Rehearsal{Runs: []view.Run{{Mode: view.ModeStock}}})
	var out bytes.Buffer
	for _, doc := range docs {
		if err := view.JSON(&out, doc); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(out.String(), "\n"); got != len(docs) || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("%d documents gave %d lines", len(docs), got)
	}
	if strings.Contains(out.String(), "null") {
		t.Error("an empty list is written as null")
	}
	back, err := view.ReadJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(docs[0], back[0]); diff != "" {
		t.Errorf("what was read is not what was written (-wrote +read)\n%s", diff)
	}
}

func TestJSONRefusesWhatItCannotHold(t *testing.T) {
	doc := view.Rehearsal{Scenario: "broken", Runs: []view.Run{{DowntimeSeconds: math.NaN()}}}
	var out bytes.Buffer
	err := view.JSON(&out, doc)
	if err == nil || !strings.Contains(err.Error(), `"broken"`) {
		t.Errorf("error %v does not name the scenario", err)
	}
	if out.Len() != 0 {
		t.Errorf("wrote %q before failing", out.String())
	}
}

func TestReadJSONSaysWhatIsWrong(t *testing.T) {
	good := `{"schema":"segue.dev/rehearsal/v1","scenario":"a","runs":[],"verdict":"pass"}` + "\n"
	tests := map[string]struct{ in, want string }{
		"other schema": {good + `{"schema":"segue.dev/audit/v1"}`, `document 2: schema is "segue.dev/audit/v1"`},
		"not JSON":     {good + good + `hello`, `document 3`},
		"cut off":      {good + `{"schema":`, `document 2`},
		"wrong type":   {`{"schema":"segue.dev/rehearsal/v1","runs":7}`, `document 1`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := view.ReadJSON(strings.NewReader(test.in)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}
