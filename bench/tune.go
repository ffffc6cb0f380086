package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"vkdecode/model"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// Tuner measures every way to launch every kind of product that a model has, in every form of the kernels that the device
// may use.
type Tuner struct {
	Device   *vk.Device
	Tunings  []runtime.Tuning // one for each form; the first is the one that is used without measurements
	Products func(runtime.Tuning) (map[runtime.Product]int, error)
	Emit     func(Tried)                             // called with each way that was tried
	Progress func(p runtime.Product, done, ways int) // called before each way is compiled
}

// Tried is what came of a way to launch a product.
type Tried struct {
	Product runtime.Product `json:"product"`
	Form    string          `json:"form"`
	Launch  runtime.Launch  `json:"launch"`
	Table   bool            `json:"table"`  // it is the table's
	Won     bool            `json:"won"`    // it is chosen
	Micros  float64         `json:"us"`     // of a product with one row, in the quickest round; 0: not measured
	Ratio   float64         `json:"ratio"`  // how many times as fast as the table's way in the first form
	Chunk   float64         `json:"prompt"` // the same for several rows, beside the table's way in its own form; 0: not measured
	Wrong   string          `json:"wrong"`  // why it is no way; empty where it is one
}

const (
	tuneRounds = 9 // in which ways take turns
	hopeless   = 2 // times as slow as the quickest in the first round: a way is not measured again
)

// Run measures. What it has found goes into m, in which older choices for other products stay.
func (t *Tuner) Run(ctx context.Context, m *runtime.Measured) error {
	engines := make([]*runtime.Engine, len(t.Tunings))
	own := map[runtime.Product]runtime.Choice{}
	for i, tuning := range t.Tunings {
		engines[i] = runtime.NewEngine(t.Device)
		engines[i].Tuning = tuning
		products, err := t.Products(tuning)
		if err != nil {
			return err
		}
		for _, p := range slices.SortedFunc(maps.Keys(products), func(a, b runtime.Product) int { return cmp.Compare(a.String(), b.String()) }) {
			c := &contest{Tuner: t, engine: engines[i], product: p, count: products[p]}
			if i > 0 {
				c.rival(engines[0], own)
			}
			choice, err := c.run(ctx)
			if err != nil {
				return fmt.Errorf("bench: tuning: %s, %s kernels: %w", p, tuning.Form, err)
			}
			if i == 0 {
				own[p] = choice
			}
			m.Add(choice)
		}
	}
	return nil
}

// contest is between the ways to launch one product in one form.
type contest struct {
	*Tuner
	engine  *runtime.Engine
	product runtime.Product
	count   int    // how many a model has
	ways    []*way // the first is the table's

	other  *runtime.Engine // of the first form, nil in that itself
	twin   runtime.Product // the same matrix there, which may have another weight type
	micros float64         // what the table's way for it took
}

// way is a launch under measurement.
type way struct {
	Tried
	decode, chunk func() (float64, error) // microseconds of a product: model.Trial
	times         []float64               // by round
}

func wayOf(t *model.Trial, what Tried) *way {
	return &way{Tried: what, decode: t.Decode, chunk: t.Chunk}
}

// rival makes the contest one beside the first form, so that the two can be compared.
func (c *contest) rival(e *runtime.Engine, own map[runtime.Product]runtime.Choice) {
	c.other = e
	for p, choice := range own {
		if same := p.Rows == c.product.Rows && p.Columns == c.product.Columns; same && (c.micros == 0 || p.Weight == c.product.Weight) {
			c.twin, c.micros = p, choice.Table
		}
	}
}

