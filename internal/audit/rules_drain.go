package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of the pod template that tell what manifests do not say.
const (
	shutdownAnnotation   = "segue.dev/shutdown"           // time that the application needs to stop after SIGTERM, a duration
	taskAnnotation       = "segue.dev/task-duration"      // the longest task of a queue worker, a duration
	visibilityAnnotation = "segue.dev/visibility-timeout" // after which the broker delivers a task again, a duration
	retryAnnotation      = "segue.dev/retry-countdown"    // the longest delay of a retry, a duration
	ackAnnotation        = "segue.dev/acknowledge"        // early (before the work) or late (after it)
	queueAnnotation      = "segue.dev/queue"              // the queue that a worker takes from
)

const (
	spotNotice  = 120 * time.Second
	spotMargin  = 10 * time.Second
	retryMargin = 10 * time.Second
)

func drainRules() []Rule {
	return []Rule{
		{
			ID: "shutdown-exceeds-grace", Severity: Error, Title: "the grace period ends before the application has stopped",
			Why: "The grace period runs from the start of the preStop hook. What the hook takes is no longer there for the application: with a preStop of B " +
				"seconds and a shutdown of S, B + S must be less than terminationGracePeriodSeconds, else the kubelet kills the container " +
				"with requests in flight.",
			Remedy: "Raise terminationGracePeriodSeconds above the sum, or shorten the hook or the shutdown.",
			check:  checkShutdown,
		},
		{
			ID: "grace-zero", Severity: Error, Title: "a grace period of zero",
			Why: "Zero means delete at once: the container gets SIGKILL, the pod leaves the API before its endpoints are updated, and for a " +
				"StatefulSet two pods of one name may run.",
			Remedy: "Give the application the seconds that it needs to stop.",
			check: func(inv *Inventory, r *reporter) {
				for _, w := range inv.Workloads {
					if w.Pod.TerminationGracePeriodSeconds != nil && *w.Pod.TerminationGracePeriodSeconds == 0 && !w.is("DaemonSet") && !w.placeholder() {
						r.add(w.Object, detail{path: w.path("spec.terminationGracePeriodSeconds"), effective: "SIGKILL at once", message: "every eviction kills the containers without a graceful stop"})
					}
				}
			},
		},
		{
			ID: "grace-exceeds-spot-notice", Severity: Warning, Title: "a grace period longer than the notice of a spot reclaim",
			Why: "A spot node is gone 120 s after its notice, and some of that passes before the eviction. A pod that may take longer to stop is cut off " +
				"with the machine.",
			Remedy: "Let it stop within 110 s (terminationGracePeriodSeconds: 110), or run it on on-demand nodes.",
			check:  checkSpotGrace,
		},
		{
			ID: "no-drain-delay", Severity: Info, Title: "pods behind a Service that stop at once",
			Why: "When a pod ends, its endpoint is taken out at the same time as it gets SIGTERM, and proxies and load balancers learn of it later. An application " +
				"that stops listening at once refuses the connections of that time.",
			Remedy: "Add a preStop sleep of about 5 s (15 s behind an external load balancer), unless the application goes on accepting for that long.",
			check:  checkDrainDelay,
		},
		{
			ID: "task-exceeds-grace", Severity: Error, Title: "a queue worker that is killed in the middle of a task",
			Why: "A worker stops well when it takes no new task and finishes the one that it has. It has until the end of the grace period, or " +
				"until a preStop hook kills it. A longer task is lost when it was acknowledged early, and runs twice when late.",
			Remedy: "Raise terminationGracePeriodSeconds above the longest task, and let the preStop hook not kill the worker.",
			check:  checkTask,
		},
		{
			ID: "visibility-timeout-short", Severity: Warning, Title: "a visibility timeout that delivers tasks twice",
			Why: "A broker with a visibility timeout delivers a task again when it was not acknowledged in that time. It must be longer than the longest " +
				"task, than the longest retry countdown plus a margin, and than the time that a drained worker may take to finish; a " +
				"shorter one means duplicates.",
			Remedy: "Raise the visibility timeout above all three, or shorten them.",
			check:  checkVisibility,
		},
	}
}

// placeholder says whether the pods only hold room for others.
func (w *Workload) placeholder() bool {
	return !slices.ContainsFunc(w.Pod.Containers, func(c corev1.Container) bool { return !pauseImage.MatchString(c.Image) })
}

var pauseImage = regexp.MustCompile(`(^|/)pause(-amd64|-arm64)?([:@]|$)`)

var sleeping = regexp.MustCompile(`\bsleep\s+(\d+(?:\.\d+)?)([smh]?)\b`)

