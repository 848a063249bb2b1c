package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const protectLabel = "segue.dev/protect"

func workloadRules() []Rule {
	return []Rule{
		{
			ID: "single-replica-unprotected", Severity: Warning, Title: "one replica that serves traffic and that nothing protects",
			Why: "When its node leaves, the only pod is evicted and the replacement starts afterwards: the Service has no endpoint for the time that " +
				"scheduling, pulling and starting take. A budget does not help, it only keeps the node.",
			Remedy: "Label the namespace segue.dev/protect: enabled, so that the pod is replaced before it goes, or run two replicas with a budget of maxUnavailable: 1.",
			check:  checkSingleReplica,
		},
		{
			ID: "replicas-without-budget", Severity: Warning, Title: "several replicas that serve traffic, without a budget",
			Why: "Without a budget nothing keeps an autoscaler or a drain from evicting all replicas at the same time, when they stand on nodes " +
				"that leave together.",
			Remedy: "Add a PodDisruptionBudget with maxUnavailable: 1, or label the namespace segue.dev/protect: enabled.",
			check:  checkNoBudget,
		},
		{
			ID: "rollout-stops-first", Severity: Warning, Title: "an update strategy that stops the only pod before the new one starts",
			Why: "With the strategy Recreate, or with maxSurge 0, every rollout of one replica is a gap in service, and a handover cannot bring the " +
				"replacement up first. A volume that only one node can mount is the good reason for it.",
			Remedy: "Use RollingUpdate with maxSurge: 1 and maxUnavailable: 0, unless two copies must never run at once.",
			check:  checkStopsFirst,
		},
		{
			ID: "tolerates-everything", Severity: Warning, Title: "pods that tolerate every taint",
			Why: "A toleration without a key and with the operator Exists also tolerates the taint with which Karpenter marks a node that is to leave. Karpenter " +
				"neither evicts such pods nor waits for them: the node goes from under them, without a graceful stop. New pods may also land on nodes " +
				"that are just leaving.",
			Remedy: "Tolerate the taints by their keys. Only agents that belong to the node (DaemonSets) should tolerate everything.",
			check:  checkToleratesEverything,
		},
		{
			ID: "pod-keeps-node", Severity: Warning, Title: "an annotation that keeps a node for as long as the pod lives",
			Why: "karpenter.sh/do-not-disrupt and safe-to-evict=false are meant for work that ends. On pods that run for good they keep the node from ever being " +
				"consolidated or updated; expiry with a deadline, spot reclaims and node failures ignore them.",
			Remedy: "Remove the annotation; protect the service with replicas and a budget, or with Segue. For work that ends use a Job.",
			check:  checkKeepsNode,
		},
		{
			ID: "do-not-disrupt-invalid", Severity: Error, Title: "a do-not-disrupt value that counts as absent",
			Why: "Karpenter takes true and, from 1.12, a positive Go duration such as 30m, counted from the start of the pod. Any other value counts as if " +
				"the annotation were not there.",
			Remedy: `Write "true" or a duration such as "30m".`,
			check: func(inv *Inventory, r *reporter) {
				for _, w := range inv.Workloads {
					const key = "karpenter.sh/do-not-disrupt"
					if value, ok := w.Annotations[key]; ok && !validDoNotDisrupt(value) {
						r.add(w.Object, detail{path: w.annotationPath(key), message: fmt.Sprintf("%q is neither true nor a positive duration", value), effective: "the pod may be disrupted"})
					}
				}
			},
		},
		{
			ID: "bare-pod", Severity: Warning, Title: "a pod without a controller",
			Why: "Nothing makes the pod anew after an eviction: it is lost. The Cluster Autoscaler refuses to remove a node with such a pod, Karpenter evicts it " +
				"like any other.",
			Remedy: "Run it from a Deployment, a StatefulSet or a Job.",
			check:  checkBarePod,
		},
		{
			ID: "exclusive-volume", Severity: Info, Title: "several copies cannot run, because of a volume",
			Why: "All pods of a Deployment mount the same claim. When it is ReadWriteOnce a second pod on another node cannot start: a rollout with surge " +
				"waits for ever, and a node change is a gap of stop, detach, attach and start.",
			Remedy: "Use a StatefulSet with volumeClaimTemplates, a ReadWriteMany volume, or strategy Recreate and accept the gap.",
			check:  checkExclusiveVolume,
		},
	}
}

// protected says whether the workload's namespace is Segue's to protect, or the objects do not tell.
func (inv *Inventory) protected(w *Workload) bool {
	for _, o := range inv.of("", "Namespace") {
		if o.Name == w.Object.Namespace && inv.together(o, w.Object) && o.text("metadata", "labels", protectLabel) == "enabled" {
			return true
		}
	}
	return false
}

func checkSingleReplica(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		replicas, why := w.fewest()
		if !w.serves() || replicas != 1 || len(w.Services) == 0 || len(w.Budgets) > 0 || inv.protected(w) || w.is("ReplicaSet", "ReplicationController") {
			continue
		}
		// A StatefulSet with a headless Service of its own has one for its names, not for traffic that must not stop.
		if w.is("StatefulSet") && !slices.ContainsFunc(w.Services, func(s *Service) bool { return s.Object.text("spec", "clusterIP") != "None" }) {
			continue
		}
		r.add(w.Object, detail{path: "spec.replicas", effective: "1 replica, no protection",
			message: fmt.Sprintf("%s, and Service %s sends it traffic: when its node leaves, the service is down until a new pod is Ready", why, w.Services[0].Object.Name)})
	}
}