// run finds the best way.
func (c *contest) run(ctx context.Context) (choice runtime.Choice, err error) {
	e, p := c.engine, c.product
	table := e.Launch(p)
	launches := []runtime.Launch{table}
	for _, l := range runtime.Launches(e.Device.Info, e.Tuning.Form) {
		if l != table && (p.Input != runtime.Parts || l.Run == 1) {
			launches = append(launches, l)
		}
	}
	trials, err := model.NewTrials(e, p, c.count, launches)
	if err != nil {
		return choice, err
	}
	defer trials.Close()
	defer func() {
		for _, w := range c.ways {
			c.Emit(w.Tried)
		}
	}()
	for i, l := range launches {
		if err := ctx.Err(); err != nil {
			return choice, err
		}
		c.Progress(p, i, len(launches))
		one := Tried{Product: p, Form: e.Tuning.Form.String(), Launch: l, Table: i == 0}
		trial, err := trials.Try(l)
		switch {
		case err == nil:
			c.ways = append(c.ways, wayOf(trial, one))
		case i == 0: // the doctor has seen it compute right
			return choice, err
		default:
			one.Wrong = err.Error()
			c.Emit(one)
		}
	}
	base := c.ways[0]
	if c.other != nil {
		all, err := model.NewTrials(c.other, c.twin, c.count, []runtime.Launch{c.other.Launch(c.twin)})
		if err != nil {
			return choice, err
		}
		defer all.Close()
		trial, err := all.Try(c.other.Launch(c.twin))
		if err != nil {
			return choice, err
		}
		base = wayOf(trial, Tried{})
	}
	return c.measure(ctx, base)
}

// measure lets the ways take turns with one that they are compared with.
func (c *contest) measure(ctx context.Context, base *way) (choice runtime.Choice, err error) {
	running := c.ways
	if base != c.ways[0] {
		running = append([]*way{base}, running...)
	}
	if err := race(ctx, running, decoding); err != nil {
		return choice, err
	}
	for _, w := range c.ways {
		w.Micros, w.Ratio = slices.Min(w.times), ratio(base.times, w.times)
	}
	if c.other == nil {
		c.micros = base.Micros
	}
	won, err := c.winner(ctx)
	if err != nil {
		return choice, err
	}
	won.Won = true
	took := func(w *way) float64 { return c.micros / w.Ratio }
	return runtime.Choice{Product: c.product, Form: won.Form, Launch: won.Launch, Table: took(c.ways[0]), Best: min(took(won), took(c.ways[0]))}, nil
}

func decoding(w *way) (float64, error)  { return w.decode() }
func prompting(w *way) (float64, error) { return w.chunk() }

// race measures ways in turns, after once to warm up. The first one takes part in every round.
func race(ctx context.Context, ways []*way, measure func(*way) (float64, error)) error {
	for _, w := range ways {
		w.times = nil
		if _, err := measure(w); err != nil {
			return err
		}
	}
	running := slices.Clone(ways)
	for round := range tuneRounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		best := 0.0
		for _, w := range running {
			took, err := measure(w)
			if err != nil {
				return err
			}
			w.times = append(w.times, took)
			if best == 0 || took < best {
				best = took
			}
		}
		if round == 0 {
			running = slices.DeleteFunc(running, func(w *way) bool { return w != ways[0] && !w.Table && w.times[0] > hopeless*best })
		}
		slices.Reverse(running)
	}
	return nil
}

// ratio is how many times as fast as a base something was: the median over the rounds that both have, or the ratio of the
// quickest ones if that is less. Where others compute on the same machine, rounds are slow by chance, and not all of them.
func ratio(base, times []float64) float64 {
	ratios := make([]float64, len(times))
	for i := range times {
		ratios[i] = base[i] / times[i]
	}
	return min(spreadOf(ratios).Median, slices.Min(base)/slices.Min(times))
}

// winner is the quickest way, unless it is not clearly quicker than the table's, or clearly slower for a chunk of a prompt:
// then it is the next one.
func (c *contest) winner(ctx context.Context) (*way, error) {
	table := c.ways[0]
	for _, w := range slices.SortedFunc(slices.Values(c.ways[1:]), func(a, b *way) int { return cmp.Compare(b.Ratio, a.Ratio) }) {
		if w.Ratio < runtime.Margin*table.Ratio {
			break
		}
		pair := []*way{table, w}
		if err := race(ctx, pair, decoding); err != nil { // of many ways one may have been lucky
			return nil, err
		}
		again := ratio(table.times, w.times)
		w.Ratio = min(w.Ratio, again*table.Ratio)
		if again < runtime.Margin {
			continue
		}
		if _, err := w.chunk(); err != nil { // it may compute something else than the CPU
			w.Wrong = err.Error()
			continue
		}
		if err := race(ctx, pair, prompting); err != nil {
			return nil, err
		}
		if w.Chunk = ratio(table.times, w.times); w.Chunk >= 1/runtime.Margin {
			return w, nil
		}
	}
	return table, nil
}
