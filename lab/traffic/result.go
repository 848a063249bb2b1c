package traffic

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// Cause is why a request failed; empty if it did not.
type Cause string

// Causes of a failed request.
const (
	// NoEndpoints: the Service had no endpoint that could take the request.
	NoEndpoints Cause = "no-endpoints"
	// Refused: nothing listened at the endpoint.
	Refused Cause = "refused"
	// Reset: the connection ended before the answer was complete.
	Reset Cause = "reset"
	// Timeout: there was no complete answer in time.
	Timeout Cause = "timeout"
	// HTTPStatus: the answer's status was 400 or more.
	HTTPStatus Cause = "http-status"
	// Saturated: the generator had too many requests open and did not send this one.
	Saturated Cause = "saturated"
	// Other: anything else, see the message.
	Other Cause = "other"
)

// Result is what became of one request.
type Result struct {
	// Sent is when the request was sent, or would have been.
	Sent time.Time
	// Duration is the time from then to the end of the answer or the failure.
	Duration time.Duration
	// Endpoint is the pod's address and port, and Pod its name; empty if there was no endpoint.
	Endpoint, Pod string
	// Status is the answer's HTTP status, 0 if there was none.
	Status int
	// Cause is empty if the request succeeded.
	Cause Cause
	// Message says in words what went wrong.
	Message string
}

// Failed says whether the request failed.
func (r Result) Failed() bool { return r.Cause != "" }

// errNotListening is the error of a connection to a pod's port at which nothing listens.
var errNotListening = errors.New("connection refused: nothing listens there")

// causeOf classifies the error of a round trip.
func causeOf(err error) Cause {
	var network net.Error
	switch {
	case errors.Is(err, errNotListening), errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return Timeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Reset
	}
	return Other
}
