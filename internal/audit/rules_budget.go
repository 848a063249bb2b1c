package audit

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

const whyBlocked = "Karpenter does not consider a node for consolidation while a pod on it has a budget that allows nothing, so the node is kept and " +
	"paid for whatever its use; kubectl drain and managed upgrades wait or fail. "

func budgetRules() []Rule {
	return []Rule{
		{
			ID: "budget-blocks-drain", Severity: Error, Title: "a budget that never allows an eviction",
			Why: whyBlocked + "It happens with maxUnavailable 0, with minAvailable equal to the number of replicas, and where a percentage rounds to " +
				"that: both percentages round up, so minAvailable 50% of one replica is one. A rolling restart of a Deployment unlocks " +
				"such a budget for a moment; for an Argo Rollout each of its ReplicaSets counts and it stays locked.",
			Remedy: "Let the budget allow at least one eviction, or protect the namespace with Segue and remove the budget.",
			check:  checkBudgetBlocks,
		},
		{
			ID: "budget-equals-autoscaler-minimum", Severity: Warning, Title: "a budget that allows nothing at the autoscaler's minimum",
			Why:    whyBlocked + "With minAvailable equal to the autoscaler's minimum this is so just at quiet times, when there is most to consolidate.",
			Remedy: "Use maxUnavailable: 1, or a minAvailable below the minimum.",
			check:  func(*Inventory, *reporter) {}, // found with budget-blocks-drain
		},
		{
			ID: "budget-protects-nothing", Severity: Warning, Title: "a budget that allows all pods to be evicted at once",
			Why: "The budget is there and allows the workload to be evicted whole: minAvailable 0, or a maxUnavailable that rounds up to " +
				"all replicas. Often it was written for more replicas than there are now.",
			Remedy: "Choose a number below the replicas, or run two replicas; for one replica no budget keeps it up without blocking its node.",
			check:  checkBudgetProtectsNothing,
		},
		{
			ID: "budgets-overlap", Severity: Error, Title: "two budgets on one pod",
			Why: "The eviction API answers with a server error when more than one budget matches a pod: it can never be evicted. Karpenter leaves the node " +
				"alone for good, a drain hangs until its deadline.",
			Remedy: "Remove one of the budgets, or make their selectors disjoint.",
			check:  checkBudgetsOverlap,
		},
		{
			ID: "budget-matches-nothing", Severity: Warning, Title: "a budget that matches no pod",
			Why: "The selector matches the pods of no workload: nothing is protected. Usual causes are a label that was renamed on the pods, the labels " +
				"of the Deployment taken for those of its pods, and a budget in another namespace.",
			Remedy: "Make the selector match the labels of spec.template.metadata.",
			check:  checkBudgetMatchesNothing,
		},
		{
			ID: "budget-spans-workloads", Severity: Warning, Title: "one budget over several workloads",
			Why: "The budget counts the pods of all workloads that it matches together: all pods of the smallest of them may go at once while " +
				"the others keep the count.",
			Remedy: "Give each workload a budget of its own.",
			check:  checkBudgetSpans,
		},
		{
			ID: "budget-counts-broken-pods", Severity: Info, Title: "a budget under which broken pods block a drain",
			Why: "With the default, IfHealthyBudget, a running pod that is not Ready may be evicted only while the budget is met: a workload that " +
				"crashes holds its nodes, just when one wants to move it.",
			Remedy: "Set unhealthyPodEvictionPolicy: AlwaysAllow.",
			check: func(inv *Inventory, r *reporter) {
				for _, b := range inv.Budgets {
					if !b.AlwaysAllowsUnhealthy && len(b.Workloads) > 0 && b.Object.APIVersion == "policy/v1" {
						r.add(b.Object, detail{path: "spec.unhealthyPodEvictionPolicy", effective: "IfHealthyBudget",
							message: "pods of " + b.Workloads[0].Object.Kind + " " + b.Workloads[0].Object.Name + " that are not Ready block a drain whenever fewer are healthy than the budget wants"})
					}
				}
			},
		},
	}
}

