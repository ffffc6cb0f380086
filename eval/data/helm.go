package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// readHELM reads an instance as HELM writes it: a row of instances.json, or the instance within a row of
// scenario_state.json, where a question may come several times: with each reference in turn, or with other examples
// before it.
func readHELM(f fields) (q Question, kind use, err error) {
	if f.has("instance") {
		for _, turn := range []string{"train_trial_index", "reference_index"} {
			if v := string(f[turn]); v != "" && v != "null" && v != "0" {
				return q, skipped, nil
			}
		}
		if f, err = f.object("instance"); err != nil {
			return q, asked, err
		}
	}
	if f.has("perturbation") && string(f["perturbation"]) != "null" {
		return q, skipped, nil // a copy with typing errors or the like
	}
	if q.Text, err = f.said("input"); err != nil {
		return q, asked, err
	}
	references, err := f.objects("references")
	if err != nil {
		return q, asked, err
	}
	for i, r := range references {
		option, err := r.said("output")
		if err != nil {
			return q, asked, fmt.Errorf("reference %d: %w", i, err)
		}
		tags, err := r.texts("tags")
		if err != nil {
			return q, asked, fmt.Errorf("reference %d: %w", i, err)
		}
		q.Options, q.Right = append(q.Options, option), append(q.Right, slices.Contains(tags, "correct"))
	}
	if len(references) == 1 {
		return q, asked, errors.New("one reference, want at least two: the question is not multiple choice")
	}
	split, err := f.optional("split")
	if split == "train" {
		kind = shown
	}
	return q, kind, err
}

// said reads a text of HELM: {"text": …}, or the text itself in files of before 2023.
func (f fields) said(name string) (string, error) {
	if kind(f[name]) == "string" {
		return f.text(name)
	}
	inner, err := f.object(name)
	if err != nil {
		return "", err
	}
	text := ""
	if err := json.Unmarshal(inner["text"], &text); err != nil {
		return "", fmt.Errorf("field %q has no text", name)
	}
	return strings.TrimSpace(text), nil
}
