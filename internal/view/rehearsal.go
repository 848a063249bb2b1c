// Package view renders report models as text, JSON and self-contained HTML. It computes nothing about a cluster and
// holds no client: what is not in the model cannot appear in a view.
package view

// RehearsalSchema is the value of Rehearsal.Schema; the JSON form of this file's types stays stable under it.
const RehearsalSchema = "segue.dev/rehearsal/v1"

// Mode says how a scenario was run: on the cluster as it is today, or with Segue installed.
type Mode string

// The modes of a run.
const (
	ModeStock Mode = "stock"
	ModeSegue Mode = "segue"
)

// Verdict is the outcome of a rehearsal.
type Verdict string

// Verdicts of a rehearsal. Invalid means that the runs prove nothing, for example because the load never ran.
const (
	VerdictPass    Verdict = "pass"
	VerdictFail    Verdict = "fail"
	VerdictInvalid Verdict = "invalid"
)

// Rehearsal is the result of one scenario, one JSON document.
type Rehearsal struct {
	Schema   string `json:"schema"`
	Scenario string `json:"scenario"`
	// Title is one sentence that says what the scenario plays.
	Title string `json:"title,omitempty"`
	Runs  []Run  `json:"runs"`
	// Expectations lists every expectation with its result, in the order of the scenario file.
	Expectations []Expectation `json:"expectations,omitempty"`
	Verdict      Verdict       `json:"verdict"`
}

// Expectation is one line of a scenario's expectations and what became of it.
type Expectation struct {
	Mode Mode   `json:"mode"`
	Text string `json:"text"`
	Met  bool   `json:"met"`
	// Got is the measured value in words.
	Got string `json:"got,omitempty"`
}

// Run is one run of a scenario in one mode. All times are in seconds since the step `measure`.
type Run struct {
	Mode Mode `json:"mode"`
	// DowntimeSeconds sums, over the scenario's Services, the time without a ready endpoint.
	DowntimeSeconds float64  `json:"downtimeSeconds"`
	Requests        Requests `json:"requests"`
	// DrainSeconds is the time from the first leave signal on a node until that node, or for a drain its last pod, was gone.
	DrainSeconds float64 `json:"drainSeconds"`
	// DrainsFailed counts the drains that gave up; then DrainSeconds is the time until they did.
	DrainsFailed     int      `json:"drainsFailed,omitempty"`
	PodsStarted      int      `json:"podsStarted"`
	RevisionsCreated int      `json:"revisionsCreated"`
	NodesLaunched    int      `json:"nodesLaunched"`
	NodesGone        int      `json:"nodesGone"`
	Handovers        int      `json:"handovers"`
	Events           []Event  `json:"events"`
	Timeline         Timeline `json:"timeline"`
}

// Requests counts the requests that the load generator really sent.
type Requests struct {
	Total  int `json:"total"`
	Failed int `json:"failed"`
}

// Event is something that happened in a run, in the order in which it was seen.
type Event struct {
	// T is in seconds since the step `measure`; earlier events are negative.
	T       float64 `json:"t"`
	Kind    string  `json:"kind"`
	Object  string  `json:"object"`
	Reason  string  `json:"reason"`
	Message string  `json:"message"`
}

// Timeline is what the picture of a run shows.
type Timeline struct {
	// EndSeconds is where the picture ends.
	EndSeconds float64          `json:"endSeconds"`
	Nodes      []NodeLane       `json:"nodes"`
	Services   []ServiceSeries  `json:"services"`
	Failures   []RequestFailure `json:"failures"`
	// Steps are the scenario's own steps.
	Steps []Mark `json:"steps"`
}

// Span is a half-open interval in seconds since `measure`; what had begun earlier begins before 0, what had not ended
// ends at Timeline.EndSeconds.
type Span struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// NodeLane is one node with the pods that ran on it.
type NodeLane struct {
	Name         string `json:"name"`
	InstanceType string `json:"instanceType,omitempty"`
	Span
	Taints []TaintSpan `json:"taints,omitempty"`
	Pods   []PodBar    `json:"pods,omitempty"`
	// Marks are what happened to the node itself, for example deletion asked for.
	Marks []Mark `json:"marks,omitempty"`
}

// TaintSpan is the time in which a node carried a taint (or was cordoned: key node.kubernetes.io/unschedulable).
type TaintSpan struct {
	Key    string `json:"key"`
	Effect string `json:"effect"`
	Span
}

// PodPhase is a phase of a pod as the picture shows it.
type PodPhase string

// Phases of a pod in the picture.
const (
	PodStarting PodPhase = "starting"
	PodReady    PodPhase = "ready"
	PodNotReady PodPhase = "not-ready"
	PodStopping PodPhase = "stopping"
)

// PodBar is one pod in a node's lane.
type PodBar struct {
	Name     string      `json:"name"`
	Workload string      `json:"workload"`
	Phases   []PhaseSpan `json:"phases"`
	// Marks are eviction answers, handover steps and the deletion of the pod.
	Marks []Mark `json:"marks,omitempty"`
}

// PhaseSpan is the time in which a pod was in a phase.
type PhaseSpan struct {
	Phase PodPhase `json:"phase"`
	Span
}

// MarkKind is the kind of a mark; each has its own shape in the picture.
type MarkKind string

// Kinds of marks.
const (
	MarkStep            MarkKind = "step"
	MarkEvictionAllowed MarkKind = "eviction-allowed"
	MarkEvictionDenied  MarkKind = "eviction-denied"
	MarkDeletion        MarkKind = "deletion"
	MarkHandover        MarkKind = "handover"
)

// Mark is a moment in the picture.
type Mark struct {
	T     float64  `json:"t"`
	Kind  MarkKind `json:"kind"`
	Label string   `json:"label"`
}

// ServiceSeries is a Service's number of ready endpoints over time, as steps: a point holds until the next one.
type ServiceSeries struct {
	Name  string       `json:"name"`
	Ready []ReadyPoint `json:"ready"`
}

// ReadyPoint is a change of a Service's number of ready endpoints.
type ReadyPoint struct {
	T     float64 `json:"t"`
	Ready int     `json:"ready"`
}

// RequestFailure is one failed request.
type RequestFailure struct {
	T       float64 `json:"t"`
	Service string  `json:"service"`
	Cause   string  `json:"cause"`
}
