package eval

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

// table reads what WriteCSV wrote, as cells by name.
func table[T Perplexity | Recall | Accuracy](t *testing.T, results ...T) (names []string, rows []map[string]string) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteCSV(&b, results); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, cell := range line {
			row[lines[0][i]] = cell
		}
		rows = append(rows, row)
	}
	return lines[0], rows
}

func TestCSVHasTheFieldsOfTheJSON(t *testing.T) {
	p, r, a := some()
	p.Device = `a "device", with a comma`
	p.PPLAfterBudget, p.KL = nil, figure(0.125)
	check := func(names []string, result any) {
		var fields map[string]any
		b, err := json.Marshal(result)
		if err == nil {
			err = json.Unmarshal(b, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			if name != "buckets" && !slices.Contains(names, name) {
				t.Errorf("%T: no column %q in %q", result, name, names)
			}
		}
	}
	names, rows := table(t, p, p)
	check(names, p)
	if len(rows) != 2 || len(names) != len(rows[0]) {
		t.Fatalf("%d rows; columns %q", len(rows), names)
	}
	for name, want := range map[string]string{"kind": "ppl", "policy": "h2o:score=guide", "budget": "20%", "budget_slots": "7", "model_hash": "m1", "device": p.Device,
		"ppl": "12.25", "ppl_after_budget": "", "kl": "0.125", "complete": "true", "ppl_part_1": ""} {
		if got := rows[0][name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	p.Buckets = nil
	for i := range parts {
		p.Buckets = append(p.Buckets, Bucket{i, i + 1, float64(i) + 0.5})
	}
	if _, rows = table(t, p); rows[0]["ppl_part_1"] != "0.5" || rows[0]["ppl_part_8"] != "7.5" {
		t.Errorf("%v", rows[0])
	}
	names, rows = table(t, r)
	check(names, r)
	if rows[0]["found"] != "2" {
		t.Errorf("%v", rows[0])
	}
	names, rows = table(t, a)
	check(names, a)
	if rows[0]["accuracy"] != "0.25" {
		t.Errorf("%v", rows[0])
	}
	if names, rows = table[Recall](t); len(rows) > 0 || len(names) < 10 {
		t.Errorf("no results give the header %q and %v", names, rows)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestCSVReportsAFullDisk(t *testing.T) {
	if err := WriteCSV(full{}, []Recall{{}}); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
}
