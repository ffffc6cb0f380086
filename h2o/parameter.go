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
	set     func(*Rule, string) error
}

var errValue = errors.New("no such value") // Find says what is accepted

// The options of the policies, under the names that the papers and their code give them.
var (
	scoreOption = &Parameter{"score", "head, max, layer or guide",
		"what a score counts: the attention of a KV head's group (head), of its strongest query head (max), of the whole layer (layer), or of the layer without a token's own query, new tokens being admitted (guide)",
		func(r *Rule, v string) error {
			switch v {
			case "head":
				r.Reduce, r.Layer, r.Selfless, r.Admit = ReduceSum, false, false, false
			case "max":
				r.Reduce, r.Layer, r.Selfless, r.Admit = ReduceMax, false, false, false
			case "layer":
				r.Reduce, r.Layer, r.Selfless, r.Admit = ReduceSum, true, false, false
			case "guide":
				r.Reduce, r.Layer, r.Selfless, r.Admit = ReduceSum, true, true, true
			default:
				return errValue
			}
			return nil
		}}
	reduceOption = &Parameter{"reduce", "sum, mean or max", "how the query heads of a group are taken together",
		choose(func(r *Rule) *Reduction { return &r.Reduce }, map[string]Reduction{"sum": ReduceSum, "mean": ReduceMean, "max": ReduceMax})}
	decayOption = &Parameter{"decay", "a number above 0 and up to 1", "factor of the old score at every new query",
		func(r *Rule, v string) error {
			x, err := strconv.ParseFloat(v, 32)
			if err != nil || !(x > 0 && x <= 1) {
				return errValue
			}
			r.Decay = float32(x)
			return nil
		}}
	normOption = &Parameter{"norm", "none or lifetime", "lifetime: a score is the mean over the queries that saw the token",
		choose(func(r *Rule) *bool { return &r.Lifetime }, map[string]bool{"none": false, "lifetime": true})}
	admitOption = &Parameter{"admit", "compete or always", "whether a token that leaves the recent window competes at once or replaces an old one",
		choose(func(r *Rule) *bool { return &r.Admit }, map[string]bool{"compete": false, "always": true})}
	graceOption = &Parameter{"grace", "a whole number from 0", "a token is not evicted before so many queries have seen it",
		count(0, func(r *Rule) *int { return &r.Last })}
	protectOption = &Parameter{"protect_last", "a whole number from 0", "last positions that are never evicted",
		count(0, func(r *Rule) *int { return &r.Last })}
	everyOption = &Parameter{"every", "a whole number from 1, or once", "decode steps between two evictions; once: only prompts evict, and decode grows",
		func(r *Rule, v string) error {
			if v == "once" {
				r.Every = 0
				return nil
			}
			return count(1, func(r *Rule) *int { return &r.Every })(r, v)
		}}
	seedOption = &Parameter{"seed", "a whole number from 0 to 4294967295", "seed of the pseudo-random numbers",
		func(r *Rule, v string) error {
			x, err := strconv.ParseUint(v, 10, 32)
			r.Seed = uint32(x)
			return err
		}}
)

func choose[T any](field func(*Rule) *T, values map[string]T) func(*Rule, string) error {
	return func(r *Rule, v string) error {
		x, ok := values[v]
		if !ok {
			return errValue
		}
		*field(r) = x
		return nil
	}
}

func count(least int, field func(*Rule) *int) func(*Rule, string) error {
	return func(r *Rule, v string) error {
		x, err := strconv.Atoi(v)
		if err != nil || x < least || x > math.MaxInt32 {
			return errValue
		}
		*field(r) = x
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
