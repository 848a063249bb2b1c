package decide

import (
	"fmt"
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
		// A budget over several workloads cannot be met by this one alone; the API server holds it anyway.
		if int(b.ExpectedPods) > max(replicas, len(w.Pods)) {
			continue
		}
		if desired := min(int(b.DesiredHealthy), replicas); desired > need {
			need, why = desired, fmt.Sprintf("%d of %d replicas, raised by budget %s", desired, replicas, b.Name)
		}
	}
	return need, why
}

// staying counts the workload's Available pods, without the subject, that are on nodes that stay and were not already
// allowed to go. again is when a pod that is Ready becomes Available; zero when there is none.
func staying(w World) (count int, again time.Time) {
	for _, p := range w.Pods {
		if p.Name == w.PodName || !counted(p) || granted(w, p) || !stays(w, p.Node) {
			continue
		}
		if at := p.ReadySince.Add(w.Workload.Deployment.MinReady); at.After(w.Now) {
			again = earliest(again, at)
			continue
		}
		count++
	}
	return count, again
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
