package play

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
)

// How often a failed write is tried again.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
	// writeTimeout bounds one call, so that a connection that hangs is given up.
	writeTimeout = 10 * time.Second
)

// reporter writes one pod's status to the API server and deletes the pod in the end, in its own goroutine: a pod that
// must stop listening now does not wait for an API server that is away.
type reporter struct {
	client kubernetes.Interface
	log    *slog.Logger
	wake   chan struct{}

	mu sync.Mutex
	// pod is the newest version that was seen, from the watch or as the answer to a write.
	pod *corev1.Pod
	// own is the status to write, nil if there is none yet.
	own *corev1.PodStatus
	// remove asks for the deletion of the pod, after the status.
	remove bool
}

func newReporter(client kubernetes.Interface, log *slog.Logger, pod *corev1.Pod) *reporter {
	return &reporter{client: client, log: log, pod: pod, wake: make(chan struct{}, 1)}
}

// seen takes note of a version of the pod, unless it is older than the newest one.
func (r *reporter) seen(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, r.pod.ResourceVersion); err != nil || order > 0 {
		r.pod = pod
	}
}

// set asks for a status, and for the deletion of the pod after it if remove is true. A nil status leaves it as it is.
func (r *reporter) set(own *corev1.PodStatus, remove bool) {
	r.mu.Lock()
	r.own, r.remove = own, remove
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run writes what was asked for until the context ends or the pod is gone.
func (r *reporter) run(ctx context.Context) {
	retry := firstRetry
	for {
		var again <-chan time.Time
		gone, err := r.write(ctx)
		switch {
		case gone || ctx.Err() != nil:
			return
		case err != nil:
			r.log.Warn("write to the API server failed, trying again", "in", retry, "error", err)
			again = time.After(retry)
			retry = min(2*retry, lastRetry)
		default:
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-r.wake:
		}
	}
}

// write brings the API server to what was asked for; it does nothing if it is there already. gone says that the pod no
// longer exists.
func (r *reporter) write(ctx context.Context) (gone bool, err error) {
	r.mu.Lock()
	pod, own, remove := r.pod, r.own, r.remove
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if own != nil {
		patch, err := statusPatch(pod, merge(pod.Status, *own))
		if err != nil {
			return false, err
		}
		if patch != nil {
			got, err := r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			if err != nil {
				return apierrors.IsNotFound(err), fmt.Errorf("patch status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			r.seen(got)
		}
	}
	if !remove {
		return false, nil
	}
	err = r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return true, nil
}

// statusPatch returns the patch that gives the pod the status, nil if it has it already. As a kubelet's patch it names
// the UID, so that a new pod of the same name is never hit.
func statusPatch(pod *corev1.Pod, status corev1.PodStatus) ([]byte, error) {
	identity := metav1.ObjectMeta{UID: pod.UID}
	before, err := json.Marshal(&corev1.Pod{Status: pod.Status})
	if err != nil {
		return nil, fmt.Errorf("encode status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	same, err := json.Marshal(&corev1.Pod{Status: status})
	if err != nil {
		return nil, fmt.Errorf("encode status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if string(before) == string(same) {
		return nil, nil
	}
	after, err := json.Marshal(&corev1.Pod{ObjectMeta: identity, Status: status})
	if err != nil {
		return nil, fmt.Errorf("encode status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("compare statuses of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return patch, nil
}
