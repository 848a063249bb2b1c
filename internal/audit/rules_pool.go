package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func poolRules() []Rule {
	return []Rule{
		{
			ID: "spot-without-interruption-handler", Severity: Critical, Title: "spot nodes whose reclaim nobody hears of",
			Why: "AWS announces a reclaim two minutes ahead, to a queue or on the node. Karpenter listens only when it is given an interruption queue. Without it, " +
				"and without a termination handler, the node disappears with all its pods: no drain, and budgets are not effective for reclaims.",
			Remedy: "Give Karpenter the queue (settings.interruptionQueue in its chart, INTERRUPTION_QUEUE in its Deployment).",
			check:  checkInterruption,
		},
		{
			ID: "two-interruption-handlers", Severity: Warning, Title: "two programs that answer the same interruption",
			Why: "Karpenter with an interruption queue and the AWS node termination handler both drain the node on a reclaim: with different rules and deadlines, " +
				"and the handler's cordon keeps Karpenter from seeing a node that it could replace in time.",
			Remedy: "Remove the termination handler, or keep it off Karpenter's nodes.",
			check:  func(*Inventory, *reporter) {}, // found with spot-without-interruption-handler
		},
		{
			ID: "pool-without-limits", Severity: Warning, Title: "a pool without limits",
			Why:    "Nothing stops the pool from growing: a wrong autoscaler bound or a job that makes pods without end is paid for until somebody sees it.",
			Remedy: "Set spec.limits.cpu (and memory) somewhat above the highest peak that is wanted.",
			check: func(inv *Inventory, r *reporter) {
				for _, p := range inv.Pools {
					if v, _ := p.Object.at("spec", "limits"); len(asMap(v)) == 0 {
						if _, static := p.Object.at("spec", "replicas"); !static {
							r.add(p.Object, detail{path: "spec.limits", effective: "no limit", message: "the pool may launch nodes without end"})
						}
					}
				}
			},
		},
		{
			ID: "pool-never-disrupts", Severity: Warning, Title: "a pool whose budget forbids every voluntary disruption",
			Why: "A budget of 0 nodes without a schedule holds always: no consolidation, no drift, so neither cost nor security updates get better by " +
				"themselves. Expiry and interruption do not ask it. The lowest active budget wins, so another budget beside it changes nothing.",
			Remedy: "Give the budget a schedule and a duration, or allow a number of nodes.",
			check:  checkPoolNeverDisrupts,
		},
		{
			ID: "pool-budget-ends-nothing", Severity: Error, Title: "a schedule that Karpenter cannot read",
			Why:    "A budget whose schedule cannot be parsed counts as 0 allowed disruptions, always. A schedule without a duration, or the reverse, is refused.",
			Remedy: "Write five cron fields in UTC (or @daily and the like) together with a duration.",
			check:  checkPoolSchedule,
		},
		{
			ID: "node-deadline-cuts-grace", Severity: Error, Title: "a node deadline shorter than a pod's grace period",
			Why: "With terminationGracePeriod on the NodePool, Karpenter deletes pods so early that their grace ends with it; a pod whose own grace is longer " +
				"is deleted at once when the drain starts, without asking budgets, and still does not get its time.",
			Remedy: "Let the pool's terminationGracePeriod exceed the longest grace period of the pods plus the time that a replacement takes.",
			check:  checkDeadlineCuts,
		},
		{
			ID: "node-deadline-overrides-protection", Severity: Warning, Title: "protection that ends at the node's deadline",
			Why: "With terminationGracePeriod on the NodePool, Karpenter starts to drain also where a budget or do-not-disrupt forbids it (expiry, drift), and at " +
				"the deadline deletes the pods with neither asked. Who relies on these annotations and budgets for work that must not be cut does not have it.",
			Remedy: "Run this work on a pool without the deadline, or let it end before: on SIGTERM, or as a Job that can be repeated.",
			check:  checkDeadlineOverrides,
		},
		{
			ID: "drain-can-hang", Severity: Warning, Title: "expiry without a deadline, and pods that forbid the drain",
			Why: "An expired node is drained without asking whether it can be. While a pod on it has do-not-disrupt, or a budget that allows nothing, the drain waits: " +
				"the node takes no new pods, is not replaced, and stays until somebody intervenes.",
			Remedy: "Set terminationGracePeriod on the pool, or remove what forbids the drain.",
			check:  checkDrainHangs,
		},
		{
			ID: "pool-defaults", Severity: Info, Title: "settings of a pool that are in force though not written",
			Why: "What is not written has a default that surprises: nodes are consolidated as soon as they are underused, 10 % of them at a time, " +
				"at any hour, and each is replaced after 30 days.",
			Remedy: "Write down what is wanted.",
			check:  checkPoolDefaults,
		},
	}
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func isAWS(p *Pool) bool {
	return p.Object.text("spec", "template", "spec", "nodeClassRef", "group") == "karpenter.k8s.aws"
}

// karpenter returns the workload that runs Karpenter's AWS controller, nil when it is not among the objects.
func (inv *Inventory) karpenter() (w *Workload, hasQueue bool) {
	for _, w := range inv.Workloads {
		if !w.is("Deployment") {
			continue
		}
		for _, c := range w.Pod.Containers {
			name := c.Image[strings.LastIndex(c.Image, "/")+1:]
			if !strings.Contains(c.Image, "karpenter") || !strings.HasPrefix(name, "controller") && !strings.HasPrefix(name, "karpenter") {
				continue
			}
			return w, hasInterruptionQueue(c)
		}
	}
	return nil, false
}

func hasInterruptionQueue(c corev1.Container) bool {
	for _, env := range c.Env {
		if env.Name == "INTERRUPTION_QUEUE" && (env.Value != "" || env.ValueFrom != nil) {
			return true
		}
	}
	if len(c.EnvFrom) > 0 {
		return true // it may be in there
	}
	return slices.ContainsFunc(append(append([]string{}, c.Command...), c.Args...), func(a string) bool { return strings.HasPrefix(a, "--interruption-queue") })
}

func checkInterruption(inv *Inventory, r *reporter) {
	controller, queue := inv.karpenter()
	var handler *Workload
	for _, w := range inv.Workloads {
		if slices.ContainsFunc(w.Pod.Containers, func(c corev1.Container) bool { return strings.Contains(c.Image, "aws-node-termination-handler") }) {
			handler = w
		}
	}
	if handler != nil && queue && handler.is("DaemonSet") && slices.ContainsFunc(inv.Pools, func(p *Pool) bool { return p.allowsSpot() && p.takes(handler) }) {
		twice := *r
		twice.rule = r.rules["two-interruption-handlers"]
		twice.add(handler.Object, detail{message: fmt.Sprintf("Karpenter (Deployment %s) has an interruption queue and drains on the same signals", controller.Object.Name)})
	}
	if controller == nil || queue || handler != nil {
		return
	}
	for _, p := range inv.Pools {
		if p.allowsSpot() && isAWS(p) && inv.together(p.Object, controller.Object) {
			r.add(p.Object, detail{path: "spec.template.spec.requirements", effective: "a reclaimed node goes without a drain; budgets are not effective for reclaims",
				message: fmt.Sprintf("the pool launches spot nodes, Karpenter (Deployment %s) has no interruption queue and there is no termination handler", controller.Object.Name)})
		}
	}
}

// poolBudgets returns the budgets of a pool as they are written.
func poolBudgets(p *Pool) []map[string]any {
	v, _ := p.Object.at("spec", "disruption", "budgets")
	list, _ := v.([]any)
	var out []map[string]any
	for _, item := range list {
		out = append(out, asMap(item))
	}
	return out
}

func checkPoolNeverDisrupts(inv *Inventory, r *reporter) {
	for _, p := range inv.Pools {
		for i, b := range poolBudgets(p) {
			nodes, _ := b["nodes"].(string)
			if (nodes == "0" || nodes == "0%") && b["schedule"] == nil && b["reasons"] == nil {
				r.add(p.Object, detail{path: fmt.Sprintf("spec.disruption.budgets[%d]", i), effective: "0 voluntary disruptions at any time",
					message: "the budget of " + nodes + " nodes has no schedule, so it holds always: nothing is consolidated and no drifted node replaced"})
			}
		}
	}
}

func checkPoolSchedule(inv *Inventory, r *reporter) {
	for _, p := range inv.Pools {
		for i, b := range poolBudgets(p) {
			schedule, written := b["schedule"].(string)
			_, lasts := b["duration"]
			path := fmt.Sprintf("spec.disruption.budgets[%d]", i)
			switch {
			case written && !isCron(schedule):
				r.add(p.Object, detail{path: path + ".schedule", effective: "0 disruptions, always", message: fmt.Sprintf("%q is not a schedule that Karpenter reads", schedule)})
			case written != lasts:
				r.add(p.Object, detail{path: path, effective: "the API server refuses the pool", message: "schedule and duration are written only together"})
			}
		}
	}
}

var cronNames = []string{"@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// isCron says whether a text has the shape of a schedule: a name, or five fields of what cron fields consist of.
func isCron(text string) bool {
	if slices.Contains(cronNames, text) {
		return true
	}
	fields := strings.Fields(text)
	if len(fields) > 0 && (strings.HasPrefix(fields[0], "TZ=") || strings.HasPrefix(fields[0], "CRON_TZ=")) {
		return false
	}
	if len(fields) != 5 {
		return false
	}
	limits := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}
	for i, field := range fields {
		if !isCronField(field, limits[i]) {
			return false
		}
	}
	return true
}

func isCronField(field string, limits [2]int) bool {
	number := 0
	digits := false
	within := func() bool { return !digits || number >= limits[0] && number <= limits[1] }
	steps := false
	for _, c := range strings.ToUpper(field) {
		switch {
		case c >= '0' && c <= '9':
			number, digits = min(number*10+int(c-'0'), 1000), true
		case c == '*' || c == '?' || c >= 'A' && c <= 'Z':
		case c == ',' || c == '-' || c == '/':
			if !steps && !within() {
				return false
			}
			number, digits, steps = 0, false, c == '/'
		default:
			return false
		}
	}
	return field != "" && (steps || within())
}

// onPool returns the workloads whose pods a pool may take; DaemonSets are left out, since they end with their node.
func (inv *Inventory) onPool(p *Pool) []*Workload {
	var found []*Workload
	for _, w := range inv.Workloads {
		if !w.is("DaemonSet") && inv.together(p.Object, w.Object) && p.takes(w) {
			found = append(found, w)
		}
	}
	return found
}

func checkDeadlineCuts(inv *Inventory, r *reporter) {
	for _, p := range inv.Pools {
		if p.Deadline == 0 {
			continue
		}
		for _, w := range inv.onPool(p) {
			if grace := time.Duration(w.grace()) * time.Second; grace >= p.Deadline {
				r.add(w.Object, detail{path: w.path("spec.terminationGracePeriodSeconds"), effective: fmt.Sprintf("at most %s on nodes of %s", brief(p.Deadline), p.Object.Name),
					message: fmt.Sprintf("the pods may take %s to stop and NodePool %s ends its nodes %s after a drain starts", brief(grace), p.Object.Name, brief(p.Deadline))})
			}
		}
	}
}

// protection says what a workload relies on against disruption, with the path and the object that it is written in; "" for nothing.
func protection(w *Workload) (what string, o *Object, path string) {
	if key := w.keepsNode(); strings.HasPrefix(key, "karpenter.sh/") {
		return key, w.Object, w.annotationPath(key)
	}
	replicas, _ := w.fewest()
	for _, b := range w.Budgets {
		if n, _, path := b.allowed(replicas); len(b.Workloads) == 1 && w.serves() && n == 0 && path != "" && replicas > 0 && b.blocksAlways() {
			return "PodDisruptionBudget " + b.Object.Name, b.Object, path
		}
	}
	return "", nil, ""
}

func checkDeadlineOverrides(inv *Inventory, r *reporter) {
	for _, p := range inv.Pools {
		if p.Deadline == 0 {
			continue
		}
		for _, w := range inv.onPool(p) {
			if what, o, path := protection(w); what != "" {
				r.add(o, detail{path: path, effective: fmt.Sprintf("overridden %s after the drain of a node starts", brief(p.Deadline)),
					message: fmt.Sprintf("NodePool %s has terminationGracePeriod %s: it overrides %s of %s %s after %s", p.Object.Name, brief(p.Deadline), what, w.Object.Kind, w.Object.Name, brief(p.Deadline))})
			}
		}
	}
}

func checkDrainHangs(inv *Inventory, r *reporter) {
	for _, p := range inv.Pools {
		if p.Deadline != 0 || !p.Expires {
			continue
		}
		for _, w := range inv.onPool(p) {
			if what, _, _ := protection(w); what != "" && w.serves() {
				r.add(p.Object, detail{path: "spec.template.spec.terminationGracePeriod", effective: "no deadline",
					message: fmt.Sprintf("nodes expire after %s, and %s of %s %s forbids the drain: such a node hangs without end", p.ExpireAfter, what, w.Object.Kind, w.Object.Name)})
				break
			}
		}
	}
}

func checkPoolDefaults(inv *Inventory, r *reporter) {
	for _, p := range inv.Pools {
		var unset []string
		for _, d := range []struct {
			keys  []string
			value string
		}{
			{[]string{"spec", "disruption", "consolidationPolicy"}, "consolidationPolicy WhenEmptyOrUnderutilized"},
			{[]string{"spec", "disruption", "consolidateAfter"}, "consolidateAfter 0s"},
			{[]string{"spec", "disruption", "budgets"}, "budgets 10% at any time"},
			{[]string{"spec", "template", "spec", "expireAfter"}, "expireAfter 720h"},
		} {
			if _, ok := p.Object.at(d.keys...); !ok {
				unset = append(unset, d.value)
			}
		}
		if len(unset) > 0 {
			r.add(p.Object, detail{path: "spec.disruption", effective: strings.Join(unset, ", "), message: fmt.Sprintf("%d settings of disruption are not written and have their defaults", len(unset))})
		}
	}
}