// allowed returns how many of so many pods a budget lets go, in words how it comes to that, and the path that says so.
func (b *Budget) allowed(replicas int) (n int, words, path string) {
	switch {
	case b.MaxUnavailable != nil:
		n = scaled(b.MaxUnavailable, replicas)
		return n, "maxUnavailable is " + share(b.MaxUnavailable, replicas, n), "spec.maxUnavailable"
	case b.MinAvailable != nil:
		least := scaled(b.MinAvailable, replicas)
		return max(replicas-least, 0), "minAvailable is " + share(b.MinAvailable, replicas, least), "spec.minAvailable"
	}
	return replicas, "", ""
}

// share says in words how many of so many a number or a percentage is.
func share(v *intstr.IntOrString, of, is int) string {
	if v.Type == intstr.Int {
		return fmt.Sprintf("%d of %d", v.IntVal, of)
	}
	return fmt.Sprintf("%s of %d, which is %d", v.StrVal, of, is)
}

// scaled resolves a number or a percentage as the disruption controller does: upwards.
func scaled(v *intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(v, of, true)
	if err != nil {
		return 0
	}
	return n
}

func checkBudgetBlocks(inv *Inventory, r *reporter) {
budgets:
	for _, b := range inv.Budgets {
		if len(b.Workloads) == 0 {
			continue
		}
		replicas, why := 0, ""
		for _, w := range b.Workloads {
			if !w.serves() {
				continue budgets // what a DaemonSet or a Job runs is not known
			}
			n, text := w.fewest()
			replicas, why = replicas+n, text
		}
		n, words, path := b.allowed(replicas)
		if n > 0 || replicas == 0 || path == "" {
			continue
		}
		reporter, when := *r, ""
		if !b.blocksAlways() {
			reporter.rule, when = r.rules["budget-equals-autoscaler-minimum"], " at the autoscaler's minimum"
		}
		if len(b.Workloads) == 1 {
			why = " (" + why + ")"
		} else {
			why = fmt.Sprintf(" (%d workloads together)", len(b.Workloads))
		}
		reporter.add(b.Object, detail{path: path,
			message:   fmt.Sprintf("%s%s: no pod of %s may be evicted%s, its nodes cannot be drained or consolidated", words, why, names(b.Workloads), when),
			effective: "0 disruptions allowed" + when, remedy: budgetRemedy(b, replicas)})
	}
}

// blocksAlways says whether a budget that allows nothing at the fewest replicas also does at more: none of its workloads is
// scaled, or what it says does not depend on their number.
func (b *Budget) blocksAlways() bool {
	return b.MaxUnavailable != nil || b.MinAvailable.String() == "100%" ||
		!slices.ContainsFunc(b.Workloads, func(w *Workload) bool { return len(w.Autoscalers) > 0 })
}

func budgetRemedy(b *Budget, replicas int) string {
	if replicas > 1 {
		return fmt.Sprintf("Write maxUnavailable: 1; %d of %d then stay up.", replicas-1, replicas)
	}
	for _, w := range b.Workloads {
		if w.is("Rollout") {
			return "Run two replicas with maxUnavailable: 1; a restart does not unlock the budget of an Argo Rollout."
		}
	}
	return "Run two replicas with maxUnavailable: 1, or label the namespace segue.dev/protect: enabled and remove the budget: the pod is then replaced before it goes."
}

// names lists workloads for a message.
func names(workloads []*Workload) string {
	var parts []string
	for i, w := range workloads {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("%d more", len(workloads)-i))
			break
		}
		parts = append(parts, w.Object.Kind+" "+w.Object.Name)
	}
	return strings.Join(parts, ", ")
}

func checkBudgetProtectsNothing(inv *Inventory, r *reporter) {
	for _, b := range inv.Budgets {
		if len(b.Workloads) != 1 || !b.Workloads[0].serves() {
			continue
		}
		w := b.Workloads[0]
		replicas, why := w.fewest()
		n, words, path := b.allowed(replicas)
		if path == "" || n < replicas || replicas == 0 {
			continue
		}
		// One replica with maxUnavailable 1 is how a team says that it accepts the gap.
		if replicas == 1 && b.MaxUnavailable != nil && b.MaxUnavailable.String() == "1" {
			continue
		}
		r.add(b.Object, detail{path: path, effective: fmt.Sprintf("%d of %d may be evicted at once", replicas, replicas),
			message: fmt.Sprintf("%s (%s): all pods of %s may be evicted at once", words, why, names(b.Workloads))})
	}
}

