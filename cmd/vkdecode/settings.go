package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// Config is the effective configuration, every value parsed and within range.
type Config struct {
	Device struct {
		Select     string // "auto", an index, part of a name or a UUID
		Validation bool
		NoCheck    bool
		Precision  string
		Layers     int // in the device's own memory, -1 = as many as fit
	}
	KV struct {
		Policies    []h2o.Spec          // at least one
		Prefiller   h2o.Spec            // the policy of prompts; zero = that of decoding
		Prefill     string              // "auto", "bounded" or "exact"
		Layers      []h2o.LayerSettings // what some layers have of their own
		Budget      h2o.Budget          // the first of Budgets
		Budgets     []h2o.Budget        // at least one
		RecentRatio float64             // 0 to 1
		Sinks       int                 // tokens, -1 = the policy's own default
		Type        string              // of K and V, as h2o.ParseTypes reads it, or "auto"
		Positions   string              // "auto", "original" or "cache"
		Context     int                 // tokens, 0 = prompt and new tokens
		Chunk       int                 // rows
	}
	Generate struct {
		MaxNewTokens  int
		Temperature   float64
		TopK          int
		TopP          float64
		MinP          float64
		RepeatPenalty float64 // 0 or 1 = off
		Presence      float64
		Frequency     float64
		RepeatLast    int // tokens that the penalties look at, 0 = all
		Bias          map[int32]float64
		Seed          int64 // -1 = a fresh one
	}
	Serve struct {
		Address string // host:port
	}
}

// setting is one value of the configuration. The table of settings drives the
// file, the environment, the flags, their help and completion, and what
// "vkdecode config" prints.
type setting struct {
	key     string // section.name in the file
	flag    string
	short   string // one letter, or none
	kind    kind
	initial string
	arg     string   // what the flag's argument is called in the help
	columns []column // of a setting that is tables
	words   []string // for completion
	help    string
	set     func(*Config, string) error // parses, checks and stores
}

// kind is what a setting looks like in the file.
type kind string

const (
	truth  kind = "true or false"
	whole  kind = "a whole number"
	number kind = "a number"
	text   kind = "a string"
	either kind = "a string or a whole number"
	tables kind = "tables"
)

