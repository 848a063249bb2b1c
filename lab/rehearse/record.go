package rehearse

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segue-dev/segue/internal/view"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kinds of view.Event; together with the reason they are the moments that a scenario's expectations can name.
const (
	kindStep       = "step"
	kindNode       = "node"
	kindNodeClaim  = "nodeclaim"
	kindPod        = "pod"
	kindEndpoints  = "endpoints"
	kindReplicaSet = "replicaset"
	kindEviction   = "eviction"
	kindHandover   = "handover"
	kindDrain      = "drain"
	kindEvent      = "event"
)

// Reasons of view.Event, apart from those of Kubernetes events and phases of Handovers.
const (
	reasonCreated  = "created"
	reasonReady    = "ready"
	reasonNotReady = "not-ready"
	reasonDeleted  = "deleted" // asked to go: it has a deletionTimestamp
	reasonGone     = "gone"
	reasonTainted  = "tainted"
	reasonUntaint  = "untainted"
	reasonCordoned = "cordoned"
	reasonAllowed  = "allowed"
	reasonDenied   = "denied"
	reasonNotFound = "not-found"
	reasonFinished = "finished"
	reasonFailed   = "failed"
	reasonNone     = "none" // no ready endpoint
	reasonSome     = "some"
)

// happening is an event before the start of its time axis is known.
type happening struct {
	at                            time.Time
	kind, object, reason, message string
}

// record is everything that was seen in a run, with absolute times. Its methods are called by watches and steps from
// several goroutines; it holds no client.
type record struct {
	mu sync.Mutex

	measured   time.Time // zero until the step `measure`
	nodes      map[string]*nodeTrack
	nodeOrder  []*nodeTrack
	pods       map[types.UID]*podTrack
	podOrder   []*podTrack
	services   map[string]*serviceTrack
	happenings []happening

	ownNodes    map[string]bool // made by the script
	claims      map[string]bool
	revisions   map[types.UID]bool
	handovers   map[types.UID]string // phase
	launched    int                  // nodes since measure that the script did not make
	newRevision int                  // ReplicaSets since measure
	newHandover int                  // Handovers since measure
}

func newRecord() *record {
	return &record{
		nodes: map[string]*nodeTrack{}, pods: map[types.UID]*podTrack{}, services: map[string]*serviceTrack{},
		ownNodes: map[string]bool{}, claims: map[string]bool{}, revisions: map[types.UID]bool{}, handovers: map[types.UID]string{},
	}
}

// nodeTrack is one node's life.
type nodeTrack struct {
	name, instanceType string
	from, gone         time.Time
	taints             []taintTime
	deleted            time.Time // deletion asked for
	leaving            time.Time // first leave signal since measure
	drainEnded         time.Time
	drainErr           error
}

type taintTime struct {
	key, effect string
	from, to    time.Time
}

// podTrack is one pod's life.
type podTrack struct {
	name, workload, node string
	served, measured     bool // measured: created since the step `measure`
	phases               []phaseTime
	deleted, gone        time.Time
	marks                []markTime
}

type phaseTime struct {
	phase view.PodPhase
	from  time.Time
}

type markTime struct {
	at    time.Time
	kind  view.MarkKind
	label string
}

// serviceTrack is a Service's number of ready endpoints.
type serviceTrack struct {
	slices map[string]int // ready endpoints by EndpointSlice
	points []readyTime
}

type readyTime struct {
	at    time.Time
	ready int
}

// note adds an event; the caller holds the lock.
func (r *record) note(at time.Time, kind, object, reason, message string) {
	r.happenings = append(r.happenings, happening{at, kind, object, reason, message})
}

func (r *record) isMeasuring() bool { return !r.measured.IsZero() }

func (r *record) step(at time.Time, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(at, kindStep, "", "", text)
}

func (r *record) measure(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured = at
}

func (r *record) ownNode(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ownNodes[name] = true
}

func (r *record) node(at time.Time, n *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.nodes[n.Name]
	if t == nil {
		t = &nodeTrack{name: n.Name, from: at}
		r.nodes[n.Name], r.nodeOrder = t, append(r.nodeOrder, t)
		r.note(at, kindNode, n.Name, reasonCreated, n.Labels[corev1.LabelInstanceTypeStable])
		if r.isMeasuring() && !r.ownNodes[n.Name] && !r.claims[n.Name] && n.Labels["karpenter.sh/nodepool"] == "" {
			r.launched++ // those of Karpenter are counted by their NodeClaims
		}
	}
	if label := n.Labels[corev1.LabelInstanceTypeStable]; label != "" {
		t.instanceType = label
	}
	r.taints(at, t, n.Spec.Taints, n.Spec.Unschedulable)
	if n.DeletionTimestamp != nil && t.deleted.IsZero() {
		t.deleted = at
		r.note(at, kindNode, n.Name, reasonDeleted, "deletion asked for")
		r.leave(at, t)
	}
}

// leaveTaints are the taints that say that a node is about to leave.
var leaveTaints = []string{"karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"}

