package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// parts is the number of buckets of a text: of equal size, so that each perplexity is of as many tokens as the next.
// Doubling sizes would put half of the text into one of them, where eviction has its effect, and a token in the first.
const parts = 8

// measure fills in the figures of a text of which all tokens but the first have a likelihood. nll[i] and kl[i], in nats,
// are of token i + 1; kl may be nil. The budget is reached with that many tokens, 0 = never.
func (p *Perplexity) measure(nll, kl []float32, budget int) error {
	for i, v := range nll {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("eval: token %d of %s has a negative log likelihood of %v: the model or the device computes no numbers", i+1, p.Text, v)
		}
	}
	p.Tokens = len(nll) + 1
	p.PPL = perplexity(nll)
	p.PPLLastHalf = perplexity(nll[p.Tokens/2-1:])
	p.PPLAfterBudget = nil
	if budget > 0 && budget < len(nll) {
		after := perplexity(nll[budget:])
		p.PPLAfterBudget = &after
	}
	p.Buckets = []Bucket{}
	for i := range parts {
		b := Bucket{Begin: max(1, i*p.Tokens/parts), End: (i + 1) * p.Tokens / parts}
		if b.Begin < b.End {
			b.PPL = perplexity(nll[b.Begin-1 : b.End-1])
			p.Buckets = append(p.Buckets, b)
		}
	}
	p.KL = nil
	if kl != nil {
		m := mean(kl)
		p.KL = &m
	}
	if math.IsInf(p.PPL, 0) || math.IsInf(p.PPLLastHalf, 0) {
		return fmt.Errorf("eval: the perplexity of %s is beyond all numbers: the mean is %.0f nats per token", p.Text, mean(nll))
	}
	return nil
}

// perplexity is exp of the mean of negative log likelihoods in nats.
func perplexity(nll []float32) float64 { return math.Exp(mean(nll)) }

func mean(values []float32) (sum float64) {
	for _, v := range values {
		sum += float64(v)
	}
	return sum / float64(len(values))
}

// Combine makes one result of several segments under one setting: its perplexity is exp of the mean over all tokens of
// all segments, so that a long segment counts for more than a short one. Buckets are combined where all segments have the
// same. It is complete if all of want segments are there and complete.
func Combine(segments []Perplexity, want int) Perplexity {
	c := segments[0]
	c.Segments, c.Tokens, c.Offset, c.Complete = len(segments), 0, 0, len(segments) == want
	var texts []string
	var all, half, after, kl weighted
	var seconds float64
	for _, s := range segments {
		if !slices.Contains(texts, s.Text) {
			texts = append(texts, s.Text)
		}
		if s.TextHash != c.TextHash {
			c.TextHash = ""
		}
		foretold := s.Tokens - 1
		all.add(math.Log(s.PPL), foretold)
		half.add(math.Log(s.PPLLastHalf), s.Tokens-s.Tokens/2)
		if s.PPLAfterBudget != nil {
			after.add(math.Log(*s.PPLAfterBudget), foretold-s.BudgetSlots)
		}
		if s.KL != nil {
			kl.add(*s.KL, foretold)
		}
		seconds += float64(s.Tokens) / s.TPS
		c.Tokens += s.Tokens
		c.Complete = c.Complete && s.Complete
		c.BytesHeld, c.BytesFull = max(c.BytesHeld, s.BytesHeld), max(c.BytesFull, s.BytesFull)
	}
	c.Text = strings.Join(texts, ", ")
	c.PPL, c.PPLLastHalf = math.Exp(all.mean()), math.Exp(half.mean())
	c.PPLAfterBudget, c.KL = nil, nil
	if after.weight > 0 {
		v := math.Exp(after.mean())
		c.PPLAfterBudget = &v
	}
	if kl.weight == all.weight {
		v := kl.mean()
		c.KL = &v
	}
	c.TPS = float64(c.Tokens) / seconds
	c.Buckets = combineBuckets(segments)
	return c
}

func combineBuckets(segments []Perplexity) []Bucket {
	combined := []Bucket{}
	for i, b := range segments[0].Buckets {
		var all weighted
		for _, s := range segments {
			if len(s.Buckets) != len(segments[0].Buckets) || s.Buckets[i].Begin != b.Begin || s.Buckets[i].End != b.End {
				return []Bucket{}
			}
			all.add(math.Log(s.Buckets[i].PPL), b.End-b.Begin)
		}
		combined = append(combined, Bucket{b.Begin, b.End, math.Exp(all.mean())})
	}
	return combined
}

// weighted is a mean over parts of different sizes.
type weighted struct{ sum, weight float64 }

func (w *weighted) add(mean float64, count int) {
	w.sum += mean * float64(count)
	w.weight += float64(count)
}

func (w weighted) mean() float64 { return w.sum / w.weight }