var settings = []setting{
	{key: "device.select", flag: "device", kind: either, initial: "auto", arg: "N|NAME|UUID",
		help: "device by index, part of its name, or UUID (see \"vkdecode devices\")",
		set:  nonEmpty(func(c *Config) *string { return &c.Device.Select })},
	{key: "device.validation", flag: "validation", kind: truth, initial: "false",
		help: "check every Vulkan call with the validation layer (slow)",
		set:  truthOf(func(c *Config) *bool { return &c.Device.Validation })},
	{key: "device.no_check", flag: "no-check", kind: truth, initial: "false",
		help: "use the device even if \"vkdecode doctor\" found that it computes wrong, and do not check it at its first use",
		set:  truthOf(func(c *Config) *bool { return &c.Device.NoCheck })},

	{key: "device.gpu_layers", flag: "gpu-layers", kind: either, initial: "auto", arg: "N",
		help: "layers whose weights lie in the device's own memory, the others' are read from the host's over the bus; auto is as many as fit",
		set:  wholeOrAuto(0, -1, func(c *Config) *int { return &c.Device.Layers })},

	{key: "device.precision", flag: "precision", kind: text, initial: "f32", arg: "HOW", words: runtime.Precisions,
		help: "what prompts are multiplied in: f32; f16 rounds weights and activations, on GPUs; int8 rounds activations as llama.cpp does, on CPU drivers; both are less exact and faster",
		set:  oneOf(runtime.Precisions, func(c *Config) *string { return &c.Device.Precision })},

	{key: "kv.policy", flag: "kv", kind: text, initial: "h2o", arg: "POLICY", words: policies,
		help: "KV policy with options, like h2o:score=max (see \"vkdecode policies\"); several separated by commas where that makes sense",
		set:  setPolicies},
	{key: "kv.prefill_policy", flag: "prefill-policy", kind: text, initial: "same", arg: "POLICY", words: append([]string{"same"}, policies...),
		help: "KV policy of prompts with options; same is that of decoding", set: setPrefillPolicy},
	{key: "kv.prefill", flag: "prefill", kind: text, initial: "auto", arg: "HOW", words: prefills,
		help: "bounded (a prompt is cut to the budget chunk by chunk), exact (once, at its end), or auto, the policy's own default",
		set:  oneOf(prefills, func(c *Config) *string { return &c.KV.Prefill })},
	{key: "kv.budget", flag: "budget", kind: either, initial: "20%", arg: "20%|1024|512MiB",
		help: "share of the context, slots per KV head, or bytes for the whole cache; several separated by commas where that makes sense",
		set:  setBudgets},
	{key: "kv.recent_ratio", flag: "recent-ratio", kind: number, initial: "0.5", arg: "X",
		help: "share of the budget that is the protected recent window",
		set:  numberIn(0, 1, func(c *Config) *float64 { return &c.KV.RecentRatio })},
	{key: "kv.sinks", flag: "sinks", kind: either, initial: "auto", arg: "N",
		help: "first tokens that are never evicted; auto is the policy's own default",
		set:  wholeOrAuto(0, -1, func(c *Config) *int { return &c.KV.Sinks })},
	{key: "kv.type", flag: "kv-type", kind: text, initial: "auto", arg: "TYPE|K/V", words: append([]string{"auto"}, h2o.TypeWords()...),
		help: "type of K and V: " + strings.Join(shaders.CacheTypes, ", ") + "; or of each, such as q8_0/q4_0; auto is the policy's own, f16 but for h2o-tuned",
		set:  setTypes},
	{key: "kv.positions", flag: "positions", kind: text, initial: "auto", arg: "KIND", words: positions,
		help: "original, cache (renumbered inside the cache), or auto, the policy's own default",
		set:  oneOf(positions, func(c *Config) *string { return &c.KV.Positions })},
	{key: "kv.ctx", flag: "ctx", kind: either, initial: "auto", arg: "N",
		help: "context in tokens; auto is the prompt and the new tokens",
		set:  wholeOrAuto(1, 0, func(c *Config) *int { return &c.KV.Context })},
	{key: "kv.chunk", flag: "chunk", kind: whole, initial: "256", arg: "N",
		help: "prompt tokens processed at once, the most that live above the budget",
		set:  wholeFrom(1, func(c *Config) *int { return &c.KV.Chunk })},
	{key: "kv.layers", flag: "kv-layers", kind: tables, initial: "", arg: "RANGES",
		help:    "what some layers have of their own, like 0-9:budget=30%:recent_ratio=0.7; several separated by commas",
		columns: []column{{"layers", either}, {"budget", either}, {"recent_ratio", number}}, set: setLayers},

	{key: "generate.max_new_tokens", flag: "max-new-tokens", short: "n", kind: whole, initial: "512", arg: "N",
		help: "tokens to decode at most; 0 only processes the prompt",
		set:  wholeFrom(0, func(c *Config) *int { return &c.Generate.MaxNewTokens })},
	{key: "generate.temperature", flag: "temp", kind: number, initial: "0.7", arg: "X",
		help: "sampling temperature; 0 is greedy",
		set:  numberIn(0, math.MaxFloat64, func(c *Config) *float64 { return &c.Generate.Temperature })},
	{key: "generate.top_k", flag: "top-k", kind: whole, initial: "40", arg: "N",
		help: "sample from the N likeliest tokens; 0 is off",
		set:  wholeFrom(0, func(c *Config) *int { return &c.Generate.TopK })},
	{key: "generate.top_p", flag: "top-p", kind: number, initial: "0.95", arg: "X",
		help: "sample from the fewest tokens that reach this probability; 1 or 0 is off",
		set:  numberIn(0, 1, func(c *Config) *float64 { return &c.Generate.TopP })},
	{key: "generate.min_p", flag: "min-p", kind: number, initial: "0", arg: "X",
		help: "drop tokens below this share of the likeliest one's probability; 0 is off",
		set:  numberIn(0, 1, func(c *Config) *float64 { return &c.Generate.MinP })},
	{key: "generate.repeat_penalty", flag: "repeat-penalty", kind: number, initial: "1", arg: "X",
		help: "lower the logits of tokens seen lately by this factor; 1 or 0 is off", set: setRepeatPenalty},
	{key: "generate.presence_penalty", flag: "presence-penalty", kind: number, initial: "0", arg: "X",
		help: "take this from the logits of tokens seen lately; 0 is off",
		set:  numberIn(-runtime.MaxPenalty, runtime.MaxPenalty, func(c *Config) *float64 { return &c.Generate.Presence })},
	{key: "generate.frequency_penalty", flag: "frequency-penalty", kind: number, initial: "0", arg: "X",
		help: "take this from the logits of tokens seen lately, once for each time; 0 is off",
		set:  numberIn(-runtime.MaxPenalty, runtime.MaxPenalty, func(c *Config) *float64 { return &c.Generate.Frequency })},
	{key: "generate.repeat_last", flag: "repeat-last", kind: whole, initial: "64", arg: "N",
		help: "last tokens that the penalties look at, the prompt's too; 0 is all of them",
		set:  wholeFrom(0, func(c *Config) *int { return &c.Generate.RepeatLast })},
	{key: "generate.logit_bias", flag: "logit-bias", kind: text, initial: "", arg: "ID=X,...",
		help: "add to the logits of tokens, like 11=-2.5,13=-inf; -inf bans one", set: setBias},
	{key: "generate.seed", flag: "seed", kind: whole, initial: "-1", arg: "N",
		help: "seed of the sampling; -1 takes a fresh one and prints it", set: setSeed},

	{key: "serve.address", flag: "address", kind: text, initial: "127.0.0.1:8080", arg: "HOST:PORT",
		help: "address to listen on", set: setAddress},
}

