package audit

import "fmt"

const ruleIgnoreUseless = "ignore-without-effect"

func readingRules() []Rule {
	return []Rule{
		{
			ID: "document-unreadable", Severity: Error, Title: "a document that cannot be read",
			Why: "The document is not YAML, or is beyond the limits within which it is read (16 MiB, 1,000,000 values with aliases put in, 64 deep). " +
				"It was left out, so nothing can be said about the objects in it; the other documents of the file were read.",
			Remedy: "Correct the document. A Helm template is audited as what it renders to: helm template ... | segue audit -f -.",
			check: func(inv *Inventory, r *reporter) {
				for _, p := range inv.Problems {
					*r.found = append(*r.found, Finding{ID: r.rule.ID, Severity: r.rule.Severity, Object: fmt.Sprintf("%s:%d", p.File, p.Line),
						Message: p.Message, Remedy: r.rule.Remedy, file: p.File, line: p.Line})
				}
			},
		},
		{
			ID: ruleIgnoreUseless, Severity: Warning, Title: "an ignore without a reason or for a rule that is not there",
			Why: "An ignore takes a finding out for everybody who comes later. Without a reason nobody can tell whether it still holds, so it is " +
				"not honoured; one that names no rule hides nothing and shows that a name was mistyped.",
			Remedy: "Write ID=reason, with an ID of docs/audit.md.",
			check: func(inv *Inventory, r *reporter) {
				for _, o := range inv.Objects {
					for _, i := range o.Ignores {
						if _, known := r.rules[i.ID]; !known {
							r.add(o, detail{message: fmt.Sprintf("the ignore names %q, which is not a rule", i.ID)})
						} else if i.Reason == "" {
							r.add(o, detail{message: fmt.Sprintf("the ignore of %s gives no reason and is not honoured", i.ID)})
						}
					}
				}
			},
		},
	}
}
