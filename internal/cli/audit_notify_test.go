package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const notify = "../../examples/notify"

// fault is one mistake in the example: the text that it replaces, and the one finding that it must lead to.
type fault struct {
	file, old, new string
	finding        string // rule and object
}

// faults are of the kinds that teams make; each stands alone, and all 25 together are the broken twin.
var faults = []fault{
	{"api.yaml", "      terminationGracePeriodSeconds: 60", "      minReadySeconds: 5\n      terminationGracePeriodSeconds: 60", "field-unknown apps/v1/Deployment/notify/api"},
	{"admin.yaml", "ports: [{port: 80, targetPort: http}]", `ports: [{port: "80", targetPort: http}]`, "field-type v1/Service/notify/admin"},
	{"pools.yaml", "consolidationPolicy: WhenEmpty\n", "consolidationPolicy: WhenUnderutilized\n", "field-value karpenter.sh/v1/NodePool//burst"},
	{"digest.yaml", "      nodeSelector: {notify.example/tier: steady}", "      tolerations: [{operator: Exists}]\n      nodeSelector: {notify.example/tier: steady}", "tolerates-everything apps/v1/Deployment/notify/digest-steady"},
	{"admin.yaml", "apiVersion: batch/v1", "apiVersion: batch/v1beta1", "api-version-gone batch/v1beta1/CronJob/notify/report"},
	{"admin.yaml", "karpenter.sh/do-not-disrupt: 20m", `karpenter.sh/do-not-evict: "true"`, "dead-name batch/v1/CronJob/notify/report"},
	{"admin.yaml", "metadata: {name: admin, namespace: notify}\nspec:\n  replicas", "metadata: {name: admin, namespace: notify, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"}}\nspec:\n  replicas", "annotation-misplaced apps/v1/Deployment/notify/admin"},
	{"karpenter.yaml", "maxUnavailable: 1", "maxUnavailable: 0", "budget-blocks-drain policy/v1/PodDisruptionBudget/kube-system/karpenter"},
	{"api.yaml", "maxUnavailable: 1\n  unhealthy", "minAvailable: 3\n  unhealthy", "budget-equals-autoscaler-minimum policy/v1/PodDisruptionBudget/notify/api"},
	{"deliver.yaml", "    matchLabels: {app: deliver-steady}\n---", "    matchLabels: {app: deliver-steady}\n---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: workers, namespace: notify}\nspec:\n  maxUnavailable: 1\n  unhealthyPodEvictionPolicy: AlwaysAllow\n  selector:\n    matchLabels: {app: deliver-steady}\n---", "budgets-overlap apps/v1/Deployment/notify/deliver-steady"},
	{"deliver.yaml", "    matchLabels: {app: deliver-burst}\n$", "    matchLabels: {app: deliver-bursts}\n", "budget-matches-nothing policy/v1/PodDisruptionBudget/notify/deliver-burst"},
	{"karpenter.yaml", "value: notify-interruptions", `value: ""`, "spot-without-interruption-handler karpenter.sh/v1/NodePool//burst"},
	{"pools.yaml", "  limits: {cpu: 64}\n", "", "pool-without-limits karpenter.sh/v1/NodePool//steady"},
	{"pools.yaml", "nodes: 20%", `nodes: "0"`, "pool-never-disrupts karpenter.sh/v1/NodePool//burst"},
	{"agents.yaml", "      priorityClassName: system-node-critical\n", "", "agent-without-priority apps/v1/DaemonSet/monitoring/agent"},
	{"pools.yaml", "gate.notify.example/monitoring.agent, effect: NoSchedule}]\n      requirements:\n      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}", "gate.notify.example/monitor.agent, effect: NoSchedule}]\n      requirements:\n      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}", "startup-taint-without-owner karpenter.sh/v1/NodePool//steady"},
	{"admin.yaml", "          nodeSelector: {notify.example/tier: steady}", "          nodeSelector: {notify.example/tier: stedy}", "no-pool-fits batch/v1/CronJob/notify/report"},
	{"admin.yaml", "\n      nodeSelector: {notify.example/tier: steady}", "\n      nodeSelector: {notify.example/tier: steady, karpenter.sh/capacity-type: ON_DEMAND}", "provider-keys-mixed apps/v1/Deployment/notify/admin"},
	{"admin.yaml", "        readinessProbe:\n          httpGet: {path: /ready, port: http}\n", "", "readiness-missing apps/v1/Deployment/notify/admin"},
	{"api.yaml", "httpGet: {path: /alive, port: http}\n          failureThreshold: 6", "httpGet: {path: /ready, port: http}", "liveness-equals-readiness apps/v1/Deployment/notify/api"},
	{"api.yaml", "segue.dev/shutdown: 30s", "segue.dev/shutdown: 50s", "shutdown-exceeds-grace apps/v1/Deployment/notify/api"},
	{"deliver.yaml", "segue.dev/task-duration: 40s", "segue.dev/task-duration: 2m", "task-exceeds-grace apps/v1/Deployment/notify/deliver-steady"},
	{"digest.yaml", "segue.dev/visibility-timeout: 300s", "segue.dev/visibility-timeout: 245s", "visibility-timeout-short apps/v1/Deployment/notify/digest-steady"},
	{"digest.yaml", "terminationGracePeriodSeconds: 100\n      nodeSelector: {notify.example/tier: burst}", "terminationGracePeriodSeconds: 180\n      nodeSelector: {notify.example/tier: burst}", "grace-exceeds-spot-notice apps/v1/Deployment/notify/digest-burst"},
	{"digest.yaml", "segue.dev/queue: digest\n", "segue.dev/queue: digests\n", "burst-tier-without-base apps/v1/Deployment/notify/digest-burst"},
}

