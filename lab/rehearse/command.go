package rehearse

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/scenario"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// commandOptions are the flags of segue-lab rehearse.
type commandOptions struct {
	output    string
	html      string
	mode      string
	fastClock bool
	segue     Installer
}

// NewCommand returns the command `rehearse`. It lives here and not beside the other commands of segue-lab so that it can
// be tested without linking a control plane.
func NewCommand(segue Installer) *cobra.Command {
	o := commandOptions{segue: segue}
	cmd := &cobra.Command{
		Use:   "rehearse FILE…",
		Short: "Play scenarios without and with Segue and compare",
		Long: `Plays every scenario on a control plane of its own, once as it is today (stock) and once with Segue (segue), sends real
requests meanwhile, and compares. Results go to stdout, progress to stderr.

Exit codes: 0 every expectation was met; 1 one was not; 2 a scenario could not be run, proved nothing (no load, no
disruption), or the command was used wrongly.`,
		Example: "  segue-lab rehearse lab/scenarios/*.txtar\n  segue-lab rehearse -o json --html report.html lab/scenarios/ci-consolidation.txtar",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			silenceClients()
			return o.run(cmd, files)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "table", "table or json (one document a scenario, one a line)")
	flags.StringVar(&o.html, "html", "", "also write the report as one self-contained HTML page to this file")
	flags.StringVar(&o.mode, "mode", "both", "stock, segue or both")
	flags.BoolVar(&o.fastClock, "fast-clock", false, "shorten Karpenter's waits; for quick tests, not for figures")
	return cmd
}

// silenceClients keeps the client libraries' own logs out of the progress: they report every connection that ends with a
// run, and what matters comes as an error.
var silenceClients = sync.OnceFunc(func() { // once: the libraries read the setting without a lock
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
})

func (o commandOptions) run(cmd *cobra.Command, files []string) error {
	modes, err := o.check()
	if err != nil {
		return err
	}
	scenarios, err := parseScenarios(files)
	if err != nil {
		return err
	}
	page, err := newPageFile(o.html)
	if err != nil {
		return err
	}
	defer page.discard()
	var docs []view.Rehearsal
	for _, s := range scenarios {
		doc, err := Run(cmd.Context(), s, Options{
			Modes: modes, FastClock: o.fastClock, Segue: o.segue, Progress: cmd.ErrOrStderr(),
		})
		if err != nil {
			return err
		}
		docs = append(docs, doc)
		if err := o.print(cmd.OutOrStdout(), doc, len(docs) > 1); err != nil {
			return err
		}
	}
	if err := page.write(docs); err != nil {
		return err
	}
	return verdict(docs)
}

// check finds what is wrong with the flags and returns the modes to run in.
func (o commandOptions) check() ([]view.Mode, error) {
	if o.output != "table" && o.output != "json" {
		return nil, fmt.Errorf("--output %q: choose table or json", o.output)
	}
	switch o.mode {
	case "both":
		return []view.Mode{view.ModeStock, view.ModeSegue}, nil
	case string(view.ModeStock), string(view.ModeSegue):
		return []view.Mode{view.Mode(o.mode)}, nil
	}
	return nil, fmt.Errorf("--mode %q: choose stock, segue or both", o.mode)
}

// parseScenarios reads all files before anything is started, so that a mistake in the last one is found at once.
func parseScenarios(files []string) ([]*scenario.Scenario, error) {
	var scenarios []*scenario.Scenario
	var errs []error
	for _, file := range files {
		s, err := scenario.ParseFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		scenarios = append(scenarios, s)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("nothing was started:\n%w", err)
	}
	return scenarios, nil
}

func (o commandOptions) print(w io.Writer, doc view.Rehearsal, again bool) error {
	if o.output == "json" {
		return view.JSON(w, doc)
	}
	if again {
		fmt.Fprintln(w)
	}
	return view.Text(w, []view.Rehearsal{doc}, view.TextOptions{Color: view.UseColor(w)})
}

// Exit codes of the command; any other error is a failure, which is 2 as well.
const (
	exitUnmet   = 1
	exitInvalid = 2
)

// verdictError carries the exit code of rehearsals that did not pass.
type verdictError struct {
	message string
	code    int
}

func (e *verdictError) Error() string { return e.message }

// ExitCode is 1 when an expectation was not met, 2 when a rehearsal proved nothing.
func (e *verdictError) ExitCode() int { return e.code }

func verdict(docs []view.Rehearsal) error {
	count := map[view.Verdict]int{}
	for _, doc := range docs {
		count[doc.Verdict]++
	}
	switch {
	case count[view.VerdictInvalid] > 0:
		return &verdictError{fmt.Sprintf("%d of %d rehearsals proved nothing", count[view.VerdictInvalid], len(docs)), exitInvalid}
	case count[view.VerdictFail] > 0:
		return &verdictError{fmt.Sprintf("%d of %d rehearsals did not meet their expectations", count[view.VerdictFail], len(docs)), exitUnmet}
	}
	return nil
}

// pageFile is the HTML report. It is made before the first run, so that a wrong path is found at once, and takes its
// name only when it is complete, so that a failed run leaves an older report alone.
type pageFile struct {
	path string
	file *os.File // nil when no page was asked for, or it is done
}

func newPageFile(path string) (*pageFile, error) {
	if path == "" {
		return &pageFile{}, nil
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".segue-rehearsal-*.html")
	if err != nil {
		return nil, fmt.Errorf("write the report %s: %w", path, err)
	}
	return &pageFile{path: path, file: file}, nil
}

func (p *pageFile) write(docs []view.Rehearsal) error {
	if p.file == nil {
		return nil
	}
	name := p.file.Name()
	err := errors.Join(view.HTML(p.file, docs), p.file.Chmod(0o644), p.file.Close())
	if err == nil {
		err = os.Rename(name, p.path)
	}
	if err != nil {
		return fmt.Errorf("write the report %s: %w", p.path, err)
	}
	p.file = nil
	return nil
}

// discard removes the file unless it was written.
func (p *pageFile) discard() {
	if p.file == nil {
		return
	}
	p.file.Close()
	os.Remove(p.file.Name())
}
