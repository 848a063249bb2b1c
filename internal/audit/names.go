package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// gone holds API versions that are no longer served, with what took their place.
var gone = map[string]struct{ since, successor string }{
	"policy/v1beta1/PodDisruptionBudget":                    {"Kubernetes 1.25", "policy/v1; an empty selector there selects all pods, in v1beta1 it selected none"},
	"policy/v1beta1/PodSecurityPolicy":                      {"Kubernetes 1.25", "Pod Security Admission (namespace labels)"},
	"autoscaling/v2beta1/HorizontalPodAutoscaler":           {"Kubernetes 1.25", "autoscaling/v2; targetAverageUtilization became target.averageUtilization"},
	"autoscaling/v2beta2/HorizontalPodAutoscaler":           {"Kubernetes 1.26", "autoscaling/v2"},
	"batch/v1beta1/CronJob":                                 {"Kubernetes 1.25", "batch/v1"},
	"extensions/v1beta1/Deployment":                         {"Kubernetes 1.16", "apps/v1; spec.selector is required there"},
	"extensions/v1beta1/DaemonSet":                          {"Kubernetes 1.16", "apps/v1; spec.selector is required there"},
	"extensions/v1beta1/ReplicaSet":                         {"Kubernetes 1.16", "apps/v1"},
	"extensions/v1beta1/Ingress":                            {"Kubernetes 1.22", "networking.k8s.io/v1"},
	"networking.k8s.io/v1beta1/Ingress":                     {"Kubernetes 1.22", "networking.k8s.io/v1"},
	"apps/v1beta1/Deployment":                               {"Kubernetes 1.16", "apps/v1"},
	"apps/v1beta2/Deployment":                               {"Kubernetes 1.16", "apps/v1"},
	"apps/v1beta1/StatefulSet":                              {"Kubernetes 1.16", "apps/v1"},
	"apps/v1beta2/StatefulSet":                              {"Kubernetes 1.16", "apps/v1"},
	"apps/v1beta2/DaemonSet":                                {"Kubernetes 1.16", "apps/v1"},
	"scheduling.k8s.io/v1beta1/PriorityClass":               {"Kubernetes 1.22", "scheduling.k8s.io/v1"},
	"apiextensions.k8s.io/v1beta1/CustomResourceDefinition": {"Kubernetes 1.22", "apiextensions.k8s.io/v1"},
	"karpenter.sh/v1alpha5/Provisioner":                     {"Karpenter 0.33", "karpenter.sh/v1 NodePool"},
	"karpenter.k8s.aws/v1alpha1/AWSNodeTemplate":            {"Karpenter 0.33", "karpenter.k8s.aws/v1 EC2NodeClass"},
	"karpenter.sh/v1beta1/NodePool":                         {"Karpenter 1.1", "karpenter.sh/v1; expireAfter and the nodeClassRef's group moved, kubelet settings went to the EC2NodeClass"},
	"karpenter.sh/v1beta1/NodeClaim":                        {"Karpenter 1.1", "karpenter.sh/v1"},
	"karpenter.k8s.aws/v1beta1/EC2NodeClass":                {"Karpenter 1.1", "karpenter.k8s.aws/v1"},
}

func checkVersions(inv *Inventory, r *reporter) {
	for _, o := range inv.Objects {
		if g, ok := gone[o.APIVersion+"/"+o.Kind]; ok {
			r.add(o, detail{path: "apiVersion", message: fmt.Sprintf("%s %s is not served since %s", o.APIVersion, o.Kind, g.since), effective: refused, remedy: "Use " + g.successor + "."})
		}
	}
}

// dead holds names that nothing reads any more, with their successors.
var dead = map[string]struct{ since, successor string }{
	"karpenter.sh/do-not-evict":                  {"Karpenter 0.33", "karpenter.sh/do-not-disrupt"},
	"karpenter.sh/do-not-consolidate":            {"Karpenter 0.33", "karpenter.sh/do-not-disrupt on the node"},
	"karpenter.sh/provisioner-name":              {"Karpenter 0.33", "karpenter.sh/nodepool"},
	"beta.kubernetes.io/arch":                    {"Kubernetes 1.14 (deprecated)", "kubernetes.io/arch"},
	"beta.kubernetes.io/os":                      {"Kubernetes 1.14 (deprecated)", "kubernetes.io/os"},
	"node-role.kubernetes.io/master":             {"Kubernetes 1.24", "node-role.kubernetes.io/control-plane"},
	"scheduler.alpha.kubernetes.io/critical-pod": {"Kubernetes 1.16", "priorityClassName: system-node-critical or system-cluster-critical"},
	"scheduler.alpha.kubernetes.io/tolerations":  {"Kubernetes 1.6", "spec.tolerations"},
	"scheduler.alpha.kubernetes.io/affinity":     {"Kubernetes 1.6", "spec.affinity"},
}

// deadOnlyIn limits names that nodes still carry, or that are harmless elsewhere, to the place where they mislead; "" is none.
var deadOnlyIn = map[string]string{
	"beta.kubernetes.io/arch":        "",
	"beta.kubernetes.io/os":          "",
	"node-role.kubernetes.io/master": "selector",
}

func checkDeadNames(inv *Inventory, r *reporter) {
	report := func(o *Object, path, key, place string) {
		d, ok := dead[key]
		if only, limited := deadOnlyIn[key]; !ok || limited && only != place {
			return
		}
		r.add(o, detail{path: path, message: fmt.Sprintf("nothing reads %s since %s", key, d.since), effective: "nothing: the name is without effect", remedy: "Use " + d.successor + "."})
	}
	for _, o := range inv.Objects {
		for _, field := range []string{"annotations", "labels"} {
			v, _ := o.at("metadata", field)
			for _, key := range slices.Sorted(maps.Keys(words(v))) {
				report(o, join("metadata."+field, key), key, strings.TrimSuffix(field, "s"))
			}
		}
	}
	for _, w := range inv.Workloads {
		if w.PodPath != "" {
			for _, key := range slices.Sorted(maps.Keys(w.Annotations)) {
				report(w.Object, w.annotationPath(key), key, "annotation")
			}
		}
		for _, t := range w.terms() {
			report(w.Object, t.path, t.Key, "selector")
		}
	}
	for _, p := range inv.Pools {
		for i, requirement := range p.Requirements {
			report(p.Object, fmt.Sprintf("spec.template.spec.requirements[%d].key", i), requirement.Key, "selector")
		}
	}
}

// podAnnotations are read from pods only.
var podAnnotations = []string{"karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-evict"}

func checkMisplacedAnnotations(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if w.PodPath == "" {
			continue
		}
		v, _ := w.Object.at("metadata", "annotations")
		own := words(v)
		for _, key := range podAnnotations {
			value, written := own[key]
			if _, onPods := w.Annotations[key]; !written || onPods || dead[key].since != "" {
				continue
			}
			r.add(w.Object, detail{
				path:      join("metadata.annotations", key),
				message:   fmt.Sprintf("%s=%s stands on the %s, not on its pods, where the autoscaler looks for it", key, value, w.Object.Kind),
				effective: "the pods have no such annotation: they may be disrupted",
				remedy:    "Move it to " + w.path("metadata.annotations") + ".",
			})
		}
	}
}

// validDoNotDisrupt says whether Karpenter takes the value: true, or from 1.12 a positive duration; false is a way of writing none.
func validDoNotDisrupt(value string) bool {
	if value == "true" || value == "false" {
		return true
	}
	d, err := time.ParseDuration(value)
	return err == nil && d > 0
}
