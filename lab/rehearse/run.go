package rehearse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/play"
	"github.com/segue-dev/segue/lab/scenario"
	"github.com/segue-dev/segue/lab/traffic"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// protectLabel puts a scenario's namespace under Segue; without Segue it means nothing.
	protectLabel = "segue.dev/protect"

	pollInterval = 50 * time.Millisecond
	// calmWithin bounds how long after the last step a run waits for what is still going on.
	calmWithin = 30 * time.Second
	// cleanWithin bounds how long the cleaning of a shared lab may take.
	cleanWithin = 90 * time.Second
)

// run is one run of a scenario on a lab.
type run struct {
	scenario *scenario.Scenario
	mode     view.Mode
	lab      *Lab
	shared   bool
	operator Operator // nil in mode stock
	say      func(format string, args ...any)

	record *record
	world  *scenario.World
	load   *load
}

// play sets the stage, carries out the script and measures.
func (r *run) play(ctx context.Context) (outcome, error) {
	cfg := r.lab.cp.Config()
	world, err := scenario.NewWorld(cfg, r.scenario.Name, r.mode)
	if err != nil {
		return outcome{}, err
	}
	r.world = world
	if err := r.makeNamespace(ctx); err != nil {
		return outcome{}, err
	}
	stage, leave := context.WithCancel(ctx)
	var playing sync.WaitGroup
	defer playing.Wait()
	defer leave()
	player := play.New(cfg, play.Options{})
	balancer := traffic.NewBalancer(cfg, player, traffic.BalancerOptions{})
	failed := make(chan error, 2)
	playing.Go(func() { failed <- player.Run(stage) })
	playing.Go(func() { failed <- balancer.Run(stage) })
	select {
	case <-balancer.Synced():
	case err := <-failed:
		return outcome{}, err
	case <-ctx.Done():
		return outcome{}, context.Cause(ctx)
	}
	r.record = newRecord()
	if err := watch(stage, cfg, r.world.Namespace, r.record, &playing); err != nil {
		return outcome{}, err
	}
	r.load = &load{client: r.world.Client, balancer: balancer, namespace: r.world.Namespace}
	return r.script(ctx)
}

// script carries out the steps and returns what was measured.
func (r *run) script(ctx context.Context) (outcome, error) {
	from, err := r.lab.evictions.size()
	if err != nil {
		return outcome{}, err
	}
	r.world.Traffic, r.world.Faults, r.world.Observer = r.load, r, r
	defer r.load.stop()
	err = r.scenario.Run(ctx, r.world, func(s scenario.Step) {
		r.say("%s", s.Text)
		r.record.step(time.Now(), s.Text)
	})
	var step *scenario.StepError
	var missed *scenario.Missed
	if errors.As(err, &step) && errors.As(step.Err, &missed) {
		r.say("%v", missed)
	} else if err != nil {
		return outcome{}, err
	} else {
		step = nil
	}
	if err := r.awaitCalm(ctx); err != nil {
		return outcome{}, err
	}
	requests := r.load.stop()
	end := time.Now()
	if err := r.readEvictions(from); err != nil {
		return outcome{}, err
	}
	return outcome{run: r.record.build(r.mode, end, requests), missed: step, measured: !r.record.measured.IsZero()}, nil
}

func (r *run) readEvictions(from int64) error {
	answers, err := r.lab.evictions.answers(from)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.namespace == r.world.Namespace && !a.dryRun {
			r.record.eviction(a)
		}
	}
	return nil
}

// Measure, NodeAdded and Drained make run the scenario's Observer.

func (r *run) Measure() { r.record.measure(time.Now()) }

func (r *run) NodeAdded(node string) { r.record.ownNode(node) }

func (r *run) Drained(node string, err error) { r.record.drained(time.Now(), node, err) }

// operatorName is what scenarios call Segue's operator among the components.
const operatorName = "segue"

var errNoOperator = errors.New("the operator is not installed in this run; write the step as `segue: …`")

// Kill and Restart make run the scenario's Faults.

