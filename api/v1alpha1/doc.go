// Package v1alpha1 holds the kinds of the API group segue.dev. It holds types only: no decision and no I/O.
//
// +kubebuilder:object:generate=true
// +groupName=segue.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "segue.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Handover{}, &HandoverList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
