package cluster

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/decide"
)

func TestNodeOf(t *testing.T) {
	tainted := func(key, value string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}}}}
	}
	ends := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	deleted := metav1.NewTime(ends)
	for name, c := range map[string]struct {
		node  *corev1.Node
		claim *metav1.PartialObjectMetadata
		want  decide.Node
	}{
		"stays":                   {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, nil, decide.Node{Name: "n"}},
		"another taint":           {tainted("dedicated", "web"), nil, decide.Node{Name: "n"}},
		"Karpenter":               {tainted("karpenter.sh/disrupted", ""), nil, decide.Node{Name: "n", Signal: v1alpha1.SignalKarpenterDisrupted}},
		"Karpenter before 1.0":    {tainted("karpenter.sh/disruption", "disrupting"), nil, decide.Node{Name: "n", Signal: v1alpha1.SignalKarpenterDisrupted}},
		"Cluster Autoscaler":      {tainted("ToBeDeletedByClusterAutoscaler", "1764500000"), nil, decide.Node{Name: "n", Signal: v1alpha1.SignalClusterAutoscalerDeletion}},
		"Cluster Autoscaler hint": {tainted("DeletionCandidateOfClusterAutoscaler", ""), nil, decide.Node{Name: "n", Hint: "DeletionCandidate"}},
		"termination handler":     {tainted("aws-node-termination-handler/spot-itn", ""), nil, decide.Node{Name: "n", Signal: v1alpha1.SignalTerminationHandler}},
		"cordon":                  {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Unschedulable: true}}, nil, decide.Node{Name: "n", Hint: "Cordoned"}},
		"deleted":                 {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", DeletionTimestamp: &deleted}}, nil, decide.Node{Name: "n", Signal: v1alpha1.SignalNodeDeleted}},
		"NodeClaim deleted":       {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted}}, decide.Node{Name: "n", Signal: v1alpha1.SignalNodeClaimDeleted}},
		"NodeClaim with a deadline": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"karpenter.sh/nodepool": "p"}}},
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"karpenter.sh/nodeclaim-termination-timestamp": ends.Format(time.RFC3339)}}},
			decide.Node{Name: "n", Karpenter: true, TerminatesAt: ends}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nodeOf(c.node, c.claim); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFenceposts(t *testing.T) {
	percent, count := intstr.FromString, intstr.FromInt32
	for _, c := range []struct {
		surge, unavailable intstr.IntOrString
		replicas           int32
		wantSurge, wantUn  int32
	}{
		{percent("25%"), percent("25%"), 1, 1, 0},
		{percent("25%"), percent("25%"), 4, 1, 1},
		{percent("25%"), percent("25%"), 5, 2, 1},
		{percent("0%"), percent("10%"), 3, 0, 1}, // both come out as 0: one may be unavailable
		{count(0), count(1), 2, 0, 1},
		{percent("100%"), count(0), 3, 3, 0},
	} {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &c.surge, MaxUnavailable: &c.unavailable}}}}
		if s, u := fenceposts(d, c.replicas); s != c.wantSurge || u != c.wantUn {
			t.Errorf("surge %s, unavailable %s of %d: %d and %d, want %d and %d", c.surge.String(), c.unavailable.String(), c.replicas, s, u, c.wantSurge, c.wantUn)
		}
	}
	if s, u := fenceposts(&appsv1.Deployment{}, 1); s != 1 || u != 0 {
		t.Errorf("defaults: %d and %d, want 1 and 0", s, u)
	}
}

func TestHandoverName(t *testing.T) {
	if got := HandoverName("web-7d9-x", "0a1b2c3d-4e5f-0000-0000-000000000000"); got != "web-7d9-x-0a1b2c3d" {
		t.Errorf("name %q", got)
	}
	for _, pod := range []string{strings.Repeat("w", 253), strings.Repeat("w", 53) + ".w"} {
		name := HandoverName(pod, "0a1b2c3d-4e5f-0000-0000-000000000000")
		if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
			t.Errorf("%q is no label value: %v", name, problems)
		}
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%q is no object name: %v", name, problems)
		}
	}
}
