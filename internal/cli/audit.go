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
	files                   []string
	output                  string
	severity, failOn        string
	ignore                  []string
	baseline, writeBaseline string
}

func newAuditCommand() *cobra.Command {
	flags := auditFlags{}
	command := &cobra.Command{
		Use:   "audit -f FILE|DIR|-",
		Short: "Find what the next node disruption will hurt, and settings that are not in force",
		Long: `Audit reads manifests and says what a drain, a consolidation or a spot reclaim will do to them, and which settings are
written down but not in force. It reads files, folders (with all below, but no templates of Helm charts and no patches of
kustomizations: pipe what these render to), and standard input. Nothing is sent anywhere and no cluster is asked.

A finding is taken out where it stands, with a reason: by the annotation ` + audit.IgnoreAnnotation + `: "ID=reason; ID=reason", by a
comment # segue:ignore ID=reason in the object's document, or for all objects by --ignore ID=reason. docs/audit.md lists the rules.

Exit codes: 0 no finding of severity warning or worse (moved by --fail-on), 1 such findings, 2 usage or failure.`,
		Example: `  segue audit -f deploy/
  helm template my-chart | segue audit -f -
  kubectl kustomize overlays/production | segue audit -f - -o sarif > audit.sarif
  segue audit -f deploy/ --ignore 'no-drain-delay=the server goes on accepting for 10 s'`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return runAudit(flags, command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	f := command.Flags()
	f.StringArrayVarP(&flags.files, "filename", "f", nil, "file, folder, or - for standard input; may be repeated")
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
	if len(flags.files) == 0 {
		return o, errors.New("audit: nothing to read: say -f FILE, -f DIR or -f - (standard input)")
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
	loaded, err := loadManifests(flags.files, in)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for _, note := range loaded.notes {
		fmt.Fprintln(errOut, "note:", note)
	}
	report := audit.Run(loaded.objects, loaded.problems, options)
	if flags.writeBaseline != "" {
		return writeBaseline(flags.writeBaseline, report, errOut)
	}
	if err := write(out, report); err != nil {
		return err
	}
	return auditVerdict(report, flags.failOn)
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