func (r *run) Kill(component string) error {
	if component != operatorName {
		return r.lab.cp.Kill(component)
	}
	if r.operator == nil {
		return errNoOperator
	}
	return r.operator.Kill()
}

func (r *run) Restart(ctx context.Context, component string) error {
	if err := r.Kill(component); err != nil {
		return err
	}
	if component == operatorName {
		return r.operator.Restart(ctx)
	}
	return r.lab.cp.Restart(ctx, component)
}

// makeNamespace makes the scenario's namespace and returns when pods can be created in it.
func (r *run) makeNamespace(ctx context.Context) error {
	name := r.world.Namespace
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{protectLabel: "enabled"}}}
	err := r.until(ctx, cleanWithin, fmt.Sprintf("namespace %q of an earlier run is gone", name), func() (bool, error) {
		_, err := r.world.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		if r.shared && apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("make the scenario's namespace: %w", err)
	}
	return r.until(ctx, calmWithin, fmt.Sprintf("namespace %q has its ServiceAccount", name), func() (bool, error) {
		_, err := r.world.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
}

// awaitCalm waits, for a while at most, until no pod is terminating and no Handover is in progress. What is not calm by
// then is for the expectations to judge.
func (r *run) awaitCalm(ctx context.Context) error {
	err := r.until(ctx, calmWithin, "calm", func() (bool, error) {
		pods, err := r.world.Client.CoreV1().Pods(r.world.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, p := range pods.Items {
			if p.DeletionTimestamp != nil {
				return false, nil
			}
		}
		return r.handoversAtRest(ctx)
	})
	if _, late := errors.AsType[*lateError](err); late {
		r.say("%v", err)
		return nil
	}
	return err
}

func (r *run) handoversAtRest(ctx context.Context) (bool, error) {
	if r.operator == nil {
		return true, nil
	}
	list, err := r.world.Dynamic.Resource(scenario.HandoverResource).Namespace(r.world.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, ignoreNotFound(err)
	}
	for _, h := range list.Items {
		switch phase, _, _ := unstructured.NestedString(h.Object, "status", "phase"); phase {
		case "Done", "Cancelled", "Failed", "Observed":
		default:
			return false, nil
		}
	}
	return true, nil
}

// clean removes from a shared lab what the run made, so that the next one finds it empty. A lab that broke down, which
// ends ctx, is not used again.
func (r *run) clean(ctx context.Context) error {
	if ctx.Err() != nil || r.world == nil {
		return nil
	}
	r.say("clean up")
	if err := r.cleanObjects(ctx); err != nil {
		return fmt.Errorf("clean up the lab: %w", err)
	}
	return nil
}

func (r *run) cleanObjects(ctx context.Context) error {
	client := r.world.Client.CoreV1()
	if err := r.world.Clean(ctx); err != nil {
		return err
	}
	atOnce := int64(0) // nobody plays the served pods any more
	err := r.until(ctx, cleanWithin, "every pod is gone", func() (bool, error) {
		pods, err := client.Pods(r.world.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			return err == nil, err
		}
		return false, client.Pods(r.world.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &atOnce}, metav1.ListOptions{})
	})
	if err != nil {
		return err
	}
	// Kubernetes takes at least 5 s for it; makeNamespace waits for that when it needs the name again.
	if err := client.Namespaces().Delete(ctx, r.world.Namespace, metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
		return err
	}
	if err := r.world.CleanNodes(ctx); err != nil {
		return err
	}
	return r.until(ctx, cleanWithin, "every node is gone", func() (bool, error) {
		nodes, err := client.Nodes().List(ctx, metav1.ListOptions{})
		return err == nil && len(nodes.Items) == 0, err
	})
}

// lateError says that something was not reached in time.
type lateError struct {
	what   string
	within time.Duration
}

func (e *lateError) Error() string { return fmt.Sprintf("%s: not within %s", e.what, e.within) }

// until polls done; its error is a *lateError, that of done, or the cause of ctx.
func (r *run) until(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return &lateError{what, within}
		case <-tick.C:
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
