package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The goldens are transformers' own; tests/reference/templates.py made them.
func TestTemplatesRenderAsTransformersDoes(t *testing.T) {
	var golden struct {
		BOS, EOS string
		Cases    []struct {
			Template            string
			Messages            []Message
			AddGenerationPrompt bool `json:"add_generation_prompt"`
			Text, Error         string
		}
	}
	folder := filepath.Join("testdata", "templates")
	data, err := os.ReadFile(filepath.Join(folder, "goldens.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, c := range golden.Cases {
		template, err := os.ReadFile(filepath.Join(folder, c.Template))
		if err != nil {
			t.Fatal(err)
		}
		got, err := render(string(template), c.Messages, golden.BOS, golden.EOS, c.AddGenerationPrompt)
		if c.Error != "" {
			refused++
			if err == nil || !strings.Contains(err.Error(), c.Error) || !strings.Contains(err.Error(), "--raw") {
				t.Errorf("%s of %v: %q, %v; want the error %q", c.Template, c.Messages, got, err, c.Error)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s of %v: %v", c.Template, c.Messages, err)
		} else if diff := cmp.Diff(c.Text, got); diff != "" {
			t.Errorf("%s of %v, want - got +:\n%s", c.Template, c.Messages, diff)
		}
	}
	if len(golden.Cases) < 20 || refused == 0 {
		t.Errorf("%d cases, %d of them refused: the goldens check too little", len(golden.Cases), refused)
	}
}

func TestTemplatesKnowTheDate(t *testing.T) {
	before := time.Now().Year()
	got, err := render("{{ strftime_now('%Y') }}", nil, "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Now(); got != want.Format("2006") && got != want.AddDate(before-want.Year(), 0, 0).Format("2006") {
		t.Errorf("got year %q", got)
	}
}

func TestABrokenTemplateIsAnError(t *testing.T) {
	for _, template := range []string{"{% for %}", "{{ messages[", "{% endif %}", "{{ range(1, 2, 0) }}"} {
		if got, err := render(template, []Message{{"user", "hi"}}, "", "", false); err == nil || !strings.HasPrefix(err.Error(), "template: ") {
			t.Errorf("%s: %q, %v", template, got, err)
		}
	}
}
