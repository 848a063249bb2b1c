package audit

import (
	"fmt"
	"slices"
	"strings"
)

func placementRules() []Rule {
	return []Rule{
		{
			ID: "no-pool-fits", Severity: Error, Title: "pods that no pool can take",
			Why: "The pods ask for labels that only Karpenter's nodes have, and no NodePool makes nodes with them, or every pool that does has a taint that the pods do " +
				"not tolerate. They stay Pending, and no node comes for them.",
			Remedy: "Correct the selector or the tolerations, or add the label to a pool.",
			check:  checkNoPoolFits,
		},
		{
			ID: "provider-keys-mixed", Severity: Error, Title: "a label or a value of another provider",
			Why: "Karpenter writes karpenter.sh/capacity-type with on-demand, spot and reserved; EKS managed groups write eks.amazonaws.com/capacityType with ON_DEMAND and SPOT. " +
				"No node has the one key with the other's value, and no node has both keys.",
			Remedy: "Use key and value of the one that makes the nodes.",
			check:  checkProviderKeys,
		},
		{
			ID: "label-unknown-to-provider", Severity: Error, Title: "a karpenter.k8s.aws label that is not there",
			Why:    "The domain karpenter.k8s.aws is reserved: its keys are fixed. Karpenter refuses a pool with another one, and pods that select it stay Pending.",
			Remedy: "Use a key of Karpenter's AWS provider.",
			check:  checkUnknownLabels,
		},
		{
			ID: "pod-exceeds-sizes", Severity: Error, Title: "a pod larger than the nodes that its pools allow",
			Why:    "The pods request more CPU than the largest node that the pools' requirements allow can give after what the node itself reserves. They stay Pending.",
			Remedy: "Lower the request, or allow a larger size.",
			check:  checkPodExceeds,
		},
	}
}

func checkNoPoolFits(inv *Inventory, r *reporter) {
	if len(inv.Pools) == 0 {
		return
	}
	for _, w := range inv.Workloads {
		if w.is("DaemonSet") {
			continue
		}
		terms := w.terms()
		own := slices.IndexFunc(terms, func(t term) bool { return ofKarpenter(t.Key) || inv.near(t) })
		if own < 0 || slices.ContainsFunc(terms, isMixed) {
			continue // a value that no node has is provider-keys-mixed
		}
		fitting := slices.ContainsFunc(inv.Pools, func(p *Pool) bool { return inv.together(p.Object, w.Object) && p.fits(w) })
		switch {
		case !fitting:
			t := inv.culprit(w, terms, own)
			r.add(w.Object, detail{path: t.path, effective: "Pending",
				message: fmt.Sprintf("no NodePool makes nodes with %s %s %s", t.Key, t.Operator, strings.Join(t.Values, ", ")), remedy: inv.offers(t)})
		case len(inv.poolsFor(w)) == 0:
			for _, p := range inv.Pools {
				if inv.together(p.Object, w.Object) && p.fits(w) {
					r.add(w.Object, detail{path: w.path("spec.tolerations"), effective: "Pending",
						message: fmt.Sprintf("NodePool %s fits and has the taint %s, which the pods do not tolerate", p.Object.Name, p.Taints[0].ToString()),
						remedy:  "Tolerate " + p.Taints[0].ToString() + "."})
					break
				}
			}
		}
	}
}

// culprit returns the first term that no pool satisfies by itself, else the one at own.
func (inv *Inventory) culprit(w *Workload, terms []term, own int) term {
	for _, t := range terms {
		if !slices.ContainsFunc(inv.Pools, func(p *Pool) bool { return inv.together(p.Object, w.Object) && p.satisfies(t) }) {
			return t
		}
	}
	return terms[own]
}

// ofKarpenter says whether only nodes of Karpenter have a label.
func ofKarpenter(key string) bool {
	return key == labelPool || key == labelCapacityType || strings.HasPrefix(key, "karpenter.k8s.aws/") || strings.HasPrefix(key, "karpenter.azure.com/")
}

