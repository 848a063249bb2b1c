package audit

import (
	"slices"
	"strings"

	"github.com/segue-dev/segue/internal/audit/schemas"
)

// Rule is one kind of thing that hurts: what it is called, why it matters, what to do, and how it is found.
type Rule struct {
	// ID is stable: it stands in baselines and in ignore comments.
	ID       string
	Severity Severity
	// Title is half a sentence, for tables.
	Title string
	// Why says what happens and how the engines come to do it; Markdown, for the rule's page.
	Why string
	// Remedy says what to change; a finding may say it with the object's own names and numbers.
	Remedy string

	// check looks at manifests by themselves, change at old and new ones, compare at two environments; a rule has one of the three.
	check   func(*Inventory, *reporter)
	change  func(changes, *reporter)
	compare func(comparison, *reporter)
}

// Rules returns all rules, sorted by ID.
func Rules() []Rule {
	all := slices.Concat(readingRules(), writtenRules(), budgetRules(), workloadRules(), probeRules(), drainRules(), poolRules(), placementRules(), agentRules(), scalingRules(), chartRules(), changeRules(), compareRules())
	slices.SortFunc(all, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Lookup returns the rule with an ID, or nil.
func Lookup(id string) *Rule {
	for _, r := range Rules() {
		if r.ID == id {
			return &r
		}
	}
	return nil
}

// Options say what a run looks at and what it leaves out.
type Options struct {
	// Schemas are the kinds whose fields are known; nil leaves out what needs them.
	Schemas *schemas.Set
	// Ignore takes the findings of rules out everywhere.
	Ignore []Ignore
	// Baseline holds findings that were there before; nil has none.
	Baseline *Baseline
	// Severity leaves out what is less bad; "" shows all.
	Severity Severity
}

// Report is the result of a run.
type Report struct {
	// Findings are sorted by object, the worst first.
	Findings []Finding
	// Objects is how many objects were looked at.
	Objects int
	// Ignored is how many findings were taken out by an ignore, with a reason.
	Ignored int
	// Known is how many were taken out because the baseline has them.
	Known int
}

// Worst returns the worst severity among the findings, and "" when there are none.
func (r Report) Worst() Severity {
	worst := Severity("")
	for _, f := range r.Findings {
		if worst == "" || f.Severity.AtLeast(worst) {
			worst = f.Severity
		}
	}
	return worst
}

// Run checks objects, and documents that could not be read, against every rule.
func Run(objects []*Object, problems []Problem, o Options) Report {
	inventory := newInventory(objects, problems, o.Schemas)
	var found []Finding
	rules := Rules()
	byID := make(map[string]Rule, len(rules))
	for _, rule := range rules {
		byID[rule.ID] = rule
	}
	for _, rule := range rules {
		if rule.check == nil {
			continue
		}
		rule.check(inventory, &reporter{rule: rule, rules: byID, found: &found})
	}
	return report(found, len(objects), o)
}

// report sorts findings and takes out what is ignored, known or not asked for.
func report(found []Finding, objects int, o Options) Report {
	slices.SortStableFunc(found, order)
	report := Report{Objects: objects}
	var last string
	for _, f := range found {
		file := ""
		if f.source != nil {
			file = f.source.File()
		}
		key := f.key() + f.Message + file
		switch {
		case key == last: // the same object twice in one file
		case ignored(f, o.Ignore):
			report.Ignored++
		case o.Baseline.has(f):
			report.Known++
		case o.Severity == "" || f.Severity.AtLeast(o.Severity):
			report.Findings = append(report.Findings, f)
		}
		last = key
	}
	return report
}

// reporter collects the findings of one rule.
type reporter struct {
	rule  Rule
	rules map[string]Rule // by ID, for a check that finds for several rules in one pass
	found *[]Finding
}

// detail is what a finding says beyond its rule. Empty Severity and Remedy are the rule's.
type detail struct {
	path, message, effective, remedy string
	severity                         Severity
}

func (r *reporter) add(o *Object, d detail) {
	f := Finding{ID: r.rule.ID, Severity: r.rule.Severity, Object: o.ID(), Path: d.path, Message: d.message, Effective: d.effective, Remedy: r.rule.Remedy, source: o}
	if d.severity != "" {
		f.Severity = d.severity
	}
	if d.remedy != "" {
		f.Remedy = d.remedy
	}
	*r.found = append(*r.found, f)
}
