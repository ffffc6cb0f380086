package eval

import (
	"context"
	"fmt"
	"math/rand/v2"

	"vkdecode/h2o"
)

// NeedleOptions are what Needle judges, and on what.
type NeedleOptions struct {
	Model, Device string         // names, for the results
	Origin        Origin         // of the model and the haystack
	Text, Name    string         // the haystack and what it is called
	Settings      []h2o.Settings // the policies and budgets
	Contexts      []int          // tokens of haystack, needle and question
	Depths        []float64      // where the needle is: 0 before everything, 1 just before the question
	Needles       int            // for each setting, context and depth
	Seed          uint64
	Control       bool                  // leave the needle out: what is found then is found by chance
	Done          func(Recall) bool     // tells whether a result, whose figures are still 0, is known already; may be nil
	Progress      func(done, total int) // prompts; may be nil
}

// Needle hides sentences in a text and asks for them when the text has been read and the cache cut down to its budget. A
// needle counts as found if each token of its number is the likeliest one, as it would be in greedy decoding. All
// settings get the same prompts. emit gets a result for each setting, context and depth, in this order; when ctx ends,
// also the one that is not complete.
func Needle(ctx context.Context, s Subject, o NeedleOptions, emit func(Recall) error) error {
	n := &needles{NeedleOptions: o, subject: s}
	if err := n.check(); err != nil {
		return err
	}
	for _, kv := range o.Settings {
		for _, tokens := range o.Contexts {
			if err := n.judge(ctx, kv, tokens, emit); err != nil {
				return err
			}
		}
	}
	return nil
}

// needles is a run of Needle.
type needles struct {
	NeedleOptions
	subject  Subject
	haystack haystack
	longest  int // tokens of the longest answer
	done     int // prompts
}

// check refuses what cannot be judged, before anything is opened.
func (n *needles) check() (err error) {
	if n.haystack, err = newHaystack(n.Text, n.subject.Encode); err != nil {
		return err
	}
	if n.Needles < 1 || len(n.Settings) == 0 || len(n.Contexts) == 0 || len(n.Depths) == 0 {
		return fmt.Errorf("eval: needle: %d needles, %d settings, %d contexts, %d depths; want at least one of each", n.Needles, len(n.Settings), len(n.Contexts), len(n.Depths))
	}
	for _, depth := range n.Depths {
		if !(depth >= 0 && depth <= 1) {
			return fmt.Errorf("eval: needle: depth %g, want 0 to 1", depth)
		}
	}
	least := 0
	for i := range min(n.Needles, len(subjects)) {
		needle := newNeedle(n.Seed, i)
		answer := n.subject.Encode(needle.answer)
		if len(answer) == 0 {
			return fmt.Errorf("eval: needle: the model has no token for %q", needle.answer)
		}
		n.longest = max(n.longest, len(answer))
		least = max(least, 1+len(n.subject.Begin())+len(n.subject.Encode(needle.sentence))+len(n.subject.Encode(needle.question)))
	}
	// Further numbers may take more tokens: bytes are the bound.
	n.longest = max(n.longest, len(" 0000"))
	for _, tokens := range n.Contexts {
		if tokens < least {
			return fmt.Errorf("eval: needle: context of %d tokens, want at least %d: so many take the needle and the question", tokens, least)
		}
	}
	return nil
}

// judge measures a setting at one context, at all depths.
func (n *needles) judge(ctx context.Context, kv h2o.Settings, tokens int, emit func(Recall) error) (err error) {
	length := tokens + n.longest
	result := Recall{Kind: "needle", Origin: n.Origin, Model: n.Model, Device: n.Device, Text: n.Name, Context: tokens, Seed: n.Seed, Control: n.Control, Template: needleTemplate}
	if result.Setting, err = n.subject.Setting(kv, length); err != nil {
		return err
	}
	var scorer Scorer
	for _, depth := range n.Depths {
		result := result
		result.Depth = depth
		if n.Done != nil && n.Done(result) {
			n.progress(n.Needles)
			continue
		}
		if scorer == nil {
			if scorer, err = n.subject.Open(kv, length); err != nil {
				return err
			}
			defer scorer.Close()
			result.BytesHeld = scorer.Held()
		}
		err := n.recall(ctx, scorer, &result)
		if err == nil || ctx.Err() != nil && result.Needles > 0 {
			result.BytesHeld = scorer.Held()
			if e := emit(result); e != nil {
				return e
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recall looks for all needles at one depth.
func (n *needles) recall(ctx context.Context, scorer Scorer, result *Recall) error {
	sum := 0.0
	for i := range n.Needles {
		p, answer, err := n.prompt(i, result.Context, result.Depth)
		if err != nil {
			return err
		}
		scores, err := scorer.Score(ctx, p, [][]int32{answer})
		if err != nil {
			return err
		}
		result.Needles++
		if scores[0].Greedy {
			result.Found++
		}
		sum += scores[0].LogProb
		result.LogProb = sum / float64(result.Needles)
		n.progress(1)
	}
	result.Complete = true
	return nil
}

// prompt hides the i-th needle and asks for it, in so many tokens.
func (n *needles) prompt(i, tokens int, depth float64) (p Prompt, answer []int32, err error) {
	needle := newNeedle(n.Seed, i)
	begin, question := n.subject.Begin(), n.subject.Encode(needle.question)
	hidden := n.subject.Encode(needle.sentence)
	if n.Control {
		hidden = nil
	}
	draw := rand.New(rand.NewPCG(n.Seed, strawStream+uint64(i)))
	straw, err := n.haystack.straw(draw, tokens-len(begin)-len(question), depth, hidden)
	if err != nil {
		return Prompt{}, nil, err
	}
	return Prompt{Shared: append(begin, straw...), Own: question}, n.subject.Encode(needle.answer), nil
}

// progress counts prompts.
func (n *needles) progress(prompts int) {
	n.done += prompts
	if n.Progress != nil {
		n.Progress(n.done, len(n.Settings)*len(n.Contexts)*len(n.Depths)*n.Needles)
	}
}
