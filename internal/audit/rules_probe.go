package audit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// tightest is the time in seconds below which a liveness probe restarts containers that are only busy.
const tightest = 10

// patient is the time in seconds from which a liveness probe bears what a readiness probe reacts to.
const patient = 60

func probeRules() []Rule {
	return []Rule{
		{
			ID: "readiness-missing", Severity: Warning, Title: "pods behind a Service without a readiness probe",
			Why: "A pod without a readiness probe is Ready as soon as its containers run. Traffic arrives before the application listens, and a " +
				"rollout, a drain or a handover counts the new pod as serving and lets the old one go too early.",
			Remedy: "Add a readinessProbe that answers once the application can serve.",
			check:  checkReadinessMissing,
		},
		{
			ID: "readiness-proves-nothing", Severity: Warning, Title: "a readiness probe that always succeeds",
			Why: "The probe runs a command that cannot fail, so the pod is Ready as soon as its container runs, whatever the application does, and " +
				"whatever it waits for, such as a node agent.",
			Remedy: "Ask the application itself, by httpGet or grpc, or check what it needs in order to work.",
			check:  checkReadinessProvesNothing,
		},
		{
			ID: "liveness-equals-readiness", Severity: Warning, Title: "a liveness probe that is the readiness probe",
			Why: "Both ask the same question with the same patience. What should take a pod out of the Service for a moment, load or a slow dependency, " +
				"restarts it instead, and then its neighbours get its load.",
			Remedy: "Let the liveness probe ask only whether the process is stuck, with a higher failureThreshold, or remove it.",
			check:  checkLivenessEquals,
		},
		{
			ID: "liveness-tight", Severity: Warning, Title: "a liveness probe with little patience",
			Why: "The container is restarted after less than 10 s without an answer. A busy node, a garbage collection or a throttled CPU takes that long, " +
				"most of all on a full node that has just started.",
			Remedy: "Let failureThreshold times periodSeconds be 30 s or more; a startupProbe covers a slow start.",
			check:  checkLivenessTight,
		},
	}
}

func checkReadinessMissing(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if !w.serves() || len(w.Services) == 0 || len(w.Pod.ReadinessGates) > 0 {
			continue
		}
		if slices.ContainsFunc(w.Pod.Containers, func(c corev1.Container) bool { return c.ReadinessProbe != nil }) || len(w.Pod.Containers) == 0 {
			continue
		}
		if slices.ContainsFunc(w.Pod.InitContainers, func(c corev1.Container) bool { return c.ReadinessProbe != nil }) {
			continue // a sidecar answers for the pod
		}
		r.add(w.Object, detail{path: w.containerPath(0, "readinessProbe"), effective: "Ready as soon as the containers run",
			message: fmt.Sprintf("Service %s sends traffic to the pods as soon as their containers run, before the application listens", w.Services[0].Object.Name)})
	}
}

func checkReadinessProvesNothing(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		for i, c := range w.Pod.Containers {
			if c.ReadinessProbe == nil || c.ReadinessProbe.Exec == nil || !cannotFail(c.ReadinessProbe.Exec.Command) {
				continue
			}
			r.add(w.Object, detail{path: w.containerPath(i, "readinessProbe.exec.command"), effective: "Ready as soon as the container runs",
				message: fmt.Sprintf("%q cannot fail: the pod is Ready whatever the application does", strings.Join(c.ReadinessProbe.Exec.Command, " "))})
		}
	}
}

func cannotFail(command []string) bool {
	if len(command) == 3 && strings.HasSuffix(command[0], "sh") && command[1] == "-c" {
		command = strings.Fields(command[2])
	}
	if len(command) == 0 {
		return false
	}
	name := command[0][strings.LastIndex(command[0], "/")+1:]
	return (name == "true" || name == ":" || name == "echo") && !strings.ContainsAny(strings.Join(command, " "), "&|;$`<>")
}

func checkLivenessEquals(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		for i, c := range w.Pod.Containers {
			live, ready := c.LivenessProbe, c.ReadinessProbe
			if live == nil || ready == nil || !reflect.DeepEqual(live.ProbeHandler, ready.ProbeHandler) || patience(live) > patience(ready) || patience(live) >= patient {
				continue
			}
			r.add(w.Object, detail{path: w.containerPath(i, "livenessProbe"), effective: fmt.Sprintf("restarted after %d s without an answer", patience(live)),
				message: fmt.Sprintf("it asks what the readiness probe asks and gives up after %d s, the readiness probe after %d s: what should only stop traffic restarts the container", patience(live), patience(ready))})
		}
	}
}

// patience is how many seconds a probe may fail before it counts.
func patience(p *corev1.Probe) int {
	period, failures := p.PeriodSeconds, p.FailureThreshold
	if period == 0 {
		period = 10
	}
	if failures == 0 {
		failures = 3
	}
	return int(period) * int(failures)
}

func checkLivenessTight(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		for i, c := range w.Pod.Containers {
			if c.LivenessProbe == nil || patience(c.LivenessProbe) >= tightest {
				continue
			}
			r.add(w.Object, detail{path: w.containerPath(i, "livenessProbe"), effective: fmt.Sprintf("restarted after %d s without an answer", patience(c.LivenessProbe)),
				message: fmt.Sprintf("the container is restarted after %d s without an answer, which a busy node takes", patience(c.LivenessProbe))})
		}
	}
}
