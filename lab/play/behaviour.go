package play

import (
	"errors"
	"fmt"
	"time"
)

// Annotations of a served pod, set on the pod template. All but AnnotationServe are optional.
const (
	// AnnotationServe makes a pod a served one when its value is "true".
	AnnotationServe = "lab.segue.dev/serve"
	// AnnotationStartDelay is the time from the start of the containers until the pod listens and is ready, a Go duration.
	AnnotationStartDelay = "lab.segue.dev/start-delay"
	// AnnotationStopDelay is the time that the application needs to stop after SIGTERM, a Go duration.
	AnnotationStopDelay = "lab.segue.dev/stop-delay"
	// AnnotationRequestDuration is the time that one request takes, a Go duration.
	AnnotationRequestDuration = "lab.segue.dev/request-duration"
	// AnnotationOnTerm is what the application does on SIGTERM, one of the OnTerm constants.
	AnnotationOnTerm = "lab.segue.dev/on-term"
	// AnnotationReady is "true", or "false" for a pod that listens but never becomes ready.
	AnnotationReady = "lab.segue.dev/ready"
)

// OnTerm is what an application does when it gets SIGTERM.
type OnTerm string

// What an application can do on SIGTERM.
const (
	// Finish accepts requests until the stop delay is over, then finishes those that run and exits.
	Finish OnTerm = "finish"
	// Close stops accepting at once, finishes the requests that run, and exits when the stop delay is over too.
	Close OnTerm = "close"
	// Ignore goes on as if nothing had happened, until it is killed at the end of the grace period.
	Ignore OnTerm = "ignore"
)

// Behaviour is how a served pod behaves.
type Behaviour struct {
	// StartDelay is the time from the start of the containers until the pod listens and is ready. Default 1s.
	StartDelay time.Duration
	// StopDelay is the time that the application needs to stop after SIGTERM. Default 0.
	StopDelay time.Duration
	// RequestDuration is the time that one request takes. Default 5ms.
	RequestDuration time.Duration
	// OnTerm is what the application does on SIGTERM. Default Finish.
	OnTerm OnTerm
	// NeverReady keeps the pod from becoming ready; it listens all the same. Default false.
	NeverReady bool
}

// ParseBehaviour reads the behaviour of a served pod from its annotations. The error names every annotation that is
// wrong, with what it may be.
func ParseBehaviour(annotations map[string]string) (Behaviour, error) {
	b := Behaviour{StartDelay: time.Second, RequestDuration: 5 * time.Millisecond, OnTerm: Finish}
	var errs []error
	for name, field := range map[string]*time.Duration{
		AnnotationStartDelay:      &b.StartDelay,
		AnnotationStopDelay:       &b.StopDelay,
		AnnotationRequestDuration: &b.RequestDuration,
	} {
		value, set := annotations[name]
		if !set {
			continue
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			errs = append(errs, fmt.Errorf("annotation %s=%q: want a Go duration of 0 or more, for example 1.5s", name, value))
			continue
		}
		*field = d
	}
	if value, set := annotations[AnnotationOnTerm]; set {
		switch b.OnTerm = OnTerm(value); b.OnTerm {
		case Finish, Close, Ignore:
		default:
			errs = append(errs, fmt.Errorf("annotation %s=%q: want %s, %s or %s", AnnotationOnTerm, value, Finish, Close, Ignore))
		}
	}
	switch value, set := annotations[AnnotationReady]; {
	case !set || value == "true":
	case value == "false":
		b.NeverReady = true
	default:
		errs = append(errs, fmt.Errorf("annotation %s=%q: want true or false", AnnotationReady, value))
	}
	return b, errors.Join(errs...)
}