var prefills = []string{"auto", "bounded", "exact"}

var positions = []string{"auto", "original", "cache"}

// section and name are the two halves of the key.
func (s setting) section() string { section, _, _ := strings.Cut(s.key, "."); return section }
func (s setting) name() string    { _, name, _ := strings.Cut(s.key, "."); return name }

// env is the variable that sets it: kv.budget is VKDECODE_KV_BUDGET.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

const envPrefix = "VKDECODE_"

// sections in the order of the table.
func sections() []string {
	var names []string
	for _, s := range settings {
		names = append(names, s.section())
	}
	return slices.Compact(names)
}

func truthOf(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, given string) error {
		v, err := strconv.ParseBool(given)
		if err != nil {
			return fmt.Errorf("got %q, want true or false", given)
		}
		*field(c) = v
		return nil
	}
}

func wholeFrom(least int, field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, given string) error {
		v, err := strconv.ParseInt(given, 10, 32)
		if err != nil || int(v) < least {
			return fmt.Errorf("got %q, want a whole number from %d to %d", given, least, math.MaxInt32)
		}
		*field(c) = int(v)
		return nil
	}
}

// wholeOrAuto stores meaning for "auto".
func wholeOrAuto(least, meaning int, field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, given string) error {
		if given == "auto" {
			*field(c) = meaning
			return nil
		}
		if err := wholeFrom(least, field)(c, given); err != nil {
			return fmt.Errorf(`%w, or "auto"`, err)
		}
		return nil
	}
}

func numberIn(least, most float64, field func(*Config) *float64) func(*Config, string) error {
	return func(c *Config, given string) error {
		v, err := strconv.ParseFloat(given, 64)
		if err != nil || !(v >= least && v <= most) { // NaN fails both
			if most == math.MaxFloat64 {
				return fmt.Errorf("got %q, want a number of at least %v", given, least)
			}
			return fmt.Errorf("got %q, want a number from %v to %v", given, least, most)
		}
		*field(c) = v
		return nil
	}
}

func oneOf(words []string, field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, given string) error {
		if !slices.Contains(words, given) {
			return fmt.Errorf("got %q, want %s%s", given, strings.Join(words, ", "), didYouMean(given, words))
		}
		*field(c) = given
		return nil
	}
}

func nonEmpty(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, given string) error {
		if strings.TrimSpace(given) == "" {
			return fmt.Errorf("got an empty string")
		}
		*field(c) = given
		return nil
	}
}

