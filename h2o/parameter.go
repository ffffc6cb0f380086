package h2o

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Parameter is a key=value that a policy takes behind its name: "h2o:decay=0.999".
type Parameter struct {
	Key     string
	Values  string // what it accepts, for help texts and errors
	Summary string
	set     func(*Policy, string) error
}

const thousand = 1000 // of PerHead's alpha

var errValue = errors.New("no such value") // Find says what is accepted

// The options of the policies, under the names that the papers and their code give them.
var (
	scoreParameter = &Parameter{"score", "head, max, layer or guide",
		"what a score counts: the attention of a KV head's group (head), of its strongest query head (max), of the whole layer (layer), or of the layer without a token's own query, new tokens being admitted (guide)",
		func(p *Policy, v string) error {
			switch v {
			case "head":
				p.Reduce, p.Layer, p.Selfless, p.Admit = ReduceSum, false, false, false
			case "max":
				p.Reduce, p.Layer, p.Selfless, p.Admit = ReduceMax, false, false, false
			case "layer":
				p.Reduce, p.Layer, p.Selfless, p.Admit = ReduceSum, true, false, false
			case "guide":
				p.Reduce, p.Layer, p.Selfless, p.Admit = ReduceSum, true, true, true
			default:
				return errValue
			}
			return nil
		}}
	reduceParameter = &Parameter{"reduce", "sum, mean or max", "how the query heads of a group are taken together",
		choose(func(p *Policy) *Reduction { return &p.Reduce }, map[string]Reduction{"sum": ReduceSum, "mean": ReduceMean, "max": ReduceMax})}
	decayParameter = &Parameter{"decay", "a number above 0 and up to 1", "factor of the old score at every new query",
		func(p *Policy, v string) error {
			x, err := strconv.ParseFloat(v, 32)
			if err != nil || !(x > 0 && x <= 1) {
				return errValue
			}
			p.Decay = float32(x)
			return nil
		}}
	normParameter = &Parameter{"norm", "none or lifetime", "lifetime: a score is the mean over the queries that saw the token",
		choose(func(p *Policy) *bool { return &p.Lifetime }, map[string]bool{"none": false, "lifetime": true})}
	admitParameter = &Parameter{"admit", "compete or always", "whether a token that leaves the recent window competes at once or replaces an old one",
		choose(func(p *Policy) *bool { return &p.Admit }, map[string]bool{"compete": false, "always": true})}
	graceParameter = &Parameter{"grace", "a whole number from 0", "a token is not evicted before so many queries have seen it",
		count(0, func(p *Policy) *int { return &p.Last })}
	protectParameter = &Parameter{"protect_last", "a whole number from 0", "last positions that are never evicted",
		count(0, func(p *Policy) *int { return &p.Last })}
	everyParameter = &Parameter{"every", "a whole number from 1, or once", "decode steps between two evictions; once: only prompts evict, and decode grows",
		func(p *Policy, v string) error {
			if v == "once" {
				p.Every = 0
				return nil
			}
			return count(1, func(p *Policy) *int { return &p.Every })(p, v)
		}}
	seedParameter = &Parameter{"seed", "a whole number from 0 to 4294967295", "seed of the pseudo-random numbers",
		func(p *Policy, v string) error {
			x, err := strconv.ParseUint(v, 10, 32)
			p.Seed = uint32(x)
			return err
		}}
	windowParameter = &Parameter{"window", "a whole number from 1 to 512", "last queries of a prompt that are observed, and last tokens that are kept",
		func(p *Policy, v string) error {
			if err := count(1, func(p *Policy) *int { return &p.Window })(p, v); err != nil || p.Window > MaxChunk {
				return errValue
			}
			p.Last = p.Window
			return nil
		}}
	kernelParameter = &Parameter{"kernel", "an odd number from 1 to 99", "neighbouring tokens whose scores are pooled",
		func(p *Policy, v string) error {
			if err := count(1, func(p *Policy) *int { return &p.Kernel })(p, v); err != nil || p.Kernel%2 == 0 || p.Kernel > 99 {
				return errValue
			}
			return nil
		}}
	poolParameter = &Parameter{"pool", "max or avg", "how neighbouring scores are pooled",
		choose(func(p *Policy) *bool { return &p.Average }, map[string]bool{"max": false, "avg": true})}
	decodeParameter = &Parameter{"decode", "h2o or grow", "h2o: decode keeps to the budget by heavy hitters, whose scores begin with the observation; grow: decode evicts nothing, as in the paper",
		choose(func(p *Policy) *int { return &p.Every }, map[string]int{"h2o": 1, "grow": 0})}
	betaParameter = &Parameter{"beta", "a whole number from 1", "the highest layer keeps a beta-th of the mean",
		count(1, func(p *Policy) *int { return &p.Beta })}
	roundingParameter = &Parameter{"rounding", "exact or published", "exact: all layers together keep the budget; published: whole steps from layer to layer, as in the authors' code, which overspends",
		choose(func(p *Policy) *bool { return &p.Published }, map[string]bool{"exact": false, "published": true})}
	alphaParameter = &Parameter{"alpha", "a number from 0 to 1 with up to three decimals", "share of a head's slots that are its own whatever its scores",
		func(p *Policy, v string) error {
			x, err := strconv.ParseFloat(v, 64)
			if p.Alpha = int(math.Round(x * thousand)); err != nil || !(x >= 0 && x <= 1) || math.Abs(x*thousand-float64(p.Alpha)) > 1e-6 {
				return errValue
			}
			return nil
		}}
)

func choose[T any](field func(*Policy) *T, values map[string]T) func(*Policy, string) error {
	return func(p *Policy, v string) error {
		x, ok := values[v]
		if !ok {
			return errValue
		}
		*field(p) = x
		return nil
	}
}

func count(least int, field func(*Policy) *int) func(*Policy, string) error {
	return func(p *Policy, v string) error {
		x, err := strconv.Atoi(v)
		if err != nil || x < least || x > math.MaxInt32 {
			return errValue
		}
		*field(p) = x
		return nil
	}
}

// check refuses options that contradict each other.
func (p *Policy) check() error {
	if p.Lifetime && p.Decay != 1 {
		return fmt.Errorf("h2o: policy %q: norm=lifetime counts every query alike and decay=%g does not; give one of them", p.Name, p.Decay)
	}
	return nil
}
