package gguf

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// got is the outcome of any getter.
type got struct {
	Value any
	OK    bool
	Err   string // "" for none
}

func outcome[T any](value T, ok bool, err error) got {
	if err != nil {
		return got{value, ok, err.Error()}
	}
	return got{value, ok, ""}
}

func TestGettersAcceptWhatFits(t *testing.T) {
	f := parse(t, sample())
	for name, c := range map[string]struct {
		got  got
		want any
	}{
		"Uint of uint8":        {outcome(f.Uint("u8")), uint64(200)},
		"Uint of uint16":       {outcome(f.Uint("u16")), uint64(60000)},
		"Uint of uint32":       {outcome(f.Uint("u32")), uint64(4e9)},
		"Uint of uint64":       {outcome(f.Uint("u64")), uint64(1 << 63)},
		"Float of float32":     {outcome(f.Float("f32")), float64(float32(1e-5))},
		"Float of float64":     {outcome(f.Float("f64")), 2.5},
		"Bool true":            {outcome(f.Bool("yes")), true},
		"Bool false":           {outcome(f.Bool("no")), false},
		"String":               {outcome(f.String("general.architecture")), "llama"},
		"String of no bytes":   {outcome(f.String("empty")), ""},
		"Uints of none":        {outcome(f.Uints("none")), []uint64{}},
		"Ints of int32":        {outcome(f.Ints("kinds")), []int64{1, -1, 3}},
		"Floats of float32":    {outcome(f.Floats("scores")), []float64{-1, 0.5}},
		"Strings":              {outcome(f.Strings("tokens")), []string{"a", "", "\xff\x00", "längere"}},
		"ByLayer of a scalar":  {outcome(f.ByLayer("u8", 3)), []uint64{200, 200, 200}},
		"ByLayer of no layers": {outcome(f.ByLayer("none", 0)), []uint64{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(got{c.want, true, ""}, c.got); diff != "" {
				t.Errorf("want- got+\n%s", diff)
			}
		})
	}
}

func TestIntegersOfEveryWidthFit(t *testing.T) {
	w := &Writer{}
	for i, x := range []any{uint8(7), int8(7), uint16(7), int16(7), uint32(7), int32(7), uint64(7), int64(7)} {
		w.Set(string(rune('a'+i)), x)
	}
	for i, x := range []any{[]uint8{7}, []int8{7}, []uint16{7}, []int16{7}, []uint32{7}, []int32{7}, []uint64{7}, []int64{7}} {
		w.Set(string(rune('A'+i)), x)
	}
	f := parse(t, w)
	for _, key := range f.Keys() {
		if each, ok, err := f.ByLayer(key, 1); err != nil || !ok || each[0] != 7 {
			t.Errorf("%s: %v, %v, %v", key, each, ok, err)
		}
		if ints, ok, err := f.Ints(key); key <= "Z" && (err != nil || !ok || ints[0] != 7) {
			t.Errorf("%s as signed: %v, %v, %v", key, ints, ok, err)
		}
	}
}

func TestGettersNameKeyWantedAndGot(t *testing.T) {
	w := sample()
	w.Set("big", []uint64{1, math.MaxUint64})
	f := parse(t, w)
	for want, c := range map[string]got{
		`key "i8": int8 -3, want an integer of at least 0`:                                       outcome(f.Uint("i8")),
		`key "f32": float32 1e-05, want an integer of at least 0`:                                outcome(f.Uint("f32")),
		`key "yes": bool true, want an integer of at least 0`:                                    outcome(f.Uint("yes")),
		`key "tokens": array of 4 string, want an integer of at least 0`:                         outcome(f.Uint("tokens")),
		`key "u8": uint8 200, want a float`:                                                      outcome(f.Float("u8")),
		`key "u8": uint8 200, want a bool`:                                                       outcome(f.Bool("u8")),
		`key "u8": uint8 200, want a string`:                                                     outcome(f.String("u8")),
		`key "u8": uint8 200, want an array of integers of at least 0`:                           outcome(f.Uints("u8")),
		`key "kinds": element 1 is -1, want an array of integers of at least 0`:                  outcome(f.Uints("kinds")),
		`key "big": element 1 is 18446744073709551615, want an array of integers up to 2^63 - 1`: outcome(f.Ints("big")),
		`key "none": array of 0 uint32, want an array of floats`:                                 outcome(f.Floats("none")),
		`key "nested": array of 4 array, want an array of floats`:                                outcome(f.Floats("nested")),
		`key "scores": array of 2 float32, want an array of strings`:                             outcome(f.Strings("scores")),
		`key "general.architecture": string "llama", want an array of strings`:                   outcome(f.Strings("general.architecture")),
		`key "kinds": element 1 is -1, want an array of integers of at least 0 `:                 outcome(f.ByLayer("kinds", 3)),
		`key "big": 2 values, want one for each of 3 layers`:                                     outcome(f.ByLayer("big", 3)),
		`key "u8": 4294967296 layers, want 0 to 65536`:                                           outcome(f.ByLayer("u8", 1<<32)),
		`key "i8": int8 -3, want an integer of at least 0 `:                                      outcome(f.ByLayer("i8", 3)),
	} {
		if c.OK || c.Err != "gguf: "+strings.TrimSpace(want) {
			t.Errorf("ok %v, error %q, want %q", c.OK, c.Err, want)
		}
	}
}

func TestAMissingKeyIsNoError(t *testing.T) {
	f := parse(t, sample())
	for name, c := range map[string]got{
		"Uint": outcome(f.Uint("?")), "Float": outcome(f.Float("?")), "Bool": outcome(f.Bool("?")), "String": outcome(f.String("?")),
		"Uints": outcome(f.Uints("?")), "Ints": outcome(f.Ints("?")), "Floats": outcome(f.Floats("?")), "Strings": outcome(f.Strings("?")),
		"ByLayer": outcome(f.ByLayer("?", 3)),
	} {
		if c.OK || c.Err != "" {
			t.Errorf("%s: ok %v, error %q", name, c.OK, c.Err)
		}
	}
}