// near says whether a term asks for a value that a pool has but for a letter or two, of a key that pools name.
func (inv *Inventory) near(t term) bool {
	if t.Operator != "In" || providerSets(t.Key) {
		return false
	}
	for _, have := range inv.valuesOf(t.Key) {
		if slices.Contains(t.Values, have) {
			return false
		}
	}
	for _, have := range inv.valuesOf(t.Key) {
		for _, want := range t.Values {
			if d := distance(strings.ToLower(have), strings.ToLower(want)); d <= 2 && len(have) > 3 {
				return true
			}
		}
	}
	return false
}

// valuesOf returns the values that the pools give a label.
func (inv *Inventory) valuesOf(key string) []string {
	var out []string
	for _, p := range inv.Pools {
		if v, ok := p.Labels[key]; ok {
			out = append(out, v)
		}
		if key == labelPool {
			out = append(out, p.Object.Name)
		}
		for _, r := range p.Requirements {
			if r.Key == key && r.Operator == "In" {
				out = append(out, r.Values...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (inv *Inventory) offers(t term) string {
	values := inv.valuesOf(t.Key)
	if len(values) == 0 {
		return "No pool names " + t.Key + ": add it to a pool's labels or requirements, or drop the condition."
	}
	return "The pools offer " + t.Key + " " + strings.Join(values, ", ") + "."
}

const labelEKSCapacityType = "eks.amazonaws.com/capacityType"

var capacityTypes = map[string][]string{
	labelCapacityType:    {"on-demand", "spot", "reserved"},
	labelEKSCapacityType: {"ON_DEMAND", "SPOT", "CAPACITY_BLOCK"},
}

// isMixed says whether a term gives a capacity type the value of another provider.
func isMixed(t term) bool {
	known := capacityTypes[t.Key]
	return known != nil && slices.ContainsFunc(t.Values, func(v string) bool { return !slices.Contains(known, v) })
}

func checkProviderKeys(inv *Inventory, r *reporter) {
	values := func(o *Object, path, key string, values []string) {
		known := capacityTypes[key]
		for _, v := range values {
			if known != nil && !slices.Contains(known, v) {
				r.add(o, detail{path: path, message: fmt.Sprintf("%s never has the value %s", key, v), effective: "no node has it", remedy: pairFor(key, v)})
			}
		}
	}
	for _, w := range inv.Workloads {
		for _, t := range w.terms() {
			values(w.Object, t.path, t.Key, t.Values)
		}
		for _, alternative := range w.alternatives() {
			managed := slices.IndexFunc(alternative, func(t term) bool {
				return strings.HasPrefix(t.Key, "eks.amazonaws.com/") && t.Operator == "In"
			})
			if managed >= 0 && slices.ContainsFunc(alternative, func(t term) bool { return ofKarpenter(t.Key) && t.Operator == "In" }) {
				r.add(w.Object, detail{path: alternative[managed].path, effective: "Pending",
					message: fmt.Sprintf("%s is a label of EKS managed groups and stands beside one of Karpenter: no node has both", alternative[managed].Key)})
			}
		}
	}
	for _, p := range inv.Pools {
		for i, requirement := range p.Requirements {
			path := fmt.Sprintf("spec.template.spec.requirements[%d]", i)
			values(p.Object, path, requirement.Key, requirement.Values)
			foreign := strings.HasPrefix(requirement.Key, "eks.amazonaws.com/") || strings.HasPrefix(requirement.Key, "karpenter.azure.com/") || strings.HasPrefix(requirement.Key, "cloud.google.com/")
			if isAWS(p) && foreign {
				r.add(p.Object, detail{path: path, effective: "the pool makes no nodes", message: requirement.Key + " is not a label of Karpenter's AWS provider", remedy: pairFor(requirement.Key, "")})
			}
		}
	}
}

// pairFor suggests the right key and value for a wrong pair.
func pairFor(key, value string) string {
	lower := strings.ReplaceAll(strings.ToLower(value), "_", "-")
	upper := strings.ReplaceAll(strings.ToUpper(value), "-", "_")
	switch {
	case key == labelCapacityType && slices.Contains(capacityTypes[key], lower):
		return fmt.Sprintf("Write %s: %s; %s: %s is for nodes of EKS managed groups.", key, lower, labelEKSCapacityType, upper)
	case key == labelEKSCapacityType && slices.Contains(capacityTypes[key], upper):
		return fmt.Sprintf("Write %s: %s for Karpenter's nodes, or %s: %s for those of EKS managed groups.", labelCapacityType, lower, key, upper)
	case capacityTypes[key] != nil && value != "":
		return "Use one of " + strings.Join(capacityTypes[key], ", ") + "."
	}
	return "Use " + labelCapacityType + ", or a key that begins with karpenter.k8s.aws/."
}

// awsLabels are the keys of Karpenter's AWS provider, from its pkg/apis/v1/labels.go.
var awsLabels = []string{
	"capacity-reservation-id", "capacity-reservation-interruptible", "capacity-reservation-type", "ec2nodeclass", "instance-accelerator-count",
	"instance-accelerator-manufacturer", "instance-accelerator-name", "instance-capability-flex", "instance-category", "instance-cpu",
	"instance-cpu-manufacturer", "instance-cpu-sustained-clock-speed-mhz", "instance-ebs-bandwidth", "instance-encryption-in-transit-supported",
	"instance-family", "instance-generation", "instance-gpu-count", "instance-gpu-manufacturer", "instance-gpu-memory", "instance-gpu-name",
	"instance-hypervisor", "instance-local-nvme", "instance-memory", "instance-network-bandwidth", "instance-size", "instance-tenancy",
	"placement-group-id", "placement-group-partition",
}

func checkUnknownLabels(inv *Inventory, r *reporter) {
	check := func(o *Object, path, key string) {
		name, ok := strings.CutPrefix(key, "karpenter.k8s.aws/")
		if !ok || slices.Contains(awsLabels, name) {
			return
		}
		best, least := "", 5
		for _, known := range awsLabels {
			if d := distance(known, name); d < least {
				best, least = known, d
			}
			if strings.TrimPrefix(known, "instance-") == name {
				best, least = known, 0
			}
		}
		d := detail{path: path, message: key + " is not a label of Karpenter's AWS provider", effective: "no node has it"}
		if best != "" {
			d.remedy = "Write karpenter.k8s.aws/" + best + "."
		}
		r.add(o, d)
	}
	for _, w := range inv.Workloads {
		for _, t := range w.terms() {
			if t.Operator != "DoesNotExist" && t.Operator != "NotIn" {
				check(w.Object, t.path, t.Key)
			}
		}
	}
	for _, p := range inv.Pools {
		for i, requirement := range p.Requirements {
			check(p.Object, fmt.Sprintf("spec.template.spec.requirements[%d]", i), requirement.Key)
		}
	}
}

func checkPodExceeds(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if w.is("DaemonSet") || !slices.ContainsFunc(w.terms(), func(t term) bool { return ofKarpenter(t.Key) || inv.named(t.Key) }) {
			continue
		}
		pools, largest := inv.poolsFor(w), 0
		for _, p := range pools {
			sizes := p.sizes()
			if len(sizes) == 0 || p.unbounded() {
				largest = 0
				break
			}
			largest = max(largest, sizes[len(sizes)-1])
		}
		if request := inv.cpu(w); largest > 0 && request > allocatable(largest) {
			r.add(w.Object, detail{path: w.path("spec.containers"), effective: "Pending",
				message: fmt.Sprintf("the pod requests %dm CPU and the largest node of %s gives about %dm", request, pools[0].Object.Name, allocatable(largest))})
		}
	}
}
