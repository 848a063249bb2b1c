package controlplane_test

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/segue-dev/segue/lab/labtest"
)

// createOneOfEach makes an object for each controller, around a Deployment, all named app.
func (f *fixture) createOneOfEach(t *testing.T) {
	t.Helper()
	here := map[string]string{"test": f.namespace}
	f.deploy(t, "app", nil, here, nil)
	labels := map[string]string{"app": "app"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "other"}}, Spec: corev1.PodSpec{
		NodeSelector: here, RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "app", Image: "none"}},
	}}
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	meta := metav1.ObjectMeta{Name: "app"}

	ctx, clients, ns := t.Context(), f.clients, f.namespace
	create := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create(clients.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "app"}, MaxReplicas: 3,
	}}, metav1.CreateOptions{}))
	create(clients.PolicyV1().PodDisruptionBudgets(ns).Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
	}}, metav1.CreateOptions{}))
	create(clients.CoreV1().ResourceQuotas(ns).Create(ctx, &corev1.ResourceQuota{ObjectMeta: meta, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("20")},
	}}, metav1.CreateOptions{}))
	create(clients.BatchV1().Jobs(ns).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: once}}, metav1.CreateOptions{}))
	create(clients.AppsV1().StatefulSets(ns).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}, Template: template,
	}}, metav1.CreateOptions{}))
	create(clients.CoreV1().Services(ns).Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Port: 80}},
	}}, metav1.CreateOptions{}))
}

// controllerChecks tell by controller whether it has done its work on those objects.
func (f *fixture) controllerChecks() map[string]func(context.Context) (done bool, err error) {
	clients, ns := f.clients, f.namespace
	return map[string]func(context.Context) (done bool, err error){
		"horizontal pod autoscaler": func(ctx context.Context) (bool, error) {
			got, err := clients.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(ctx, "app", metav1.GetOptions{})
			return err == nil && len(got.Status.Conditions) > 0, err
		},
		"disruption": func(ctx context.Context) (bool, error) {
			got, err := clients.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, "app", metav1.GetOptions{})
			return err == nil && got.Status.CurrentHealthy == 1, err
		},
		"resource quota": func(ctx context.Context) (bool, error) {
			got, err := clients.CoreV1().ResourceQuotas(ns).Get(ctx, "app", metav1.GetOptions{})
			used := got.Status.Used[corev1.ResourcePods]
			return err == nil && used.Value() > 0, err
		},
		"job": func(ctx context.Context) (bool, error) {
			got, err := clients.BatchV1().Jobs(ns).Get(ctx, "app", metav1.GetOptions{})
			return err == nil && got.Status.Succeeded == 1, err
		},
		"stateful set": func(ctx context.Context) (bool, error) {
			got, err := clients.AppsV1().StatefulSets(ns).Get(ctx, "app", metav1.GetOptions{})
			return err == nil && got.Status.ReadyReplicas == 1, err
		},
		"endpoint slice": func(ctx context.Context) (bool, error) {
			got, err := clients.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{})
			return err == nil && len(got.Items) == 1 && len(got.Items[0].Endpoints) == 1, err
		},
	}
}

// TestControllersRun shows for each controller that the project builds on, and that a shorter list of controllers could
// lose, that it works on its objects.
func TestControllersRun(t *testing.T) {
	f := newFixture(t, labtest.Shared(t))
	f.node(t)
	f.createOneOfEach(t)
	clients, ns := f.clients, f.namespace
	for name, check := range f.controllerChecks() {
		t.Run(name, func(t *testing.T) {
			eventually(t, "its work", func(ctx context.Context) error {
				done, err := check(ctx)
				if !done && err == nil {
					return errors.New("not done yet")
				}
				return err
			})
		})
	}

	t.Run("garbage collector", func(t *testing.T) {
		if err := clients.AppsV1().Deployments(ns).Delete(t.Context(), "app", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "ReplicaSet of a deleted Deployment gone", func(ctx context.Context) error {
			got, err := clients.AppsV1().ReplicaSets(ns).List(ctx, metav1.ListOptions{})
			if err == nil && len(got.Items) > 0 {
				return errors.New("still there")
			}
			return err
		})
	})
	t.Run("namespace", func(t *testing.T) {
		if err := clients.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "namespace gone", func(ctx context.Context) error {
			_, err := clients.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.New("still there")
		})
	})
}