// example returns the files of the example.
func example(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(filepath.Join(notify, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("find the example: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(text)
	}
	return files
}

// breakIt puts a fault in, at the first place that has its text; a $ at the end of the text stands for the end of the file.
func (f fault) breakIt(t *testing.T, files map[string]string) {
	t.Helper()
	text := files[f.file]
	if old, last := strings.CutSuffix(f.old, "$"); last {
		if !strings.HasSuffix(text, old) {
			t.Fatalf("%s does not end with %q", f.file, old)
		}
		files[f.file] = strings.TrimSuffix(text, old) + f.new
		return
	}
	if !strings.Contains(text, f.old) {
		t.Fatalf("%s lacks %q", f.file, f.old)
	}
	files[f.file] = strings.Replace(text, f.old, f.new, 1)
}

// findings audits files and returns rule and object of each finding, sorted.
func findings(t *testing.T, files map[string]string) []string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, code := runCommand(t, "", "audit", "-f", folder, "-o", "json")
	if code == ExitFailure {
		t.Fatal(errOut)
	}
	var doc struct{ Findings []struct{ ID, Object string } }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, f := range doc.Findings {
		found = append(found, f.ID+" "+f.Object)
	}
	slices.Sort(found)
	return found
}

func TestExampleIsClean(t *testing.T) {
	if found := findings(t, example(t)); len(found) > 0 {
		t.Errorf("the example has findings:\n%s", strings.Join(found, "\n"))
	}
}

func TestEachFaultIsFoundAlone(t *testing.T) {
	for i, f := range faults {
		t.Run(fmt.Sprintf("%02d-%s", i+1, strings.Fields(f.finding)[0]), func(t *testing.T) {
			files := example(t)
			f.breakIt(t, files)
			if diff := cmp.Diff([]string{f.finding}, findings(t, files)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// The broken twin has all faults at once, and the audit finds these 25 and no other.
func TestBrokenTwinHasExactlyItsFaults(t *testing.T) {
	files := example(t)
	var want []string
	rules := map[string]bool{}
	for _, f := range faults {
		f.breakIt(t, files)
		// A version that is gone stands in the object's name, also in its other findings.
		finding := f.finding
		if strings.HasSuffix(finding, "batch/v1/CronJob/notify/report") {
			finding = strings.Replace(finding, "batch/v1/", "batch/v1beta1/", 1)
		}
		want = append(want, finding)
		rules[strings.Fields(finding)[0]] = true
	}
	slices.Sort(want)
	if len(want) != 25 || len(rules) != 25 {
		t.Fatalf("%d faults of %d rules, want 25 of 25: %v", len(want), len(rules), slices.Sorted(maps.Keys(rules)))
	}
	if diff := cmp.Diff(want, findings(t, files)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