// preStop returns how long a container's preStop hook takes, as far as it says, and its path; ok is false without a hook that tells.
func (w *Workload) preStop(i int) (d time.Duration, path string, ok bool) {
	c := w.Pod.Containers[i]
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return 0, "", false
	}
	hook := c.Lifecycle.PreStop
	if hook.Sleep != nil {
		return time.Duration(hook.Sleep.Seconds) * time.Second, w.containerPath(i, "lifecycle.preStop.sleep.seconds"), true
	}
	if hook.Exec == nil {
		return 0, "", false
	}
	return sleeps(strings.Join(hook.Exec.Command, " ")), w.containerPath(i, "lifecycle.preStop.exec.command"), true
}

// sleeps adds up the sleeps of a command line.
func sleeps(command string) time.Duration {
	var sum time.Duration
	for _, found := range sleeping.FindAllStringSubmatch(command, -1) {
		unit := found[2]
		if unit == "" {
			unit = "s"
		}
		d, _ := time.ParseDuration(found[1] + unit)
		sum += d
	}
	return sum
}

// shutdownFlags tell how long servers wait for their requests.
var shutdownFlags = regexp.MustCompile(`--(?:graceful-timeout|timeout-graceful-shutdown|drain-time-s|shutdown-grace-period|graceful-shutdown-timeout)[= ](\d+(?:ms|s|m)?)\b`)

// shutdown returns how long the application takes to stop after SIGTERM and where that is said.
func (w *Workload) shutdown(i int) (d time.Duration, source string) {
	if d, ok := w.duration(shutdownAnnotation); ok {
		return d, "annotation " + shutdownAnnotation
	}
	c := w.Pod.Containers[i]
	if found := shutdownFlags.FindStringSubmatch(strings.Join(append(append([]string{}, c.Command...), c.Args...), " ")); found != nil {
		return seconds(found[1]), strings.TrimSpace(found[0])
	}
	for _, env := range c.Env {
		if env.Name == "SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE" || env.Name == "GRACEFUL_TIMEOUT" {
			return seconds(env.Value), env.Name + "=" + env.Value
		}
	}
	return 0, ""
}

// seconds reads a duration or a bare number of seconds.
func seconds(text string) time.Duration {
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(n) * time.Second
	}
	d, _ := time.ParseDuration(text)
	return d
}

// duration reads an annotation of the pods.
func (w *Workload) duration(key string) (time.Duration, bool) {
	text, ok := w.Annotations[key]
	if !ok {
		return 0, false
	}
	d := seconds(text)
	return d, d > 0
}

func checkShutdown(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		grace := time.Duration(w.grace()) * time.Second
		if grace == 0 {
			continue
		}
		for i := range w.Pod.Containers {
			hook, path, _ := w.preStop(i)
			stop, source := w.shutdown(i)
			if hook+stop < grace || hook+stop == 0 {
				continue
			}
			if path == "" {
				path = w.path("spec.terminationGracePeriodSeconds")
			}
			message := fmt.Sprintf("preStop %s + shutdown %s (%s) = %s of a grace period of %s", brief(hook), brief(stop), source, brief(hook+stop), brief(grace))
			if stop == 0 {
				message = fmt.Sprintf("preStop takes %s of a grace period of %s: the application gets no time to stop", brief(hook), brief(grace))
			}
			r.add(w.Object, detail{path: path, message: message + ", and the container is killed at " + brief(grace), effective: fmt.Sprintf("%s for the application", brief(max(grace-hook, 0))),
				remedy: fmt.Sprintf("Set terminationGracePeriodSeconds to %d or more, or shorten the hook.", int((hook + stop + 10*time.Second).Seconds()))})
			break // one of a pod's containers says it all
		}
	}
}

// brief writes a duration in seconds, as manifests do.
func brief(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

func checkSpotGrace(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		grace := time.Duration(w.grace()) * time.Second
		if grace <= spotNotice-spotMargin || w.is("DaemonSet") || !inv.onSpot(w) {
			continue
		}
		r.add(w.Object, detail{path: w.path("spec.terminationGracePeriodSeconds"), effective: "at most 120 s on a reclaim",
			message: fmt.Sprintf("the pods run on spot nodes and may take %s to stop; a reclaimed node is gone after 120 s", brief(grace))})
	}
}

