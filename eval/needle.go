package eval

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"vkdecode/h2o"
)

// NeedleOptions are what is hidden, where, and from which caches.
type NeedleOptions struct {
	Model, ModelHash, Device string         // for the results
	Text                     *Text          // the haystack
	Settings                 []h2o.Settings // the policies and budgets
	Contexts                 []int          // tokens of haystack, needle and question; one that comes again is left out
	Depths                   []float64      // where the needle is: 0 before everything, 1 just before the question; so is one of these
	Needles                  int            // for each setting, context and depth
	Seed                     uint64
	Control                  bool                        // leave the needle out: what is found then is found by chance
	Known                    func(Recall) (Recall, bool) // finds the result that one without figures will become, if it is there already; may be nil
	Progress                 func(done, total int)       // prompts; may be nil
}

// Search hides sentences in a text and asks for them when the text has been read and the cache cut down to its budget. A
// needle counts as found if each token of its number is the likeliest one, as it would be in greedy decoding. All
// settings get the same prompts.
type Search struct {
	NeedleOptions
	subject  Subject
	haystack haystack
	longest  int // tokens of the longest answer
	done     int // prompts
}

// NewSearch refuses what cannot be judged, before anything is opened.
func NewSearch(s Subject, o NeedleOptions) (_ *Search, err error) {
	n := &Search{NeedleOptions: o, subject: s, longest: len(" 0000")} // a token has at least a byte
	n.Contexts, n.Depths = once(o.Contexts), once(o.Depths)
	if n.haystack, err = newHaystack(n.Text.content, n.subject.Encode); err != nil {
		return nil, err
	}
	if n.Needles < 1 || len(n.Settings) == 0 || len(n.Contexts) == 0 || len(n.Depths) == 0 {
		return nil, fmt.Errorf("eval: needle: %d needles, %d settings, %d contexts, %d depths; want at least one of each", n.Needles, len(n.Settings), len(n.Contexts), len(n.Depths))
	}
	for _, depth := range n.Depths {
		if !(depth >= 0 && depth <= 1) {
			return nil, fmt.Errorf("eval: needle: depth %g, want 0 to 1", depth)
		}
	}
	least := 0
	for i := range min(n.Needles, len(subjects)) {
		needle := newNeedle(n.Seed, i)
		if len(s.Encode(needle.answer)) == 0 {
			return nil, fmt.Errorf("eval: needle: the model has no token for %q", needle.answer)
		}
		least = max(least, 1+len(s.Begin())+len(s.Encode(needle.sentence))+len(s.Encode(needle.question)))
	}
	for _, tokens := range n.Contexts {
		if tokens < least {
			return nil, fmt.Errorf("eval: needle: context of %d tokens, want at least %d: so many take the needle and the question", tokens, least)
		}
		for _, kv := range n.Settings {
			if _, err := s.Setting(kv, tokens+n.longest); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// once leaves out what is there already.
func once[T comparable](all []T) (first []T) {
	for _, v := range all {
		if !slices.Contains(first, v) {
			first = append(first, v)
		}
	}
	return first
}

// Judge measures all settings. emit gets a result for each setting, context and depth, in this order, and whether it was
// known; when ctx ends, also the one that is not complete.
func (n *Search) Judge(ctx context.Context, emit func(r Recall, known bool) error) error {
	for _, kv := range n.Settings {
		for _, tokens := range n.Contexts {
			if err := n.judge(ctx, kv, tokens, emit); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge measures a setting at one context, at all depths.
func (n *Search) judge(ctx context.Context, kv h2o.Settings, tokens int, emit func(Recall, bool) error) (err error) {
	length := tokens + n.longest
	blank := Recall{Kind: "needle", Origin: Origin{n.ModelHash, n.Text.Hash}, Model: n.Model, Device: n.Device, Text: n.Text.Name,
		Context: tokens, Seed: n.Seed, Control: n.Control, Template: needleTemplate}
	if blank.Setting, err = n.subject.Setting(kv, length); err != nil {
		return err
	}
	var scorer Scorer
	for _, depth := range n.Depths {
		result := blank
		result.Depth = depth
		if n.Known != nil {
			if known, ok := n.Known(result); ok {
				n.progress(n.Needles)
				if err := emit(known, true); err != nil {
					return err
				}
				continue
			}
		}
		if scorer == nil {
			if scorer, err = n.subject.Open(ctx, kv, length); err != nil {
				return err
			}
			defer scorer.Close()
		}
		result.BytesHeld = scorer.Held()
		err := n.recall(ctx, scorer, &result)
		if err == nil || ctx.Err() != nil && result.Needles > 0 {
			if e := emit(result, false); e != nil {
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
func (n *Search) recall(ctx context.Context, scorer Scorer, result *Recall) error {
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
func (n *Search) prompt(i, tokens int, depth float64) (p Prompt, answer []int32, err error) {
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
func (n *Search) progress(prompts int) {
	n.done += prompts
	if n.Progress != nil {
		n.Progress(n.done, len(n.Settings)*len(n.Contexts)*len(n.Depths)*n.Needles)
	}
}
