// Package starter gives a fresh lab what a person needs to run a first pod: KWOK nodes, or a NodePool from which
// Karpenter makes them. Tests and scenarios bring their own and do not use it.
package starter

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed nodepool.yaml
var nodePool []byte

// resources are those of the kinds in nodepool.yaml.
var resources = map[string]schema.GroupVersionResource{
	"KWOKNodeClass": {Group: "karpenter.kwok.sh", Version: "v1alpha1", Resource: "kwoknodeclasses"},
	"NodePool":      {Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
}

// Nodes creates count KWOK nodes of 4 CPUs and 8 GiB each, named node-1 and so on.
func Nodes(ctx context.Context, config *rest.Config, count int) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create nodes: %w", err)
	}
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	for i := range count {
		name := fmt.Sprintf("node-%d", i+1)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			}},
			Status: corev1.NodeStatus{Allocatable: size, Capacity: size},
		}
		if _, err := clients.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", name, err)
		}
	}
	return nil
}

// NodePool creates Karpenter's NodePool default, which launches every instance type on demand and consolidates at once.
func NodePool(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create NodePool: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(nodePool), len(nodePool))
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("create NodePool: %w", err)
		}
		if _, err := client.Resource(resources[object.GetKind()]).Create(ctx, &object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}