func checkBudgetsOverlap(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		seen := map[string]bool{}
		var others []string
		for _, b := range w.Budgets {
			if !seen[b.Object.Name] {
				seen[b.Object.Name] = true
				others = append(others, b.Object.Name)
			}
		}
		if len(others) > 1 {
			r.add(w.Object, detail{path: w.path("metadata.labels"), effective: "evictions fail with a server error",
				message: fmt.Sprintf("the budgets %s match its pods: an eviction is never possible", strings.Join(others, " and "))})
		}
	}
}

func checkBudgetMatchesNothing(inv *Inventory, r *reporter) {
	for _, b := range inv.Budgets {
		if len(b.Workloads) > 0 || b.Object.APIVersion != "policy/v1" || b.selector.all {
			continue
		}
		// Only where the selector misses something that is there by a little can one tell a slip from pods that come from elsewhere.
		if w := inv.meant(b); w != nil {
			r.add(b.Object, detail{path: "spec.selector", effective: "no pod is protected",
				message: fmt.Sprintf("the selector matches no pod; %s %s, whose pods have %s, is most likely meant", w.Object.Kind, w.Object.Name, labelText(w.Labels)),
				remedy:  nearRemedy(b, w)})
		}
	}
}

func nearRemedy(b *Budget, w *Workload) string {
	if b.selector.matches(w.Labels) {
		return fmt.Sprintf("Put the budget into the namespace %q, where the pods are.", w.Object.Namespace)
	}
	return "Make the selector match the labels of " + w.path("metadata.labels") + "."
}

// meant returns the workload that a budget most likely was written for: one with the same labels in another namespace, one of
// the budget's name, or one whose own labels, not its pods', match.
func (inv *Inventory) meant(b *Budget) *Workload {
	for _, w := range inv.Workloads {
		if !w.serves() || len(w.Budgets) > 0 || !inv.together(b.Object, w.Object) {
			continue
		}
		if w.Object.Namespace != b.Object.Namespace {
			if w.Object.Namespace != "" && b.Object.Namespace != "" && len(b.selector.labels) > 0 && b.selector.matches(w.Labels) && sameFolder(b.Object, w.Object) {
				return w
			}
			continue
		}
		v, _ := w.Object.at("metadata", "labels")
		if len(b.selector.labels) > 0 && b.selector.matches(words(v)) {
			return w
		}
		trimmed := strings.TrimSuffix(strings.TrimSuffix(b.Object.Name, "-pdb"), "-budget")
		if trimmed == w.Object.Name {
			return w
		}
	}
	return nil
}

func sameFolder(a, b *Object) bool {
	return a.File()[:strings.LastIndex(a.File(), "/")+1] == b.File()[:strings.LastIndex(b.File(), "/")+1]
}

func labelText(l map[string]string) string {
	text := shown(l)
	if len(l) == 0 {
		return "no labels"
	}
	return text
}

func checkBudgetSpans(inv *Inventory, r *reporter) {
	for _, b := range inv.Budgets {
		var serving []*Workload
		seen := map[string]bool{}
		for _, w := range b.Workloads {
			if id := w.Object.ID(); w.serves() && !seen[id] {
				seen[id] = true
				serving = append(serving, w)
			}
		}
		if len(serving) < 2 || sharesName(serving) {
			continue
		}
		r.add(b.Object, detail{path: "spec.selector", message: fmt.Sprintf("it counts the pods of %s together: all pods of one may go at once", names(serving))})
	}
}

// sharesName says whether the workloads are variants of one, such as api and api-canary behind one service.
func sharesName(workloads []*Workload) bool {
	shared := map[*Service]int{}
	for _, w := range workloads {
		for _, s := range w.Services {
			shared[s]++
		}
	}
	for _, n := range shared {
		if n == len(workloads) {
			return true
		}
	}
	return false
}
