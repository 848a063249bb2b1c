package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func agentRules() []Rule {
	return []Rule{
		{
			ID: "agents-do-not-fit", Severity: Error, Title: "node agents that fill the smallest node",
			Why: "A pool may launch a size on which the DaemonSets alone request more CPU than the node can give. Karpenter counts DaemonSets and launches " +
				"another size where it can, but it does not know of limits that become requests by a LimitRange before admission, and one agent stays Pending for ever.",
			Remedy: "Exclude the size, or lower the agents' requests.",
			check:  checkAgentsFit,
		},
		{
			ID: "agent-without-priority", Severity: Warning, Title: "a node agent without a priority above the workloads",
			Why: "On a node that workloads have filled first, an agent of the same priority cannot preempt: it stays Pending, and pods that need it are stuck " +
				"though they may call themselves Ready.",
			Remedy: "Give the DaemonSet priorityClassName: system-node-critical, or a PriorityClass above the workloads'.",
			check:  checkAgentPriority,
		},
		{
			ID: "agent-requests-its-limit", Severity: Info, Title: "a node agent whose limit became its request",
			Why: "A container that has a limit and no request gets the limit as its request, and one with neither gets what a LimitRange says. For an agent that " +
				"is taken from every node.",
			Remedy: "Write the request that the agent needs in normal work.",
			check:  checkAgentRequests,
		},
		{
			ID: "startup-taint-without-owner", Severity: Error, Title: "a startup taint that nobody takes off",
			Why: "Karpenter counts a node as initialised only when its startup taints are gone. A taint of the form prefix/namespace.daemonset is taken off when that " +
				"DaemonSet runs there; when it does not exist under this name and namespace the taint stays, and no pod ever gets onto the node.",
			Remedy: "Write namespace and name of the DaemonSet as they are.",
			check:  checkStartupTaints,
		},
	}
}

// allocatable returns the millicores that pods get on an EKS node with so many vCPUs: all but 6 % of the first, 1 % of the
// second, 0.5 % of the next two and 0.25 % of the rest.
func allocatable(cpus int) int64 {
	reserved := 60.0
	if cpus > 1 {
		reserved += 10
	}
	if cpus > 2 {
		reserved += 5 * float64(min(cpus-2, 2))
	}
	if cpus > 4 {
		reserved += 2.5 * float64(cpus-4)
	}
	return int64(cpus)*1000 - int64(reserved)
}

// limitRange returns the defaults that a LimitRange of the workload's namespace gives to containers.
func (inv *Inventory) limitRange(w *Workload, key, name string) (resource.Quantity, bool) {
	for _, o := range inv.of("", "LimitRange") {
		if o.Namespace != w.Object.Namespace || !inv.together(o, w.Object) {
			continue
		}
		v, _ := o.at("spec", "limits")
		list, _ := v.([]any)
		for _, item := range list {
			limits := asMap(item)
			if limits["type"] != "Container" {
				continue
			}
			if value, ok := asMap(limits[key])[name]; ok {
				if q, err := resource.ParseQuantity(fmt.Sprint(value)); err == nil {
					return q, true
				}
			}
		}
	}
	return resource.Quantity{}, false
}

// request returns what a container requests of a resource after admission, and how it comes to that when it is not written.
func (inv *Inventory) request(w *Workload, c corev1.Container, name corev1.ResourceName) (resource.Quantity, string) {
	if q, ok := c.Resources.Requests[name]; ok {
		return q, ""
	}
	if q, ok := c.Resources.Limits[name]; ok {
		return q, "its limit"
	}
	if q, ok := inv.limitRange(w, "defaultRequest", string(name)); ok {
		return q, "defaultRequest of a LimitRange"
	}
	if q, ok := inv.limitRange(w, "default", string(name)); ok {
		return q, "the default limit of a LimitRange"
	}
	return resource.Quantity{}, ""
}

// cpu returns the millicores that a pod of the workload requests: its containers and sidecars, or its largest init container.
func (inv *Inventory) cpu(w *Workload) int64 {
	var sum, largest int64
	for _, c := range w.Pod.Containers {
		q, _ := inv.request(w, c, corev1.ResourceCPU)
		sum += q.MilliValue()
	}
	for _, c := range w.Pod.InitContainers {
		q, _ := inv.request(w, c, corev1.ResourceCPU)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sum += q.MilliValue()
		} else {
			largest = max(largest, q.MilliValue())
		}
	}
	return max(sum, largest)
}

