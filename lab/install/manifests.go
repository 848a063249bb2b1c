package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/segue-dev/segue/charts"
)

// applyFiles creates what the chart ships, with the webhook pointing at this process's operator.
func (o *Operator) applyFiles(ctx context.Context) error {
	ns := &unstructured.Unstructured{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	ns.SetName(Namespace)
	objects := []*unstructured.Unstructured{ns}
	for _, pattern := range []string{"segue/crds/*.yaml", "segue/files/*.yaml"} {
		names, err := fs.Glob(charts.Files, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			read, err := readObjects(name)
			if err != nil {
				return err
			}
			objects = append(objects, read...)
		}
	}
	for _, u := range objects {
		if u.GetKind() == "ValidatingWebhookConfiguration" {
			if err := o.pointAtOperator(u); err != nil {
				return err
			}
		}
		if err := o.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
			return fmt.Errorf("install %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return o.awaitKinds(ctx)
}

// pointAtOperator replaces the Service, which does not exist in a lab, by the operator's address. The name localhost is
// what the operator's certificate carries.
func (o *Operator) pointAtOperator(u *unstructured.Unstructured) error {
	hooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
	if err != nil {
		return fmt.Errorf("read the webhook configuration: %w", err)
	}
	for i := range hooks {
		hook := hooks[i].(map[string]any)
		path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return fmt.Errorf("read the path of the webhook: %w", err)
		}
		hook["clientConfig"] = map[string]any{"url": "https://localhost:" + strconv.Itoa(o.webhook) + path}
	}
	return unstructured.SetNestedSlice(u.Object, hooks, "webhooks")
}

// awaitKinds waits until the API server serves the kinds: the operator's caches cannot start before.
func (o *Operator) awaitKinds(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("segue.dev/v1alpha1")
		list.SetKind("HandoverList")
		err := o.client.List(ctx, list)
		return err == nil, ignoreUnknownKind(err)
	})
	if err != nil {
		return fmt.Errorf("wait until the API server serves Handovers: %w", err)
	}
	return nil
}

func ignoreUnknownKind(err error) error {
	if meta.IsNoMatchError(err) || client.IgnoreNotFound(err) == nil {
		return nil
	}
	return err
}

func readObjects(name string) ([]*unstructured.Unstructured, error) {
	data, err := charts.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(u); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}