func setPolicies(c *Config, given string) error {
	specs, err := h2o.ParseSpecs(given)
	if err != nil {
		return err
	}
	for _, s := range specs {
		if _, err := h2o.Find(s); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "h2o: "))
		}
	}
	c.KV.Policies = specs
	return nil
}

func setPrefillPolicy(c *Config, given string) (err error) {
	if c.KV.Prefiller = (h2o.Spec{}); given == "same" {
		return nil
	}
	if c.KV.Prefiller, err = h2o.ParseSpec(given); err == nil {
		_, err = h2o.Find(c.KV.Prefiller)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "h2o: "))
	}
	return nil
}

func setLayers(c *Config, given string) (err error) {
	if c.KV.Layers, err = h2o.ParseLayers(given); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "h2o: "))
	}
	return nil
}

// cache is what a KV cache is asked for.
func (c *Config) cache(policy h2o.Spec, budget h2o.Budget) h2o.Settings {
	k := c.KV
	return h2o.Settings{Policy: policy, Prefill: k.Prefiller, Prompt: k.Prefill, Budget: budget, Layers: k.Layers, RecentRatio: k.RecentRatio, Sinks: k.Sinks,
		Type: k.Type, Positions: k.Positions, Chunk: k.Chunk}
}

func setBudgets(c *Config, given string) error {
	var budgets []h2o.Budget
	for one := range strings.SplitSeq(given, ",") {
		b, err := h2o.ParseBudget(one)
		if err != nil {
			return err
		}
		budgets = append(budgets, b)
	}
	c.KV.Budget, c.KV.Budgets = budgets[0], budgets
	return nil
}

// oneBudget refuses several budgets for a command that makes nothing of them.
func (c *Config) oneBudget(command string) error {
	if n := len(c.KV.Budgets); n != 1 {
		return usagef("%s: %d budgets, want one; give --budget a single value", command, n)
	}
	return nil
}

func setTypes(c *Config, given string) (err error) {
	if c.KV.Type = given; given != "auto" {
		_, err = h2o.ParseTypes(given)
	}
	return err
}

func setSeed(c *Config, given string) error {
	v, err := strconv.ParseInt(given, 10, 64)
	if err != nil || v < -1 {
		return fmt.Errorf("got %q, want a whole number from 0 to %d, or -1 for a fresh seed", given, int64(math.MaxInt64))
	}
	c.Generate.Seed = v
	return nil
}

func setRepeatPenalty(c *Config, given string) error {
	v, err := strconv.ParseFloat(given, 64)
	if err != nil || v != 0 && !(v >= runtime.MinRepeat && v <= runtime.MaxRepeat) { // NaN fails both
		return fmt.Errorf("got %q, want a number from %v to %v, or 0", given, runtime.MinRepeat, runtime.MaxRepeat)
	}
	c.Generate.RepeatPenalty = v
	return nil
}

// setBias leaves it to the model whether it has such tokens.
func setBias(c *Config, given string) error {
	bias := map[int32]float64{}
	for one := range strings.SplitSeq(given, ",") {
		if strings.TrimSpace(given) == "" {
			break
		}
		id, value, _ := strings.Cut(one, "=")
		token, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
		x, failed := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || failed != nil || token < 0 || !(math.IsInf(x, -1) || math.Abs(x) <= runtime.MaxBias) {
			return fmt.Errorf("got %q, want token id=number, the number from %v to %v or -inf, several separated by commas", one, -runtime.MaxBias, runtime.MaxBias)
		}
		if _, twice := bias[int32(token)]; twice {
			return fmt.Errorf("got two biases for token %d, want one", token)
		}
		bias[int32(token)] = x
	}
	c.Generate.Bias = bias
	return nil
}

func setAddress(c *Config, given string) error {
	_, port, err := net.SplitHostPort(given)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("got %q, want host:port such as 127.0.0.1:8080 (%v)", given, err)
	}
	c.Serve.Address = given
	return nil
}

// didYouMean is the end of an error about an unknown word.
func didYouMean(word string, known []string) string {
	if near := h2o.Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
