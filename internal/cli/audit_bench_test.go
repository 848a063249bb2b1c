package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// application is what a team writes for one application: five manifests of the usual length, in several namespaces.
const application = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-%[1]d
  namespace: team-%[2]d
  labels: {app.kubernetes.io/name: app-%[1]d, app.kubernetes.io/part-of: shop}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: app-%[1]d
  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: app-%[1]d
        app.kubernetes.io/part-of: shop
    spec:
      serviceAccountName: app-%[1]d
      terminationGracePeriodSeconds: 60
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app.kubernetes.io/name: app-%[1]d}}
      containers:
      - name: app
        image: registry.example.com/shop/app-%[1]d:1.2.3
        ports:
        - name: http
          containerPort: 8080
        env:
        - name: LOG_LEVEL
          value: info
        - name: DATABASE_URL
          valueFrom: {secretKeyRef: {name: app-%[1]d, key: database-url}}
        resources:
          requests: {cpu: 100m, memory: 128Mi}
          limits: {memory: 256Mi}
        lifecycle:
          preStop: {sleep: {seconds: 10}}
        readinessProbe:
          httpGet: {path: /ready, port: http}
        livenessProbe:
          httpGet: {path: /alive, port: http}
          failureThreshold: 6
---
apiVersion: v1
kind: Service
metadata:
  name: app-%[1]d
  namespace: team-%[2]d
spec:
  selector: {app.kubernetes.io/name: app-%[1]d}
  ports:
  - {name: http, port: 80, targetPort: http}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: app-%[1]d
  namespace: team-%[2]d
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {app.kubernetes.io/name: app-%[1]d}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: app-%[1]d
  namespace: team-%[2]d
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app-%[1]d}
  minReplicas: 2
  maxReplicas: 20
  metrics:
  - type: Resource
    resource:
      name: cpu
      target: {type: Utilization, averageUtilization: 70}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: app-%[1]d
  namespace: team-%[2]d
data:
  settings.yaml: |
    cache: true
    workers: 8
`

// writeApplications writes n applications of five manifests, a file each.
func writeApplications(tb testing.TB, n, namespaces int) string {
	tb.Helper()
	folder := tb.TempDir()
	for i := range n {
		text := fmt.Sprintf(application, i, i%namespaces)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("app-%d.yaml", i)), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return folder
}

// The target is 5 s on 2 cores for 10,000 manifests, also when all stand in one namespace.
func BenchmarkAudit10000(b *testing.B) {
	for name, namespaces := range map[string]int{"one-namespace": 1, "fifty-namespaces": 50} {
		b.Run(name, func(b *testing.B) {
			folder := writeApplications(b, 2000, namespaces)
			peak := uint64(0)
			for b.Loop() {
				if err := runAudit(auditFlags{files: []string{folder}, output: "json", severity: "info", failOn: "warning"}, strings.NewReader(""), io.Discard, io.Discard); err != nil {
					b.Fatal(err)
				}
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				peak = max(peak, memory.HeapSys)
			}
			b.ReportMetric(float64(peak)/(1<<20), "heap-MiB")
		})
	}
}

// The same when every Deployment has fields that no server keeps, which are searched for all over the kind.
func BenchmarkAudit10000Broken(b *testing.B) {
	folder := writeApplications(b, 2000, 50)
	for i := range 2000 {
		name := filepath.Join(folder, fmt.Sprintf("app-%d.yaml", i))
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		broken := strings.Replace(string(text), "  strategy:\n", "  minReady: 1\n  terminationGracePeriodSeconds: 60\n  strategy:\n", 1)
		if err := os.WriteFile(name, []byte(broken), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		err := runAudit(auditFlags{files: []string{folder}, output: "table", severity: "info", failOn: "warning"}, strings.NewReader(""), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "4000 findings") {
			b.Fatalf("want 4000 findings, got %v", err)
		}
	}
}

// The same kinds of manifests are clean, so that the benchmark measures what a healthy repository takes.
func TestBenchmarkManifestsAreClean(t *testing.T) {
	out, errOut, code := runCommand(t, "", "audit", "-f", writeApplications(t, 20, 3))
	if code != ExitSafe || !strings.HasPrefix(out, "no findings in 100 objects") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}