// unbounded says whether a pool that names sizes also allows larger ones than those known here.
func (p *Pool) unbounded() bool {
	for _, r := range p.Requirements {
		switch {
		case r.Key == labelInstanceCPU && (r.Operator == "In" || r.Operator == "Lt" || r.Operator == "Lte"):
			return false
		case (r.Key == labelInstanceSize || r.Key == labelInstanceType) && r.Operator == "In":
			return slices.ContainsFunc(r.Values, func(v string) bool { return cpuOfSize(v[strings.LastIndex(v, ".")+1:]) == 0 })
		}
	}
	return true
}

func (inv *Inventory) agents(p *Pool) []*Workload {
	var found []*Workload
	for _, w := range inv.Workloads {
		if w.is("DaemonSet") && inv.together(p.Object, w.Object) && p.takes(w) {
			found = append(found, w)
		}
	}
	return found
}

func checkAgentsFit(inv *Inventory, r *reporter) {
	for _, p := range inv.Pools {
		sizes := p.sizes()
		if len(sizes) == 0 {
			continue
		}
		var sum int64
		var parts []string
		for _, w := range inv.agents(p) {
			if request := inv.cpu(w); request > 0 {
				sum += request
				parts = append(parts, fmt.Sprintf("%s %dm", w.Object.Name, request))
			}
		}
		if room := allocatable(sizes[0]); sum > room {
			r.add(p.Object, detail{path: "spec.template.spec.requirements", effective: fmt.Sprintf("%dm of about %dm requested before the first workload", sum, room),
				message: fmt.Sprintf("a node of %d vCPU, which the pool allows, cannot hold its agents (%s)", sizes[0], strings.Join(parts, ", "))})
		}
	}
}

func checkAgentPriority(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if !w.is("DaemonSet") {
			continue
		}
		own, known := inv.priority(&w.Pod)
		if !known {
			continue
		}
		for _, other := range inv.Workloads {
			if !other.serves() || len(inv.Pools) == 0 && !sameFolder(w.Object, other.Object) || !inv.together(w.Object, other.Object) || other.Object.Namespace == "kube-system" || inv.cpu(other) == 0 {
				continue
			}
			if p, known := inv.priority(&other.Pod); known && own <= p && p < inv.priorities["system-cluster-critical"] {
				r.add(w.Object, detail{path: w.path("spec.priorityClassName"), effective: fmt.Sprintf("priority %d", own),
					message: fmt.Sprintf("its priority %d is not above that of %s %s (%d): on a full node it stays Pending", own, other.Object.Kind, other.Object.Name, p)})
				break
			}
		}
	}
}

func checkAgentRequests(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if !w.is("DaemonSet") {
			continue
		}
		for i, c := range w.Pod.Containers {
			if q, how := inv.request(w, c, corev1.ResourceCPU); how != "" {
				r.add(w.Object, detail{path: w.containerPath(i, "resources"), effective: fmt.Sprintf("requests cpu %s on every node", q.String()),
					message: fmt.Sprintf("container %s requests no CPU by itself and gets %s (%s)", c.Name, q.String(), how)})
			}
		}
	}
}

// foreignTaints are prefixes of startup taints that their own agents take off.
var foreignTaints = []string{"node.kubernetes.io", "node.cloudprovider.kubernetes.io", "readiness.k8s.io", "startup-taint.cluster-autoscaler.kubernetes.io"}

func checkStartupTaints(inv *Inventory, r *reporter) {
	agents := map[string]*Workload{}
	for _, w := range inv.Workloads {
		if w.is("DaemonSet") {
			agents[w.Object.Namespace+"."+w.Object.Name] = w
		}
	}
	for _, p := range inv.Pools {
		for i, taint := range p.Startup {
			prefix, name, ok := strings.Cut(taint.Key, "/")
			if !ok || slices.Contains(foreignTaints, prefix) || agents[name] != nil {
				continue
			}
			meant := nearAgent(agents, name)
			if meant == "" {
				continue // it may belong to a program that is not among the objects
			}
			r.add(p.Object, detail{path: fmt.Sprintf("spec.template.spec.startupTaints[%d].key", i), effective: "nodes never become initialised",
				message: fmt.Sprintf("no DaemonSet is called %s; %s is", name, meant), remedy: "Write " + prefix + "/" + meant + "."})
		}
	}
}

// nearAgent returns the agent that a taint's namespace.name most likely means: the same name elsewhere, or a slip of the pen.
func nearAgent(agents map[string]*Workload, name string) string {
	_, own, dotted := strings.Cut(name, ".")
	if !dotted {
		return ""
	}
	for _, id := range slices.Sorted(maps.Keys(agents)) {
		namespace, agent, _ := strings.Cut(id, ".")
		if agent == own && namespace != "" || distance(id, name) <= 2 || strings.HasPrefix(name, namespace+".") && namespace != "" && (strings.Contains(agent, own) || strings.Contains(own, agent)) {
			return id
		}
	}
	return ""
}
