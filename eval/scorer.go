package eval

import (
	"context"
	"fmt"
	"math"

	"vkdecode/h2o"
)

// Subject is a model under judgement.
type Subject interface {
	// Begin are the tokens that stand before every text: BOS, where the model wants one.
	Begin() []int32
	// Encode gives the tokens of a piece of text, in which nothing is a special token.
	Encode(text string) []int32
	// Setting is what the settings of a cache come to for texts of up to so many tokens, all of which come as a prompt.
	Setting(kv h2o.Settings, tokens int) (Setting, error)
	// Open makes a scorer with such a cache.
	Open(ctx context.Context, kv h2o.Settings, tokens int) (Scorer, error)
}

// Scorer says how a model goes on after a prompt, with one cache.
type Scorer interface {
	// Score processes the prompt in an empty cache and looks at every continuation from the state that it left. Nothing
	// of an earlier call counts.
	Score(ctx context.Context, p Prompt, continuations [][]int32) ([]Continuation, error)
	Held() int64 // bytes of K and V on the device
	Close()
}

// Prompt is what stands before a continuation, in two parts. The second begins a new chunk, so that the result does not
// depend on whether the first, which many prompts share, was processed anew or kept.
type Prompt struct{ Shared, Own []int32 }

// Tokens is the length of the prompt.
func (p Prompt) Tokens() int { return len(p.Shared) + len(p.Own) }

// Continuation is what a model makes of a text that follows a prompt.
type Continuation struct {
	LogProb float64 // of the text, the sum over its tokens, in nats
	Greedy  bool    // each token was the likeliest one: greedy decoding gives this text
}

// add counts one more token of the continuation, foretold by logits (vocabulary).
func (c *Continuation) add(logits []float32, token int32) error {
	p, best, err := logProb(logits, token)
	c.LogProb += p
	c.Greedy = c.Greedy && best
	return err
}

// logProb is the log-probability of a token, and whether no other is likelier; of equal logits the lowest id counts as
// the likeliest, as in greedy decoding.
func logProb(logits []float32, token int32) (logProb float64, best bool, err error) {
	if token < 0 || int(token) >= len(logits) {
		return 0, false, fmt.Errorf("eval: token %d, want one of the vocabulary's %d", token, len(logits))
	}
	top := 0
	for id, l := range logits {
		if x := float64(l); math.IsNaN(x) || math.IsInf(x, 1) {
			return 0, false, fmt.Errorf("eval: logit of token %d is %v, want a finite number; the weights or a kernel are broken", id, x)
		}
		if l > logits[top] {
			top = id
		}
	}
	peak, sum := float64(logits[top]), 0.0
	if math.IsInf(peak, -1) {
		return 0, false, fmt.Errorf("eval: none of %d logits is finite", len(logits))
	}
	for _, l := range logits {
		sum += math.Exp(float64(l) - peak)
	}
	return float64(logits[token]) - peak - math.Log(sum), top == int(token), nil
}
