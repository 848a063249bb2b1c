package scenario

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// fieldManager is the name under which the script writes, as a GitOps controller would under its own.
const fieldManager = "rehearsal"

type applyAction struct{ file string }

func parseApply(p *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(1, 1), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	file := a.words[0]
	if _, ok := p.s.Manifests[file]; !ok {
		return nil, fmt.Errorf("the scenario has no file %q: add it below the script as `-- %s --`", file, file)
	}
	p.applied[file] = true
	return applyAction{file}, nil
}

// Do applies the file's objects in their order with server-side apply, which refuses unknown fields.
func (a applyAction) Do(ctx context.Context, w *World) error {
	for _, m := range w.scenario.Manifests[a.file] {
		if err := w.apply(ctx, m.Object); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return &Error{File: w.scenario.File, Line: m.Line, Msg: fmt.Sprintf("apply %s %q of %s: %v", m.Object.GetKind(), m.Object.GetName(), a.file, err)}
		}
	}
	return nil
}

func (w *World) apply(ctx context.Context, manifest *unstructured.Unstructured) error {
	object := manifest.DeepCopy() // the next run applies it again
	mapping, err := w.resource(object.GroupVersionKind())
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && object.GetNamespace() == "" {
		object.SetNamespace(w.Namespace)
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	force := true
	client := w.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
	_, err = client.Patch(ctx, object.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, Force: &force,
	})
	if err == nil {
		w.applied = append(w.applied, appliedObject{mapping.Resource, object.GetNamespace(), object.GetName()})
	}
	return err
}

type deleteAction struct{ object objectRef }

func parseDelete(p *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(1, 1), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	object, err := p.objectRef(a.words[0])
	return deleteAction{object}, err
}

func (d deleteAction) Do(ctx context.Context, w *World) error {
	client, name, err := w.client(d.object)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

type scaleAction struct {
	object   objectRef
	replicas int
}

func parseScale(p *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(2, 2), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	object, err := p.objectRef(a.words[0])
	if err != nil {
		return nil, err
	}
	n, err := parseCount(a.words[1])
	return scaleAction{object, n}, err
}

func (s scaleAction) Do(ctx context.Context, w *World) error {
	client, name, err := w.client(s.object)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, s.replicas)
	_, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "scale")
	return err
}

// letAction gives a name to an object that is known only when the script runs.
type letAction struct {
	name   string
	ofNode bool // the node of the workload's pod, else the pod
	object objectRef
}

var variableRule = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

func parseLet(p *parser, a args) (Action, error) {
	// `let x = node of deployment/web`: the lone = is a word
	if err := errors.Join(a.expect(5, 5), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	if a.words[1] != "=" || a.words[3] != "of" || a.words[2] != "node" && a.words[2] != "pod" {
		return nil, errors.New("cannot be read")
	}
	if !variableRule.MatchString(a.words[0]) {
		return nil, fmt.Errorf("%q is not a name of letters and digits", a.words[0])
	}
	object, err := p.objectRef(a.words[4])
	if err != nil {
		return nil, err
	}
	p.vars[a.words[0]] = true
	return letAction{name: a.words[0], ofNode: a.words[2] == "node", object: object}, nil
}

func (l letAction) Do(ctx context.Context, w *World) error {
	pods, err := w.pods(ctx, l.object)
	if err != nil {
		return err
	}
	var names []string
	for _, pod := range pods {
		name := pod.Name
		if l.ofNode {
			name = pod.Spec.NodeName
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		return fmt.Errorf("%s stands for %d names, needs exactly one: %s", l.name, len(names), strings.Join(names, ", "))
	}
	w.vars[l.name] = names[0]
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