func checkDrainDelay(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		if !w.serves() || len(w.Services) == 0 || w.grace() == 0 {
			continue
		}
		delayed := false
		for i, c := range w.Pod.Containers {
			_, source := w.shutdown(i)
			delayed = delayed || c.Lifecycle != nil && c.Lifecycle.PreStop != nil || source != ""
		}
		if !delayed {
			r.add(w.Object, detail{path: w.containerPath(0, "lifecycle.preStop"), effective: "SIGTERM at once",
				message: fmt.Sprintf("the pods get SIGTERM while Service %s still sends them new connections", w.Services[0].Object.Name)})
		}
	}
}

var (
	killing    = regexp.MustCompile(`\b(pkill|killall|kill)\b|control\s+shutdown`)
	taskLimit  = regexp.MustCompile(`--(?:time-limit|task-time-limit)[= ](\d+)\b`)
	visibility = regexp.MustCompile(`visibility_timeout["']?\s*[:=]\s*["']?(\d+)`)
	acksLate   = regexp.MustCompile(`(?i)acks_late["']?\s*[:=]\s*["']?(true|1|yes)\b`)
)

// queue is what is known of a worker's queue.
type queue struct {
	task, visibility, retry time.Duration
	ack                     string
}

// queue reads the annotations of a worker, and flags and environment where they say.
func (w *Workload) queue() queue {
	var q queue
	q.task, _ = w.duration(taskAnnotation)
	q.visibility, _ = w.duration(visibilityAnnotation)
	q.retry, _ = w.duration(retryAnnotation)
	q.ack = w.Annotations[ackAnnotation]
	for _, c := range w.Pod.Containers {
		line := invocation(c)
		if found := taskLimit.FindStringSubmatch(line); found != nil && q.task == 0 {
			q.task = seconds(found[1])
		}
		if found := visibility.FindStringSubmatch(line); found != nil && q.visibility == 0 {
			q.visibility = seconds(found[1])
		}
		if q.ack == "" && acksLate.MatchString(line) {
			q.ack = "late"
		}
	}
	return q
}

// invocation returns a container's command, arguments and environment in one text.
func invocation(c corev1.Container) string {
	var b strings.Builder
	for _, part := range append(append([]string{}, c.Command...), c.Args...) {
		b.WriteString(part + " ")
	}
	for _, env := range c.Env {
		b.WriteString(env.Name + "=" + env.Value + " ")
	}
	return b.String()
}

func checkTask(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		q := w.queue()
		if q.task == 0 || w.is("Job", "CronJob") {
			continue
		}
		available, path, what := time.Duration(w.grace())*time.Second, w.path("spec.terminationGracePeriodSeconds"), "the grace period ends"
		for i, c := range w.Pod.Containers {
			if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Exec == nil {
				continue
			}
			command := strings.Join(c.Lifecycle.PreStop.Exec.Command, " ")
			if at := killing.FindStringIndex(command); at != nil {
				if until := sleeps(command[:at[0]]); until < available {
					available, path, what = until, w.containerPath(i, "lifecycle.preStop.exec.command"), "the preStop hook kills the worker"
				}
			}
		}
		if q.task < available {
			continue
		}
		result := map[string]string{"early": "the task is lost", "late": "the task runs twice"}[q.ack]
		if result == "" {
			result = "the task is lost where it is acknowledged early, and runs twice where late"
		}
		r.add(w.Object, detail{path: path, effective: fmt.Sprintf("%s for a task of %s", brief(available), brief(q.task)),
			message: fmt.Sprintf("a task takes up to %s and %s after %s: %s", brief(q.task), what, brief(available), result)})
	}
}

func checkVisibility(inv *Inventory, r *reporter) {
	for _, w := range inv.Workloads {
		q, grace := w.queue(), time.Duration(w.grace())*time.Second
		if q.visibility == 0 {
			continue
		}
		var message string
		switch {
		case q.task >= q.visibility:
			message = fmt.Sprintf("a task takes up to %s and is delivered again after %s, while it still runs", brief(q.task), brief(q.visibility))
		case q.retry > 0 && q.visibility < q.retry+retryMargin:
			message = fmt.Sprintf("a retry waits up to %s and is delivered again after %s: less than %s between them means duplicates", brief(q.retry), brief(q.visibility), brief(retryMargin))
		case q.task == 0 && grace > q.visibility:
			message = fmt.Sprintf("a drained worker may go on for %s and its task is delivered again after %s", brief(grace), brief(q.visibility))
		default:
			continue
		}
		path := w.path("metadata.annotations")
		if _, written := w.Annotations[visibilityAnnotation]; written {
			path = w.annotationPath(visibilityAnnotation)
		}
		r.add(w.Object, detail{path: path, message: message, effective: "duplicates"})
	}
}
