package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/segue-dev/segue/internal/audit"
	"github.com/segue-dev/segue/internal/audit/schemas"
	"github.com/segue-dev/segue/internal/view"
)

// auditFlags are the flags of `segue audit` as they were typed.
type auditFlags struct {
	files, charts, values   []string
	old, compare            []string
	output                  string
	severity, failOn        string
	ignore                  []string
	baseline, writeBaseline string
}

func newAuditCommand() *cobra.Command {
	flags := auditFlags{}
	command := &cobra.Command{
		Use:   "audit (-f FILE|DIR|- | --chart DIR)",
		Short: "Find what the next node disruption will hurt, and settings that are not in force",
		Long: `Audit reads manifests and says what a drain, a consolidation or a spot reclaim will do to them, and which settings are
written down but not in force. It reads files, folders (with all below, but no templates of Helm charts and no patches of
kustomizations), standard input, and Helm charts, which it renders. Nothing is sent anywhere and no cluster is asked.

A finding is taken out where it stands, with a reason: by the annotation ` + audit.IgnoreAnnotation + `: "ID=reason; ID=reason", by a
comment # segue:ignore ID=reason in the object's document, or for all objects by --ignore ID=reason. docs/audit.md lists the rules.

Exit codes: 0 no finding of severity warning or worse (moved by --fail-on), 1 such findings, 2 usage or failure.`,
		Example: `  segue audit -f deploy/
  segue audit --chart my-chart --values production.yaml
  helm template my-chart | segue audit -f -
  kubectl get -A -o yaml deploy,ds,sts,pdb,hpa,nodepools,nodeclaims | segue audit --diff - -f deploy/
  kubectl kustomize overlays/production | segue audit -f - -o sarif > audit.sarif
  segue audit -f staging/ --compare production/
  segue audit -f deploy/ --ignore 'no-drain-delay=the server goes on accepting for 10 s'`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return runAudit(flags, command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	f := command.Flags()
	f.StringArrayVarP(&flags.files, "filename", "f", nil, "file, folder, or - for standard input; may be repeated")
	f.StringArrayVar(&flags.charts, "chart", nil, "folder of a Helm chart: what it renders to is audited; may be repeated")
	f.StringArrayVar(&flags.values, "values", nil, "values file for the chart, also searched for values that nothing reads; may be repeated, the last one wins")
	f.StringArrayVar(&flags.old, "diff", nil, "old manifests, such as those in the cluster (kubectl get ... -o yaml): say what going from them to the new ones would do; may be repeated")
	f.StringArrayVar(&flags.compare, "compare", nil, "manifests of another environment, such as production: say where it differs; may be repeated")
	f.StringVarP(&flags.output, "output", "o", "table", "table, json or sarif")
	f.StringVar(&flags.severity, "severity", "info", "leave out findings that are less severe: critical, error, warning or info")
	f.StringVar(&flags.failOn, "fail-on", "warning", "severity from which a finding makes the exit code 1; never for none")
	f.StringArrayVar(&flags.ignore, "ignore", nil, "ID=reason: take the findings of a rule out everywhere; may be repeated")
	f.StringVar(&flags.baseline, "baseline", "", "file of known findings, which are left out")
	f.StringVar(&flags.writeBaseline, "write-baseline", "", "write the findings to this file as a baseline and exit with 0")
	return command
}

// auditOptions turns the flags into options; an error is one of usage.
func auditOptions(flags auditFlags) (audit.Options, error) {
	o := audit.Options{Schemas: schemas.Builtin()}
	if len(flags.files)+len(flags.charts) == 0 {
		return o, errors.New("audit: nothing to read: say -f FILE, -f DIR, -f - (standard input) or --chart DIR")
	}
	if len(flags.old) > 0 && len(flags.compare) > 0 {
		return o, errors.New("audit: --diff and --compare are two questions: ask one at a time")
	}
	if len(flags.values) > 0 && len(flags.charts) == 0 {
		return o, errors.New("audit: --values is for the chart that --chart names")
	}
	var err error
	if o.Severity, err = audit.ParseSeverity(flags.severity); err != nil {
		return o, fmt.Errorf("audit: --severity: %w", err)
	}
	if flags.failOn != "never" {
		if _, err = audit.ParseSeverity(flags.failOn); err != nil {
			return o, fmt.Errorf("audit: --fail-on: %w, or never", err)
		}
	}
	for _, text := range flags.ignore {
		ignore, err := audit.ParseIgnore(text)
		if err != nil {
			return o, fmt.Errorf("audit: %w", err)
		}
		o.Ignore = append(o.Ignore, ignore)
	}
	if flags.baseline != "" {
		text, err := os.ReadFile(flags.baseline)
		if err != nil {
			return o, fmt.Errorf("audit: read the baseline: %w", err)
		}
		if o.Baseline, err = audit.ParseBaseline(text); err != nil {
			return o, fmt.Errorf("audit: %s: %w", flags.baseline, err)
		}
	}
	return o, nil
}

func runAudit(flags auditFlags, in io.Reader, out, errOut io.Writer) error {
	write, ok := map[string]func(io.Writer, audit.Report) error{
		"table": func(w io.Writer, r audit.Report) error {
			return view.AuditTable(w, r, view.TextOptions{Color: view.UseColor(w)})
		},
		"json": view.AuditJSON, "sarif": view.AuditSARIF,
	}[flags.output]
	if !ok {
		return fmt.Errorf("audit: unknown output %q: it is one of table, json, sarif", flags.output)
	}
	options, err := auditOptions(flags)
	if err != nil {
		return err
	}
	loaded, err := loadManifests(flags.files, chartInputs{flags.charts, flags.values}, in)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for _, note := range loaded.notes {
		fmt.Fprintln(errOut, "note:", note)
	}
	report, err := auditReport(flags, loaded, options, in, errOut)
	if err != nil {
		return err
	}
	if flags.writeBaseline != "" {
		return writeBaseline(flags.writeBaseline, report, errOut)
	}
	if err := write(out, report); err != nil {
		return err
	}
	return auditVerdict(report, flags.failOn)
}

// auditReport audits the manifests by themselves, or against the others that --diff or --compare name. Of documents that could not
// be read those two only say that they are left out.
func auditReport(flags auditFlags, loaded manifests, options audit.Options, in io.Reader, errOut io.Writer) (audit.Report, error) {
	others := append(flags.old, flags.compare...)
	if len(others) == 0 {
		return audit.Run(loaded.objects, loaded.problems, options), nil
	}
	against, err := loadManifests(others, chartInputs{}, in)
	if err != nil {
		return audit.Report{}, fmt.Errorf("audit: --diff, --compare: %w", err)
	}
	for _, p := range append(against.problems, loaded.problems...) {
		fmt.Fprintln(errOut, "note: left out:", p.Error())
	}
	if len(flags.old) > 0 {
		return audit.Change(against.objects, loaded.objects, options), nil
	}
	return audit.Compare(loaded.objects, against.objects, strings.Join(others, ", "), options), nil
}

// auditVerdict returns an error with exit code 1 when there are findings that count.
func auditVerdict(report audit.Report, failOn string) error {
	if failOn == "never" {
		return nil
	}
	n := 0
	for _, f := range report.Findings {
		if f.Severity.AtLeast(audit.Severity(failOn)) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return exitError{fmt.Errorf("audit: %s of severity %s or worse", counted(n, "finding"), failOn), ExitFindings}
}

func writeBaseline(file string, report audit.Report, errOut io.Writer) error {
	var text strings.Builder
	if err := view.AuditBaseline(&text, audit.NewBaseline(report)); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("audit: write the baseline: %w", err)
	}
	fmt.Fprintf(errOut, "%s written to %s\n", counted(len(report.Findings), "finding"), file)
	return nil
}

// counted returns 1 finding, 2 findings.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
