package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/replay"
)

// pieces is what tokens stand for.
func pieces(t *testing.T, tokens []int32) string {
	t.Helper()
	f, err := gguf.Parse(builtin.Model)
	if err != nil {
		t.Fatal(err)
	}
	texts, _, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, id := range tokens {
		b.WriteString(strings.NewReplacer("Ġ", " ", "Ċ", "\n").Replace(texts[id]))
	}
	return b.String()
}

func checkLogits(t *testing.T, path string, r runJSON) {
	t.Helper()
	rows, columns, values := readNPY(t, path)
	if rows != r.KV.Seen || columns != 1024 {
		t.Errorf("logits (%d, %d), want (%d, 1024)", rows, columns, r.KV.Seen)
		return
	}
	if hash := hashLogits(values[(rows-1)*columns:]); hash != r.LogitsHash {
		t.Errorf("the last row's hash is %s, the report says %s", hash, r.LogitsHash)
	}
	if hash := hashLogits(values[(rows-2)*columns : (rows-1)*columns]); hash == r.LogitsHash {
		t.Error("the row before has the same hash")
	}
	for i := range r.Tokens { // greedy: each is the argmax of the row before it
		row := values[(rows-len(r.Tokens)+i)*columns:][:columns]
		if r.Tokens[i] != int32(slices.Index(row, slices.Max(row))) {
			t.Errorf("new token %d is %d, not the argmax of its row", i, r.Tokens[i])
		}
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func checkState(t *testing.T, path string, r runJSON) {
	t.Helper()
	var s h2o.State
	readJSON(t, path, &s)
	evicted, kept := 0, 0
	for _, l := range s.Layers {
		if len(l.Heads) != 2 {
			t.Errorf("%d KV heads, want 2", len(l.Heads))
		}
		for _, h := range l.Heads {
			evicted, kept = evicted+h.Evicted, max(kept, len(h.Positions))
			if len(h.Positions) != len(h.Scores) || !slices.IsSorted(h.Positions) || h.Positions[len(h.Positions)-1] != uint32(r.KV.Seen-1) {
				t.Errorf("positions %v, scores %v", h.Positions, h.Scores)
			}
			if len(h.Positions)+h.Evicted != r.KV.Seen {
				t.Errorf("%d live and %d evicted, %d seen", len(h.Positions), h.Evicted, r.KV.Seen)
			}
		}
	}
	if len(s.Layers) != 3 || kept != r.KV.Kept || evicted != r.KV.Evicted {
		t.Errorf("%d layers, %d kept, %d evicted; the report says %+v", len(s.Layers), kept, evicted, r.KV)
	}
}

// evictionsOf is a log between its header and its end.
func evictionsOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header, rest, _ := strings.Cut(string(b), "\n")
	evictions, end := rest[:max(0, strings.LastIndex(strings.TrimSuffix(rest, "\n"), "\n")+1)], rest
	end = strings.TrimPrefix(end, evictions)
	if !strings.HasPrefix(header, `{"kind":"run",`) || !strings.HasPrefix(end, `{"kind":"end",`) || !strings.HasSuffix(end, "\n") {
		t.Fatalf("%s begins with %q and ends with %q", path, header, end)
	}
	return evictions
}

// readLog checks an eviction log against the report and returns it.
func readLog(t *testing.T, path string, r runJSON) string {
	t.Helper()
	log, err := replay.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if h, end := log.Header, log.End; !slices.Equal(h.Prompt, r.PromptTokens) || !slices.Equal(end.Tokens, r.Tokens) || end.Seen != r.KV.Seen || end.Evictions != r.KV.Evicted ||
		string(end.Stop) != r.StopReason || h.Model.Path != r.Model || h.Device.Name != r.Device || h.KV.Policy.String() != r.KV.Policy {
		t.Errorf("header %+v, end %+v, report %+v", h, end, r)
	}
	evictions := evictionsOf(t, path)
	all := append(slices.Clone(r.PromptTokens), r.Tokens...)
	lines, step := 0, 0
	for line := range strings.Lines(evictions) {
		var e h2o.Eviction
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if e.Step < step || e.Step > r.KV.Seen || int(e.Position) >= e.Step || e.Token != all[e.Position] || e.Reason != "budget" || e.Layer > 2 || e.Head > 1 {
			t.Errorf("after step %d: %+v", step, e)
		}
		lines, step = lines+1, e.Step
	}
	if lines != r.KV.Evicted {
		t.Errorf("%d lines, %d evictions reported", lines, r.KV.Evicted)
	}
	return evictions
}
