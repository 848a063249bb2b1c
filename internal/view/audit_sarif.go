package view

import (
	"io"
	"path"
	"strings"

	"github.com/segue-dev/segue/internal/audit"
)

const auditDocs = "https://github.com/segue-dev/segue/blob/main/docs/findings/"

// The parts of SARIF 2.1.0 that an audit fills. Written out here because the libraries for it bring a JSON schema validator into
// every binary that writes one.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
		FullDescription  sarifMessage `json:"fullDescription"`
		Help             sarifMessage `json:"help"`
		HelpURI          string       `json:"helpUri"`
		Default          sarifLevel   `json:"defaultConfiguration"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifMessage      `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
	}
)

// sarifLevels are SARIF's three levels for the four severities.
var sarifLevels = map[audit.Severity]string{audit.Critical: "error", audit.Error: "error", audit.Warning: "warning", audit.Info: "note"}

// AuditSARIF writes a report as SARIF 2.1.0, the form that code reviews show beside the lines. All rules are listed, since a
// viewer needs them to tell which finding of an earlier run is gone.
func AuditSARIF(w io.Writer, r audit.Report) error {
	driver := sarifDriver{Name: "segue audit", InformationURI: "https://github.com/segue-dev/segue", Rules: []sarifRule{}}
	index := map[string]int{}
	for i, rule := range audit.Rules() {
		index[rule.ID] = i
		driver.Rules = append(driver.Rules, sarifRule{
			ID: rule.ID, ShortDescription: sarifMessage{rule.Title}, FullDescription: sarifMessage{rule.Why}, Help: sarifMessage{rule.Remedy},
			HelpURI: auditDocs + rule.ID + ".md", Default: sarifLevel{sarifLevels[rule.Severity]},
		})
	}
	run := sarifRun{Tool: sarifTool{driver}, Results: []sarifResult{}}
	var places audit.Locator
	for _, f := range r.Findings {
		run.Results = append(run.Results, sarifResult{
			RuleID: f.ID, RuleIndex: index[f.ID], Level: sarifLevels[f.Severity], Message: sarifMessage{sarifText(f)},
			Locations: []sarifLocation{sarifPlace(&places, f)}, Fingerprints: map[string]string{"segue/v1": strings.Join([]string{f.ID, f.Object, f.Path}, " ")},
		})
	}
	return auditEncode(w, sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}, "  ")
}

func sarifPlace(places *audit.Locator, f audit.Finding) sarifLocation {
	file, line := places.Position(f)
	place := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{sarifURI(file)}}, Logical: []sarifLogical{{f.Object}}}
	if line > 0 {
		place.Physical.Region = &sarifRegion{line}
	}
	return place
}

func sarifText(f audit.Finding) string {
	text := f.Object + ": " + f.Message + "."
	if f.Effective != "" {
		text += " In force: " + f.Effective + "."
	}
	return text + " Remedy: " + f.Remedy
}

// sarifURI names a file relative to where the audit ran; standard input has no file.
func sarifURI(file string) string {
	if file == "-" {
		return "stdin"
	}
	return strings.ReplaceAll(path.Clean(file), " ", "%20")
}