func checkNoBudget(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		replicas, why := w.fewest()
		if !w.serves() || replicas < 2 || len(w.Services) == 0 || len(w.Budgets) > 0 || inv.protected(w) || !inv.caresForBudgets(w) {
			continue
		}
		r.add(w.Object, detail{path: "spec.replicas", effective: "all replicas may be evicted at once",
			message: fmt.Sprintf("%s and no budget matches its pods: all of them may be evicted at once", why)})
	}
}

// caresForBudgets says whether budgets are expected here: nodes come and go by a pool, or the workload's folder has budgets for others.
func (inv *Inventory) caresForBudgets(w *Workload) bool {
	return len(inv.Pools) > 0 || slices.ContainsFunc(inv.Budgets, func(b *Budget) bool {
		return b.Object.Namespace == w.Object.Namespace && sameFolder(b.Object, w.Object)
	})
}

func checkStopsFirst(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		replicas, _ := w.fewest()
		if !w.is("Deployment") || replicas != 1 || len(w.Services) == 0 || claims(&w.Pod) {
			continue
		}
		if w.Object.text("spec", "strategy", "type") == "Recreate" {
			r.add(w.Object, detail{path: "spec.strategy.type", message: "the strategy Recreate stops the only pod before the new one starts", effective: "a gap in service at every rollout"})
			continue
		}
		surge := w.Object.intOrString("spec", "strategy", "rollingUpdate", "maxSurge")
		if surge != nil && scaled(surge, 1) == 0 {
			r.add(w.Object, detail{path: "spec.strategy.rollingUpdate.maxSurge", message: "maxSurge 0 stops the only pod before the new one starts", effective: "a gap in service at every rollout"})
			continue
		}
		unavailable := w.Object.intOrString("spec", "strategy", "rollingUpdate", "maxUnavailable")
		if unavailable != nil && floor(unavailable) >= 1 {
			r.add(w.Object, detail{path: "spec.strategy.rollingUpdate.maxUnavailable", effective: "a gap in service at every rollout",
				message: fmt.Sprintf("maxUnavailable %s of one replica lets a rollout stop the only pod before the new one is Ready", unavailable)})
		}
	}
}

// floor resolves maxUnavailable of one replica, which rounds down.
func floor(v *intstr.IntOrString) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(v, 1, false)
	if err != nil {
		return 0
	}
	return n
}

// claims says whether a pod mounts a persistent volume claim.
func claims(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

func checkToleratesEverything(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if w.is("DaemonSet") {
			continue
		}
		for i, t := range w.Pod.Tolerations {
			if t.Key == "" && t.Operator == corev1.TolerationOpExists && (t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule) {
				r.add(w.Object, detail{path: w.path(fmt.Sprintf("spec.tolerations[%d]", i)), effective: "never evicted by Karpenter; killed with the node",
					message: "the toleration covers every taint, also karpenter.sh/disrupted: Karpenter does not evict the pod, its node goes from under it"})
			}
		}
	}
}

// keepers are the annotations that keep a node, with the value that does.
var keepers = []string{"karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-evict", "cluster-autoscaler.kubernetes.io/safe-to-evict"}

// keepsNode returns the annotation with which the pods of a workload keep their node for good, or "".
func (w *Workload) keepsNode() string {
	switch {
	case w.Annotations[keepers[0]] == "true":
		return keepers[0]
	case w.Annotations[keepers[2]] == "false":
		return keepers[2]
	}
	return ""
}

func checkKeepsNode(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		key := w.keepsNode()
		if key == "" || !w.serves() {
			continue
		}
		who := "Karpenter from consolidating or replacing"
		if key == keepers[2] {
			who = "the Cluster Autoscaler from removing"
		}
		r.add(w.Object, detail{path: w.annotationPath(key), effective: "the node is kept for as long as the pod lives",
			message: fmt.Sprintf("%s=%s on pods that never end keeps %s their nodes for ever", key, w.Annotations[key], who)})
	}
}

func checkBarePod(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if !w.is("Pod") || w.Pod.RestartPolicy == corev1.RestartPolicyNever || w.Pod.RestartPolicy == corev1.RestartPolicyOnFailure {
			continue
		}
		if owners, ok := w.Object.at("metadata", "ownerReferences"); ok && owners != nil {
			continue
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(w.Annotations)), func(key string) bool {
			return strings.HasPrefix(key, "helm.sh/hook") || strings.HasPrefix(key, "argocd.argoproj.io/hook") || strings.HasPrefix(key, "kubernetes.io/config.")
		}) || w.Object.Namespace == "kube-system" {
			continue
		}
		r.add(w.Object, detail{message: "nothing makes this pod anew after an eviction: it is lost when its node leaves"})
	}
}

func checkExclusiveVolume(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if !w.is("Deployment") || w.Object.text("spec", "strategy", "type") == "Recreate" {
			continue
		}
		for i, v := range w.Pod.Volumes {
			if v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ReadOnly {
				continue
			}
			for _, claim := range inv.of("", "PersistentVolumeClaim") {
				modes, _ := claim.at("spec", "accessModes")
				if claim.Name != v.PersistentVolumeClaim.ClaimName || claim.Namespace != w.Object.Namespace || !inv.together(claim, w.Object) || !exclusive(modes) {
					continue
				}
				r.add(w.Object, detail{path: w.path(fmt.Sprintf("spec.volumes[%d]", i)), effective: "one node at a time",
					message: fmt.Sprintf("the claim %s is for one node: a rollout's new pod cannot start on another while the old one runs", claim.Name)})
			}
		}
	}
}

// exclusive says whether a claim's access modes are all for one node.
func exclusive(modes any) bool {
	list, _ := modes.([]any)
	return len(list) > 0 && !slices.ContainsFunc(list, func(m any) bool { return m != "ReadWriteOnce" && m != "ReadWriteOncePod" })
}
