package audit

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Labels that Karpenter and its AWS provider use.
const (
	labelCapacityType = "karpenter.sh/capacity-type"
	labelPool         = "karpenter.sh/nodepool"
	labelInstanceCPU  = "karpenter.k8s.aws/instance-cpu"
	labelInstanceSize = "karpenter.k8s.aws/instance-size"
	labelInstanceType = "node.kubernetes.io/instance-type"
)

// Pool is a Karpenter NodePool.
type Pool struct {
	Object       *Object
	Labels       map[string]string
	Taints       []corev1.Taint
	Startup      []corev1.Taint
	Requirements []Requirement
	// Deadline is the terminationGracePeriod, 0 when none is set.
	Deadline time.Duration
	// Expires says whether nodes end by age; Karpenter's default is after 720h.
	Expires bool
	// ExpireAfter is that age as it is written, or the default.
	ExpireAfter string
}

// Requirement is one condition on the nodes of a pool.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

func newPool(o *Object) *Pool {
	if o.Kind != "NodePool" || o.Group() != "karpenter.sh" {
		return nil
	}
	var template struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			Taints        []corev1.Taint `json:"taints"`
			StartupTaints []corev1.Taint `json:"startupTaints"`
			Requirements  []Requirement  `json:"requirements"`
		} `json:"spec"`
	}
	content, _ := o.at("spec", "template")
	raw, ok := content.(map[string]any)
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &template) != nil {
		return nil
	}
	p := &Pool{
		Object: o, Labels: template.Metadata.Labels, Taints: template.Spec.Taints, Startup: template.Spec.StartupTaints,
		Requirements: template.Spec.Requirements, ExpireAfter: "720h", Expires: true,
	}
	p.Deadline, _ = time.ParseDuration(o.text("spec", "template", "spec", "terminationGracePeriod"))
	if text := o.text("spec", "template", "spec", "expireAfter"); text != "" {
		p.ExpireAfter, p.Expires = text, text != "Never"
	}
	return p
}

// allows says whether a node of the pool may have a label value, as far as the pool's own requirements and labels say; a key
// that they do not name is open where the engine or the provider sets it, and absent else.
func (p *Pool) allows(key, value string) bool {
	if own, ok := p.Labels[key]; ok && own != value {
		return false
	}
	if key == labelPool {
		return p.Object.Name == value
	}
	named := false
	for _, r := range p.Requirements {
		if r.Key != key {
			continue
		}
		named = true
		if !r.allows(value) {
			return false
		}
	}
	return named || p.Labels[key] == value || providerSets(key)
}

// onlySpot says whether all nodes of the pool are spot. A pool that names no capacity type launches on-demand.
func (p *Pool) onlySpot() bool {
	return p.allowsSpot() && !p.allows(labelCapacityType, "on-demand") && !p.allows(labelCapacityType, "reserved")
}

func (p *Pool) allowsSpot() bool {
	return slices.ContainsFunc(p.Requirements, func(r Requirement) bool { return r.Key == labelCapacityType }) && p.allows(labelCapacityType, "spot")
}

func (r Requirement) allows(value string) bool {
	switch r.Operator {
	case "In":
		return slices.Contains(r.Values, value)
	case "NotIn":
		return !slices.Contains(r.Values, value)
	case "Exists":
		return true
	case "DoesNotExist":
		return false
	case "Gt", "Lt", "Gte", "Lte":
		return r.compares(value)
	}
	return true
}

func (r Requirement) compares(value string) bool {
	if len(r.Values) != 1 {
		return true
	}
	have, err := strconv.Atoi(value)
	limit, err2 := strconv.Atoi(r.Values[0])
	if err != nil || err2 != nil {
		return false
	}
	switch r.Operator {
	case "Gt":
		return have > limit
	case "Lt":
		return have < limit
	case "Gte":
		return have >= limit
	}
	return have <= limit
}

// providerSets says whether nodes get a label without the pool naming it.
func providerSets(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasPrefix(domain, "karpenter.k8s.") ||
		strings.HasPrefix(domain, "karpenter.azure.") || domain == "karpenter.sh" || strings.HasSuffix(domain, ".k8s.aws") || !strings.Contains(key, "/") && key == "name"
}

// tolerated says whether the tolerations let a pod onto nodes with the taints.
func tolerated(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	for _, taint := range taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) }) {
			return false
		}
	}
	return true
}

func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Operator == corev1.TolerationOpExists {
		return true
	}
	return (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Key != "" && t.Value == taint.Value
}

// sizes returns the vCPUs that a node of the pool may have, as far as its requirements tell: none when they do not.
func (p *Pool) sizes() []int {
	var found []int
	seen := func(cpu int) {
		if !slices.Contains(found, cpu) && p.allowsCPU(cpu) {
			found = append(found, cpu)
		}
	}
	for _, r := range p.Requirements {
		switch {
		case r.Key == labelInstanceCPU && r.Operator == "In":
			for _, v := range r.Values {
				if cpu, err := strconv.Atoi(v); err == nil {
					seen(cpu)
				}
			}
		case r.Key == labelInstanceSize && r.Operator == "In":
			for _, v := range r.Values {
				seen(cpuOfSize(v))
			}
		case r.Key == labelInstanceType && r.Operator == "In":
			for _, v := range r.Values {
				if _, size, ok := strings.Cut(v, "."); ok {
					seen(cpuOfSize(size))
				}
			}
		}
	}
	if len(found) == 0 && p.boundsCPU() {
		for _, cpu := range []int{1, 2, 4, 8, 16, 32, 48, 64, 96} {
			seen(cpu)
		}
	}
	slices.Sort(found)
	return found
}

func (p *Pool) boundsCPU() bool {
	return slices.ContainsFunc(p.Requirements, func(r Requirement) bool {
		return r.Key == labelInstanceCPU && slices.Contains([]string{"Gt", "Lt", "Gte", "Lte"}, r.Operator)
	})
}

func (p *Pool) allowsCPU(cpu int) bool {
	if cpu == 0 {
		return false
	}
	for _, r := range p.Requirements {
		if r.Key == labelInstanceCPU && !r.allows(strconv.Itoa(cpu)) {
			return false
		}
	}
	return true
}

// cpuOfSize returns the vCPUs of an AWS size where all families agree: large is 2, xlarge 4, Nxlarge 4N; 0 where they do not.
func cpuOfSize(size string) int {
	switch size {
	case "large":
		return 2
	case "xlarge":
		return 4
	}
	if n, ok := strings.CutSuffix(size, "xlarge"); ok {
		if factor, err := strconv.Atoi(n); err == nil && factor > 0 && factor <= 64 {
			return 4 * factor
		}
	}
	return 0
}
