package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func scalingRules() []Rule {
	return []Rule{
		{
			ID: "autoscaler-target-missing", Severity: Error, Title: "an autoscaler whose target has another name",
			Why:    "The autoscaler names a workload that is not there, while one of nearly that name is. It scales nothing.",
			Remedy: "Correct scaleTargetRef.",
			check:  checkTargetMissing,
		},
		{
			ID: "autoscaler-fights-replicas", Severity: Warning, Title: "replicas written beside an autoscaler",
			Why: "Every apply of the manifest sets the replicas back to what is written, at a peak down to a fraction of what runs, and the autoscaler takes " +
				"minutes to come up again.",
			Remedy: "Remove spec.replicas from the manifest.",
			check: func(inv *Inventory, r *reporter) {
				for _, w := range inv.Workloads {
					if len(w.Autoscalers) > 0 && w.ReplicasWritten && w.Replicas > 0 {
						r.add(w.Object, detail{path: "spec.replicas", effective: fmt.Sprintf("%d after every apply", w.Replicas),
							message: fmt.Sprintf("every apply sets the replicas to %d, whatever %s %s has scaled to", w.Replicas, w.Autoscalers[0].Object.Kind, w.Autoscalers[0].Object.Name)})
					}
				}
			},
		},
		{
			ID: "two-autoscalers", Severity: Error, Title: "two autoscalers on one workload",
			Why: "Each computes a number of its own and writes it: the replicas swing between the two. A KEDA ScaledObject makes a HorizontalPodAutoscaler " +
				"itself, so one beside it is the second.",
			Remedy: "Remove one; a ScaledObject can have a cpu trigger too.",
			check: func(inv *Inventory, r *reporter) {
				for _, w := range inv.Workloads {
					names := map[string]bool{}
					for _, a := range w.Autoscalers {
						names[a.Object.Kind+" "+a.Object.Name] = true
					}
					if len(names) > 1 {
						r.add(w.Object, detail{path: "spec.replicas", effective: "the replicas swing", message: strings.Join(slices.Sorted(maps.Keys(names)), " and ") + " both scale it"})
					}
				}
			},
		},
		{
			ID: "autoscaler-without-requests", Severity: Error, Title: "an autoscaler by utilisation of what is not requested",
			Why:    "Utilisation is use divided by the request. When one container of the pod has no request for the resource, the autoscaler cannot compute it and scales nothing.",
			Remedy: "Give every container, sidecars too, a request for the resource, or use a ContainerResource metric.",
			check:  checkUtilisation,
		},
		{
			ID: "burst-tier-without-base", Severity: Warning, Title: "a queue that only spot workers serve",
			Why:    "When spot capacity is short, or is reclaimed all at once, nobody takes from the queue.",
			Remedy: "Add a small tier of workers for the same queue on on-demand nodes.",
			check:  checkBurstOnly,
		},
	}
}

func checkTargetMissing(inv *Inventory, r *reporter) {
	byNamespace := inv.namespaces
	for _, a := range inv.Autoscalers {
		if a.Target != nil || a.TargetName == "" {
			continue
		}
		for _, w := range byNamespace[a.Object.Namespace] {
			name := w.Object.Name
			if !w.serves() || len(w.Autoscalers) > 0 || !inv.together(a.Object, w.Object) {
				continue
			}
			sameName := name == a.TargetName && w.Object.Kind != a.TargetKind
			slip := w.Object.Kind == a.TargetKind && name != a.TargetName && len(name) > 3 && distance(name, a.TargetName) <= 2 && !numbered(name, a.TargetName)
			if sameName || slip {
				r.add(a.Object, detail{path: "spec.scaleTargetRef", effective: "nothing is scaled",
					message: fmt.Sprintf("%s %s is not there; %s %s is", a.TargetKind, a.TargetName, w.Object.Kind, name),
					remedy:  fmt.Sprintf("Name %s %s.", w.Object.Kind, name)})
				break
			}
		}
	}
}

// numbered says whether two names differ only in digits, as web-1 and web-2, which are different things.
func numbered(a, b string) bool {
	strip := func(s string) string { return strings.Trim(s, "0123456789") }
	return strip(a) == strip(b)
}

func checkUtilisation(inv *Inventory, r *reporter) {
	for _, a := range inv.Autoscalers {
		if a.Target == nil || a.Object.Kind != "HorizontalPodAutoscaler" {
			continue
		}
		for name, path := range utilised(a.Object) {
			for _, c := range a.Target.Pod.Containers {
				if q, _ := inv.request(a.Target, c, corev1.ResourceName(name)); q.IsZero() {
					r.add(a.Object, detail{path: path, effective: "nothing is scaled by " + name,
						message: fmt.Sprintf("container %s of %s %s requests no %s, so its utilisation cannot be computed", c.Name, a.TargetKind, a.TargetName, name)})
					break
				}
			}
		}
	}
}

// utilised returns the resources by whose utilisation an autoscaler scales, with the paths.
func utilised(o *Object) map[string]string {
	out := map[string]string{}
	if _, ok := o.at("spec", "targetCPUUtilizationPercentage"); ok {
		out["cpu"] = "spec.targetCPUUtilizationPercentage"
	}
	v, _ := o.at("spec", "metrics")
	list, _ := v.([]any)
	for i, item := range list {
		source := asMap(asMap(item)["resource"])
		name, _ := source["name"].(string)
		if (name == "cpu" || name == "memory") && asMap(source["target"])["averageUtilization"] != nil {
			out[name] = fmt.Sprintf("spec.metrics[%d]", i)
		}
	}
	return out
}

var queueFlag = regexp.MustCompile(`(?:^|\s)(?:-Q|--queues)[= ]([\w.,-]+)`)

// queues returns the queues that a worker takes from.
func (w *Workload) queues() []string {
	if name := w.Annotations[queueAnnotation]; name != "" {
		return strings.Split(name, ",")
	}
	for _, c := range w.Pod.Containers {
		line := strings.Join(append(append([]string{}, c.Command...), c.Args...), " ")
		if found := queueFlag.FindStringSubmatch(line); found != nil && strings.Contains(line, "celery") {
			return strings.Split(found[1], ",")
		}
	}
	return nil
}

func checkBurstOnly(inv *Inventory, r *reporter) {
	workers := map[string][]*Workload{}
	for _, w := range inv.Workloads {
		if !w.serves() {
			continue
		}
		for _, q := range w.queues() {
			workers[w.Object.Namespace+"\x00"+q] = append(workers[w.Object.Namespace+"\x00"+q], w)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(workers)) {
		if slices.ContainsFunc(workers[key], func(w *Workload) bool { return !inv.onSpot(w) }) {
			continue
		}
		_, q, _ := strings.Cut(key, "\x00")
		w := workers[key][0]
		r.add(w.Object, detail{path: w.path("spec"), effective: "no worker when spot is short", message: fmt.Sprintf("all workers of the queue %s (%s) run on spot nodes", q, names(workers[key]))})
	}
}