func (r *record) taints(at time.Time, t *nodeTrack, taints []corev1.Taint, unschedulable bool) {
	now := map[[2]string]bool{}
	for _, taint := range taints {
		now[[2]string{taint.Key, string(taint.Effect)}] = true
	}
	if unschedulable {
		now[[2]string{corev1.TaintNodeUnschedulable, string(corev1.TaintEffectNoSchedule)}] = true
	}
	for i, had := range t.taints {
		key := [2]string{had.key, had.effect}
		if had.to.IsZero() && !now[key] {
			t.taints[i].to = at
			r.note(at, kindNode, t.name, reasonUntaint, had.key+":"+had.effect)
		}
		if t.taints[i].to.IsZero() {
			delete(now, key)
		}
	}
	added := make([][2]string, 0, len(now))
	for key := range now {
		added = append(added, key)
	}
	slices.SortFunc(added, func(a, b [2]string) int { return cmp.Compare(a[0]+a[1], b[0]+b[1]) })
	for _, key := range added {
		t.taints = append(t.taints, taintTime{key: key[0], effect: key[1], from: at})
		switch {
		case key[0] == corev1.TaintNodeUnschedulable:
			r.note(at, kindNode, t.name, reasonCordoned, key[0]+":"+key[1])
			r.leave(at, t)
		case slices.Contains(leaveTaints, key[0]):
			r.note(at, kindNode, t.name, reasonTainted, key[0]+":"+key[1])
			r.leave(at, t)
		}
	}
}

// leave remembers a node's first leave signal since `measure`.
func (r *record) leave(at time.Time, t *nodeTrack) {
	if r.isMeasuring() && t.leaving.IsZero() {
		t.leaving = at
	}
}

func (r *record) nodeGone(at time.Time, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.nodes[name]; t != nil && t.gone.IsZero() {
		t.gone = at
		r.note(at, kindNode, name, reasonGone, "")
		r.leave(at, t)
	}
}

func (r *record) nodeClaim(at time.Time, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims[name] {
		return
	}
	r.claims[name] = true
	r.note(at, kindNodeClaim, name, reasonCreated, "")
	if r.isMeasuring() {
		r.launched++
	}
}

func (r *record) nodeClaimGone(at time.Time, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(at, kindNodeClaim, name, reasonGone, "")
}

func (r *record) drained(at time.Time, node string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reason, message := reasonFinished, "every pod is gone"
	if err != nil {
		reason, message = reasonFailed, err.Error()
	}
	r.note(at, kindDrain, node, reason, message)
	if t := r.nodes[node]; t != nil {
		t.drainEnded, t.drainErr = at, err
	}
}

// slice notes the ready endpoints of one EndpointSlice; gone says that it was deleted.
func (r *record) slice(at time.Time, s *discoveryv1.EndpointSlice, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := s.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		return
	}
	t := r.services[name]
	if t == nil {
		t = &serviceTrack{slices: map[string]int{}}
		r.services[name] = t
	}
	ready := 0
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			ready++
		}
	}
	t.slices[s.Name] = ready
	if gone {
		delete(t.slices, s.Name)
	}
	total := 0
	for _, n := range t.slices {
		total += n
	}
	before := 0
	if len(t.points) > 0 {
		before = t.points[len(t.points)-1].ready
	}
	if len(t.points) > 0 && before == total {
		return
	}
	t.points = append(t.points, readyTime{at, total})
	switch {
	case total == 0:
		r.note(at, kindEndpoints, name, reasonNone, "no ready endpoint")
	case before == 0:
		r.note(at, kindEndpoints, name, reasonSome, "a ready endpoint")
	}
}

func (r *record) replicaSet(at time.Time, uid types.UID, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revisions[uid] {
		return
	}
	r.revisions[uid] = true
	r.note(at, kindReplicaSet, name, reasonCreated, "")
	if r.isMeasuring() {
		r.newRevision++
	}
}

// handover notes a Handover's phase; pod is the name of the pod that it moves.
func (r *record) handover(at time.Time, uid types.UID, name, pod, phase, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had, known := r.handovers[uid]
	if !known {
		r.note(at, kindHandover, name, reasonCreated, "pod "+pod)
		if r.isMeasuring() {
			r.newHandover++
		}
	}
	r.handovers[uid] = phase
	if phase == "" || known && had == phase {
		return
	}
	r.note(at, kindHandover, name, strings.ToLower(phase), message)
	r.markPod(pod, markTime{at, view.MarkHandover, phase})
}

// eviction notes an answer of the eviction API. That the pod is not there any more is neither a yes nor a no.
func (r *record) eviction(a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch message := a.user + ": " + a.message; {
	case a.code == http.StatusNotFound:
		r.note(a.at, kindEviction, a.pod, reasonNotFound, message)
	case a.code < http.StatusMultipleChoices:
		r.note(a.at, kindEviction, a.pod, reasonAllowed, message)
		r.markPod(a.pod, markTime{a.at, view.MarkEvictionAllowed, message})
	default:
		r.note(a.at, kindEviction, a.pod, reasonDenied, message)
		r.markPod(a.pod, markTime{a.at, view.MarkEvictionDenied, message})
	}
}

// markPod puts a mark on the newest pod of that name; the caller holds the lock.
func (r *record) markPod(name string, m markTime) {
	for _, t := range slices.Backward(r.podOrder) {
		if t.name == name {
			t.marks = append(t.marks, m)
			return
		}
	}
}

func (r *record) event(at time.Time, object, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.happenings {
		if h.kind == kindEvent && h.object == object && h.reason == reason && h.message == message {
			return
		}
	}
	r.note(at, kindEvent, object, reason, message)
}
