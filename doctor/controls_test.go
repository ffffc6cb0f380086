package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/tests/drivers"
)

// A check that passes whatever the reference says checks nothing: each fails when its part of it is forged.
func TestForgedReferencesAreFound(t *testing.T) {
	x := examOf(t, drivers.First(t))
	p, err := x.admit(x.Tuning)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	right := x.reference
	forged := func(t *testing.T, forge func(r *reference)) *reference {
		t.Helper()
		r, err := parseReference(referenceJSON)
		if err != nil {
			t.Fatal(err)
		}
		forge(r)
		return r
	}
	logits := func(types string, chunk int) func(context.Context, *reference) (finding, error) {
		return func(ctx context.Context, r *reference) (finding, error) { return p.logits(ctx, r, types, chunk) }
	}
	policy := func(i int, find func(context.Context, *reference, *policyRun) (finding, error)) func(context.Context, *reference) (finding, error) {
		return func(ctx context.Context, r *reference) (finding, error) { return find(ctx, r, &r.Policies[i]) }
	}
	for _, c := range []struct {
		name  string
		find  func(context.Context, *reference) (finding, error)
		forge func(r *reference)
	}{
		{"a logit", logits("f32", 32), func(r *reference) { r.Logits["f32"][2048] += 0.1 }},
		{"a token of the prompt", logits("f16", 1), func(r *reference) { r.IDs[3]++ }},
		{"another position", logits("f32", 32), func(r *reference) { r.Positions[2]++ }},
		{"no rounding to f16", logits("f16", 1), func(r *reference) { r.Logits["f16"] = right.Logits["f32"] }},
		{"no rounding to q8_0", logits("q8_0", 32), func(r *reference) { r.Logits["q8_0"] = right.Logits["f32"] }},
		{"no rounding to q4_0", logits("q4_0", 32), func(r *reference) { r.Logits["q4_0"] = right.Logits["f32"] }},
		{"a missing row", logits("f32", 32), func(r *reference) { r.Logits["f32"] = r.Logits["f32"][1:] }},
		{"a token that is told one by one", func(ctx context.Context, r *reference) (finding, error) { return p.mixed(ctx, r, "f16") }, func(r *reference) { r.Logits["f16"][3*1024] += 0.1 }},
		{"a score", policy(0, p.scores), func(r *reference) { r.Policies[0].Kept[1][1].Scores[5] *= 1.001 }},
		{"a kept token", policy(2, p.scores), func(r *reference) { r.Policies[2].Kept[0][0].Positions[0]++ }},
		{"no scores", policy(0, p.scores), func(r *reference) { r.Policies[0].Kept = nil }},
		{"a victim", policy(0, p.victims), func(r *reference) { r.Policies[0].Victims[7][1][0][0]++ }},
		{"a step without victims", policy(1, p.victims), func(r *reference) { r.Policies[1].LastPositions[0]-- }},
		{"a step too few", policy(2, p.victims), func(r *reference) {
			r.Policies[2].LastPositions = r.Policies[2].LastPositions[:5]
		}},
		{"another policy", policy(2, p.victims), func(r *reference) { r.Policies[2].Policy = r.Policies[0].Policy }},
		{"scores too close to tell", policy(3, p.victims), func(r *reference) { r.Policies[3].Gap = 1e-6 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if f, err := c.find(t.Context(), right); err != nil || !f.passes() {
				t.Errorf("with the right reference: %+v, %v", f, err)
			}
			if f, err := c.find(t.Context(), forged(t, c.forge)); err == nil && f.passes() {
				t.Errorf("with a forged one: %+v passes", f)
			}
		})
	}
}

// A reference of another model than the one inside tells nothing of a device.
func TestTheReferenceIsOfTheModelInside(t *testing.T) {
	r, err := parseReference(referenceJSON)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(builtin.Model); hex.EncodeToString(sum[:]) != r.SHA256 {
		t.Errorf("the reference is of a model with SHA-256 %s, inside is %x; make golden", r.SHA256, sum)
	}
	if last := r.Positions[len(r.Positions)-1]; last != len(r.IDs)-1 || r.Positions[1] != referenceChunk-1 {
		t.Errorf("positions %v of %d tokens, want the border of a chunk of %d, and the last", r.Positions, len(r.IDs), referenceChunk)
	}
	if _, err := parseReference([]byte(`{"logits": {"f32": "AAA="}}`)); err == nil {
		t.Error("two bytes are read as f32 values")
	}
}

// Heads that hold something else than they should are counted, whatever it is.
func TestDifferentHeadsAreCounted(t *testing.T) {
	state := func() *h2o.State {
		return &h2o.State{Layers: []h2o.LayerState{{Heads: []h2o.HeadState{{Positions: []uint32{1, 2}, Scores: []float32{3, 4}, Evicted: 5}, {}}}}}
	}
	for name, change := range map[string]func(h *h2o.HeadState){
		"a position":  func(h *h2o.HeadState) { h.Positions[1]++ },
		"a token":     func(h *h2o.HeadState) { h.Positions = append(h.Positions, 9) },
		"a score":     func(h *h2o.HeadState) { h.Scores[0] = 3.0000002 },
		"an eviction": func(h *h2o.HeadState) { h.Evicted++ },
	} {
		other := state()
		change(&other.Layers[0].Heads[0])
		if n := differentHeads(state(), other); n != 1 {
			t.Errorf("%s: %d heads differ, want 1", name, n)
		}
	}
	if n := differentHeads(state(), state()); n != 0 {
		t.Errorf("%d heads of equal states differ", n)
	}
}

// A decode that does not stop at the end token has processed what came after it.
func TestStepsAfterAnEndTokenWouldBeSeen(t *testing.T) {
	x := examOf(t, drivers.First(t))
	p, err := x.admit(x.Tuning)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	run := &x.reference.Policies[0]
	tokens, want, _, err := p.generate(t.Context(), x.reference, run, p.file, doneTokens, true)
	if err != nil {
		t.Fatal(err)
	}
	more, state, reason, err := p.generate(t.Context(), x.reference, run, p.file, doneTokens+1, true)
	if err != nil {
		t.Fatal(err)
	}
	if differentHeads(want, state) == 0 || !slices.Equal(more[:doneTokens], tokens) || reason == model.StopEnd {
		t.Errorf("%d tokens and one more leave the same cache, or others: %v, %v", doneTokens, tokens, more)
	}
}

// Of many dispatches two that changed places leave wrong words.
func TestDispatchesOutOfOrderWouldBeSeen(t *testing.T) {
	x := examOf(t, drivers.First(t))
	p, err := x.admit(x.Tuning)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	swapped := func(i int) uint32 {
		if i == manyDispatches-2 || i == manyDispatches-1 {
			return uint32(2*manyDispatches - 3 - i)
		}
		return uint32(i)
	}
	if f, err := p.overwrite(t.Context(), swapped); err != nil || f.passes() || f.error > 3*64 {
		t.Errorf("the last two in turn: %+v, %v; want the words of three pieces wrong", f, err)
	}
}

func TestWrongBytesAreCounted(t *testing.T) {
	a := noise(1, 1000)
	b := slices.Clone(a)
	if n := different(a, b); n != 0 {
		t.Errorf("%d bytes differ, want none", n)
	}
	b[0], b[999] = b[0]^1, b[999]^128
	if n := different(a, b); n != 2 {
		t.Errorf("%d bytes differ, want 2", n)
	}
	if n := different(a, noise(2, 1000)); n < 900 {
		t.Errorf("two noises differ in %d bytes of 1000", n)
	}
}
