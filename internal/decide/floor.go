package decide

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// floor returns how many Available pods on staying nodes the workload needs, and says why. Up to 2 replicas need 1, more
// need all but a quarter (rounded up); a budget that covers just this workload raises it to its desired-healthy count.
func floor(w World) (int, string) {
	replicas := int(w.Workload.Deployment.Replicas)
	need := min(replicas, 1)
	if replicas > 2 {
		need = replicas - (replicas+3)/4
	}
	why := fmt.Sprintf("%d of %d replicas", need, replicas)
	for _, b := range w.Budgets {
		if desired := min(int(b.DesiredHealthy), replicas); desired > need {
			need, why = desired, fmt.Sprintf("%d of %d replicas, raised by budget %s", desired, replicas, b.Name)
		}
	}
	return need, why
}

// staying returns how many Available pods on nodes that stay the workload can count on once the subject is gone. again is
// when a pod that is Ready becomes Available; zero when there is none. Where a pod is replaced one by one (replacing),
// another one counts only once it serves: the Services of the subject send it requests, and it has settled.
//
// The Deployment controller deletes pods at the same time and asks nobody: down to the wanted number while it scales in,
// and, while pods of another revision exist, so many of those that replicas - maxUnavailable are left. What it may take does
// not count. Of a pod that has been released to its Handover it knows nothing; such a pod is about to go and does not count.
func staying(w World, replacing bool) (count int, again time.Time) {
	d := w.Workload.Deployment
	available, current, other, rolling := 0, 0, 0, !d.Observed
	for _, p := range w.Pods {
		if p.Released && (replacing || p.Name != w.PodName) {
			continue
		}
		isCurrent := d.Observed && d.Revision != "" && p.Revision == d.Revision
		rolling = rolling || (!isCurrent && !p.Terminating && !p.Terminal)
		if !counted(p) {
			continue
		}
		at := p.ReadySince.Add(d.MinReady)
		if !at.After(w.Now) {
			available++
		}
		if replacing {
			at = at.Add(w.Settings.Settle)
		}
		switch {
		case p.Name == w.PodName || granted(w, p) || !stays(w, p.Node) || (replacing && !servesLike(p, w.Pod)):
		case at.After(w.Now):
			again = earliest(again, at)
		case isCurrent:
			current++
		default:
			other++
		}
	}
	if !rolling {
		return max(0, current-max(0, available-int(d.Replicas))), again
	}
	keeps := int(d.Replicas - d.MaxUnavailable)
	if d.Recreate {
		keeps = 0
	}
	return current + max(0, other-max(0, available-keeps)), again
}

// servesLike reports whether every Service that sends requests to the subject also sends them to p.
func servesLike(p Pod, subject *Pod) bool {
	if subject == nil {
		return true
	}
	return !slices.ContainsFunc(subject.Services, func(s string) bool { return !slices.Contains(p.Services, s) })
}

// counted reports whether somebody depends on the pod: it is Ready, scheduled, and neither terminal nor terminating.
func counted(p Pod) bool {
	return p.Ready && p.Node != "" && !p.Terminal && !p.Terminating
}

// stays reports whether nothing says that the node leaves.
func stays(w World, name string) bool {
	n, ok := w.Nodes[name]
	return ok && n.Signal == "" && n.Hint == ""
}

// granted reports whether the ledger says that the pod may go and has not gone yet.
func granted(w World, p Pod) bool {
	for _, g := range w.Grants {
		if g.Pod == p.UID && w.Now.Before(g.At.Add(w.Settings.GrantTTL)) {
			return true
		}
	}
	return false
}

// held reports whether the pod's user asked not to disrupt it, in a way that is in force now. A value that Segue wrote is
// not the user's. It mirrors IsDisruptable in Karpenter's pkg/utils/pod/scheduling.go: "true", or a positive duration
// counted from the pod's start.
func heldByUser(p Pod, now time.Time) bool {
	if p.SafeToEvictFalse {
		return true
	}
	if p.DoNotDisrupt == "" || p.DoNotDisrupt == p.Held {
		return false
	}
	if yes, err := strconv.ParseBool(p.DoNotDisrupt); err == nil {
		return yes && p.DoNotDisrupt == "true"
	}
	d, err := time.ParseDuration(p.DoNotDisrupt)
	if err != nil || d <= 0 {
		return false
	}
	return p.StartTime.IsZero() || now.Before(p.StartTime.Add(d))
}

// earliest returns the earlier of two times, where zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
