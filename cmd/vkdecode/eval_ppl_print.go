package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"vkdecode/eval"
	"vkdecode/eval/report"
)

// report prints the tables, unless JSON was printed as it came, and completes the files of --csv and --report.
func (p *perplexities) report() error {
	var all []eval.Perplexity
	for _, group := range p.groups {
		all = append(all, group...)
	}
	err := errors.Join(writeCSV(p.evaluation, all), p.writePage(report.Results{Perplexity: all}))
	if len(all) == 0 || p.json {
		return err
	}
	r := all[0]
	begin := "no BOS"
	if r.BOS {
		begin = "BOS first"
	}
	fmt.Fprintf(p.stdout, "%s on %s; K and V in %s, chunks of %d%s, %s\n", r.Model, r.Device, r.KVType, r.Chunk, inPrecision(r.Precision), begin)
	for _, group := range p.groups {
		if len(group) > 0 {
			fmt.Fprintf(p.stdout, "\n%s\n\n", heading(group))
			if failed := perplexityTable(group).print(p.stdout, p.markdown); err == nil {
				err = failed
			}
		}
	}
	// By position: of all segments together, or of the only one.
	if last := p.groups[len(p.groups)-1]; len(last) > 0 && len(last[0].Buckets) > 0 {
		fmt.Fprint(p.stdout, "\nperplexity by position\n\n")
		if failed := positionTable(last).print(p.stdout, p.markdown); err == nil {
			err = failed
		}
	}
	return err
}

// heading says what a table's results are of.
func heading(group []eval.Perplexity) string {
	r := group[0]
	if r.Segments > 1 {
		return fmt.Sprintf("%s: %d segments together, %d tokens", r.Text, r.Segments, r.Tokens)
	}
	return fmt.Sprintf("%s from byte %d, %d tokens", r.Text, r.Offset, r.Tokens)
}

func perplexityTable(group []eval.Perplexity) *table {
	t := &table{left: 2, header: []string{"policy", "budget", "slots", "ppl", "vs full", "after budget", "last half"}}
	diverges := group[0].KL != nil
	if diverges {
		t.header = append(t.header, "KL")
	}
	t.header = append(t.header, "K and V", "of full", "tok/s")
	whole := group[0].Tokens
	for _, r := range group {
		whole = max(whole, r.Tokens)
	}
	for _, r := range group {
		after := "-"
		if r.PPLAfterBudget != nil {
			after = significant(*r.PPLAfterBudget)
		}
		row := []string{r.Policy, r.Budget, strconv.Itoa(r.BudgetSlots), significant(r.PPL), against(r, group), after, significant(r.PPLLastHalf)}
		if diverges {
			kl := "-"
			if r.KL != nil {
				kl = fmt.Sprintf("%.4f", *r.KL)
			}
			row = append(row, kl)
		}
		t.add(append(row, binarySize(r.BytesHeld), fmt.Sprintf("%.1f%%", 100*float64(r.BytesHeld)/float64(r.BytesFull)), fmt.Sprintf("%.1f", r.TPS))...)
		if !r.Complete {
			t.notes = append(t.notes, fmt.Sprintf("%s %s was interrupted: its figures are of the first %d tokens.", r.Policy, r.Budget, r.Tokens))
		}
	}
	return t
}

// against is how much worse than full a result is, if full was evaluated on the same tokens.
func against(r eval.Perplexity, group []eval.Perplexity) string {
	for _, f := range group {
		if name, _, _ := strings.Cut(f.Policy, ":"); name == "full" && f.Tokens == r.Tokens && r.Policy != f.Policy {
			return strings.Replace(fmt.Sprintf("%+.2f%%", 100*(r.PPL/f.PPL-1)), "-0.00", "+0.00", 1)
		}
	}
	return "-"
}

func positionTable(group []eval.Perplexity) *table {
	t := &table{left: 2, header: []string{"policy", "budget"}}
	for _, b := range group[0].Buckets {
		t.header = append(t.header, fmt.Sprintf("%d to %d", b.Begin, b.End-1))
	}
	for _, r := range group {
		row := []string{r.Policy, r.Budget}
		for i, b := range group[0].Buckets {
			if i >= len(r.Buckets) || r.Buckets[i].Begin != b.Begin || r.Buckets[i].End != b.End {
				row = append(row, "-")
				continue
			}
			row = append(row, significant(r.Buckets[i].PPL))
		}
		t.add(row...)
	}
	return t
}

// significant writes a perplexity: three decimals where it is small, as differences of policies are, fewer where it is not.
func significant(v float64) string {
	switch {
	case v < 100:
		return fmt.Sprintf("%.3f", v)
	case v < 1e6:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
