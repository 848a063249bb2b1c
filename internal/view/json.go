package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// JSON writes doc as one document on one line, the form of `-o json`. Lists that are part of the format are written as
// [] when they are empty, never as null. It fails on a number that JSON cannot hold (NaN, infinity) and when w fails.
func JSON(w io.Writer, doc Rehearsal) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(complete(doc)); err != nil {
		return fmt.Errorf("encode rehearsal %q: %w", doc.Scenario, err)
	}
	if _, err := w.Write(line.Bytes()); err != nil {
		return fmt.Errorf("write rehearsal %q: %w", doc.Scenario, err)
	}
	return nil
}

// complete returns a copy of doc with its schema set and without nil lists among the required ones.
func complete(doc Rehearsal) Rehearsal {
	if doc.Schema == "" {
		doc.Schema = RehearsalSchema
	}
	runs := make([]Run, len(doc.Runs))
	for i, r := range doc.Runs {
		r.Events = orEmpty(r.Events)
		r.Timeline.Nodes = orEmpty(r.Timeline.Nodes)
		r.Timeline.Services = orEmpty(r.Timeline.Services)
		r.Timeline.Failures = orEmpty(r.Timeline.Failures)
		r.Timeline.Steps = orEmpty(r.Timeline.Steps)
		runs[i] = r
	}
	doc.Runs = runs
	return doc
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// ReadJSON reads the documents that JSON wrote, until the end of r. It fails on anything that is not a rehearsal of this
// schema and says which document of the input it was.
func ReadJSON(r io.Reader) ([]Rehearsal, error) {
	var docs []Rehearsal
	dec := json.NewDecoder(r)
	for {
		var doc Rehearsal
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read rehearsal document %d: %w", len(docs)+1, err)
		}
		if doc.Schema != RehearsalSchema {
			return nil, fmt.Errorf("read rehearsal document %d: schema is %q, not %q; is this the output of `segue-lab rehearse -o json`?",
				len(docs)+1, doc.Schema, RehearsalSchema)
		}
		docs = append(docs, doc)
	}
}
