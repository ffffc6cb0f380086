package tests

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"vkdecode/ref"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// ownLaunch is how the device decodes.
func ownLaunch(d *vk.Device) launch {
	tuning := engineOf(d).Tuning
	return launch{form: tuning.Form, lanes: tuning.Lanes}
}

func (l launch) like(other launch) bool { return l.form == other.form && l.lanes == other.lanes }

// Ten thousand draws under many settings are the twin's, and bit for bit the same in every form on every driver.
func TestManyDrawsAreTheTwinsInEveryForm(t *testing.T) {
	const settings, positions, some = 120, 84, 3
	rnd := rand.New(rand.NewPCG(17, 1))
	cases := []sampleCase{
		{vocab: 1001, shape: spread, settings: anySampling(rnd, 1001, settings), positions: positions},
		{vocab: 130, shape: few, settings: anySampling(rnd, 130, settings), positions: some},
		{vocab: 515, shape: flat, settings: anySampling(rnd, 515, settings), positions: some},
	}
	first := make([][]uint32, len(cases))
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		b := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer b.close()
		for _, l := range b.launches() {
			for i, c := range cases {
				if !l.like(ownLaunch(d)) { // ten thousand are for the form that the device decodes in
					c.positions = some
				}
				drawn, err := c.draw(b, l)
				if err != nil {
					t.Errorf("%s, %s: %v", l, c.shape, err)
				}
				if len(drawn) > len(first[i]) {
					drawn, first[i] = first[i], drawn
				}
				if !slices.Equal(drawn, first[i][:len(drawn)]) {
					t.Errorf("%s, %s: other tokens than in the first form", l, c.shape)
				}
			}
		}
	})
}

// The vocabularies of real models, the largest there are, in the form that the device decodes in.
func TestLargeVocabulariesAreSampled(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		b := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer b.close()
		for _, vocab := range []int{49_152, 128_256, 262_144} {
			for _, s := range []shape{spread, flat, one} {
				settings := []ref.Sampling{{}, {Temperature: 1}, {Temperature: 0.8, TopK: 40, TopP: 0.95}, {Temperature: 1, TopP: 0.95}, {Temperature: 1, TopK: 2000, TopP: 0.9, MinP: 1e-4}, {Temperature: 1, MinP: 0.01}}
				if err := (sampleCase{vocab: vocab, shape: s, settings: settings, positions: 2, groups: 8}).run(b, ownLaunch(d)); err != nil {
					t.Errorf("%d %s logits: %v", vocab, s, err)
				}
			}
		}
	})
}

// How often tokens are drawn is what their probabilities say.
func TestDrawsFollowTheDistribution(t *testing.T) {
	const rows, positions, vocab = 256, 40, 60
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		b := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer b.close()
		for _, how := range []ref.Sampling{{Temperature: 1}, {Temperature: 0.5}, {Temperature: 0.8, TopK: 40, TopP: 0.6}, {Temperature: 2, MinP: 0.3}} {
			settings := slices.Repeat([]ref.Sampling{how}, rows)
			for i := range settings {
				settings[i].Seed = uint64(i) << 20
			}
			drawn, err := sampleCase{vocab: vocab, shape: falling, settings: settings, positions: positions}.draw(b, ownLaunch(d))
			if err != nil {
				t.Fatal(err)
			}
			logits := falling.logits(nil, vocab)
			if excess := chiSquare(drawn, how.Distribution(logits, nil)); !(excess < 4) {
				t.Errorf("%+v: chi-square lies %.1f standard deviations above its mean", how, excess)
			}
			wrong := how
			wrong.Temperature *= 4
			if excess := chiSquare(drawn, wrong.Distribution(logits, nil)); excess < 8 {
				t.Errorf("%+v: a wrong temperature passes: %.1f standard deviations", how, excess)
			}
		}
	})
}

// chiSquare is how many standard deviations the statistic of the draws lies above its mean; infinitely many where a token
// was drawn that cannot be.
func chiSquare(drawn []uint32, want ref.Distribution) float64 {
	counts := map[int]int{}
	for _, id := range drawn {
		counts[int(id)]++
	}
	sum := 0.0
	for _, w := range want.Tokens {
		expected := w.Weight / want.Total * float64(len(drawn))
		sum += (float64(counts[w.ID]) - expected) * (float64(counts[w.ID]) - expected) / expected
		delete(counts, w.ID)
	}
	if len(counts) > 0 {
		return math.Inf(1)
	}
	freedom := float64(len(want.Tokens) - 1)
	return (sum - freedom) / math.Sqrt(2*freedom)
}
