package rehearse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy writes evictions with their answers, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create]
  resources:
  - group: ""
    resources: [pods/eviction]
- level: None
`

// evictionLog is the API server's audit log of evictions: the only place that sees every evictor and every answer. The
// server writes an entry before it sends the answer.
type evictionLog struct {
	dir string
}

// newEvictionLog makes the policy file in a new temporary directory.
func newEvictionLog() (*evictionLog, error) {
	dir, err := os.MkdirTemp("", "segue-rehearse-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the audit log: %w", err)
	}
	l := &evictionLog{dir: dir}
	if err := os.WriteFile(l.policyFile(), []byte(auditPolicy), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the audit policy: %w", err), l.remove())
	}
	return l, nil
}

func (l *evictionLog) policyFile() string { return filepath.Join(l.dir, "policy.yaml") }
func (l *evictionLog) logFile() string    { return filepath.Join(l.dir, "audit.log") }
func (l *evictionLog) remove() error      { return os.RemoveAll(l.dir) }

// args are the flags of kube-apiserver that make it write the log.
func (l *evictionLog) args() []string {
	return []string{"--audit-policy-file=" + l.policyFile(), "--audit-log-path=" + l.logFile(), "--audit-log-mode=blocking"}
}

// answer is one answer of the eviction API.
type answer struct {
	at             time.Time
	namespace, pod string
	user           string
	code           int32 // HTTP status
	dryRun         bool
	message        string
}

// size is the length of the log, from which the answers of a later run are read.
func (l *evictionLog) size() (int64, error) {
	info, err := os.Stat(l.logFile())
	if errors.Is(err, os.ErrNotExist) { // the server makes it with the first entry
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the audit log: %w", err)
	}
	return info.Size(), nil
}

// answers reads the log from a position.
func (l *evictionLog) answers(from int64) ([]answer, error) {
	f, err := os.Open(l.logFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return parseAnswers(f)
}

// maxAuditLine is far above an eviction's entry, which is about 2 kB.
const maxAuditLine = 1 << 20

func parseAnswers(r io.Reader) ([]answer, error) {
	var answers []answer
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read an entry of the audit log: %w", err)
		}
		if e.Stage == auditv1.StageResponseComplete && e.ObjectRef != nil && e.ResponseStatus != nil {
			answers = append(answers, answerOf(e))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return answers, nil
}

func answerOf(e auditv1.Event) answer {
	a := answer{
		at: e.StageTimestamp.Time, namespace: e.ObjectRef.Namespace, pod: e.ObjectRef.Name, user: e.User.Username,
		code: e.ResponseStatus.Code, message: e.ResponseStatus.Message,
	}
	if a.message == "" {
		a.message = fmt.Sprintf("answered %d", a.code)
	}
	a.dryRun = strings.Contains(e.RequestURI, "dryRun=")
	if e.RequestObject != nil {
		var eviction policyv1.Eviction
		if json.Unmarshal(e.RequestObject.Raw, &eviction) == nil && eviction.DeleteOptions != nil {
			a.dryRun = a.dryRun || len(eviction.DeleteOptions.DryRun) > 0 && eviction.DeleteOptions.DryRun[0] == metav1.DryRunAll
		}
	}
	return a
}
