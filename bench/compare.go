package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// settings are what makes two results comparable: the same work. The device may be another one, or its driver.
type settings struct {
	model, kv, budget, kvType                 string
	chunk, depth, rows, prompt, tokens, slots int
}

func (r *Result) settings() settings {
	return settings{r.Model, r.KV, r.Budget, r.KVType, r.Chunk, r.Depth, r.Rows, r.Prompt, r.Tokens, r.BudgetSlots}
}

// Older are results of an earlier run.
type Older struct {
	path string
	by   map[settings]Result
}

const mostLine = 1 << 20 // bytes of a result

// ReadOlder reads the lines that --json printed. Of two with the same settings the later counts.
func ReadOlder(path string) (*Older, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bench: compare: %w", err)
	}
	defer f.Close()
	o := &Older{path: path, by: map[settings]Result{}}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, mostLine)
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var r Result
		err := json.Unmarshal(line, &r)
		if err == nil && r.Kind != "bench" {
			err = fmt.Errorf("kind %q, want %q", r.Kind, "bench")
		}
		if err != nil {
			return nil, fmt.Errorf("bench: compare: %s:%d is no result of bench --json: %w", path, number, err)
		}
		o.by[r.settings()] = r
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("bench: compare: %s: %w", path, err)
	}
	if len(o.by) == 0 {
		return nil, fmt.Errorf("bench: compare: %s holds no result", path)
	}
	return o, nil
}

// Compare puts the ratios to the older result of the same settings into a result, and gives that one; nil if there is none.
func (o *Older) Compare(r *Result) *Result {
	old, ok := o.by[r.settings()]
	if !ok {
		return nil
	}
	ratio := func(now, before *float64) *float64 {
		if now == nil || before == nil || !(*before > 0) {
			return nil
		}
		return of(*now / *before)
	}
	r.PromptRatio, r.DecodeRatio = ratio(r.PromptTPS, old.PromptTPS), ratio(r.DecodeTPS, old.DecodeTPS)
	return &old
}
