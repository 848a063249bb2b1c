package play

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseBehaviour(t *testing.T) {
	defaults := Behaviour{StartDelay: time.Second, RequestDuration: 5 * time.Millisecond, OnTerm: Finish}
	for name, test := range map[string]struct {
		annotations map[string]string
		want        Behaviour
		// wrong are the annotations that the error must name.
		wrong []string
	}{
		"defaults": {annotations: map[string]string{AnnotationServe: "true"}, want: defaults},
		"all": {
			annotations: map[string]string{
				AnnotationStartDelay: "5s", AnnotationStopDelay: "1500ms", AnnotationRequestDuration: "0s",
				AnnotationOnTerm: "ignore", AnnotationReady: "false",
			},
			want: Behaviour{StartDelay: 5 * time.Second, StopDelay: 1500 * time.Millisecond, OnTerm: Ignore, NeverReady: true},
		},
		"every wrong one is named": {
			annotations: map[string]string{
				AnnotationStartDelay: "5", AnnotationStopDelay: "-1s", AnnotationOnTerm: "explode", AnnotationReady: "maybe",
			},
			wrong: []string{AnnotationStartDelay, AnnotationStopDelay, AnnotationOnTerm, AnnotationReady},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseBehaviour(test.annotations)
			if (err != nil) != (len(test.wrong) > 0) {
				t.Fatalf("error %v, want one: %v", err, len(test.wrong) > 0)
			}
			for _, annotation := range test.wrong {
				if !strings.Contains(err.Error(), annotation) {
					t.Errorf("error %q does not name %s", err, annotation)
				}
			}
			if diff := cmp.Diff(test.want, got); err == nil && diff != "" {
				t.Errorf("behaviour (-want +got):\n%s", diff)
			}
		})
	}
}
