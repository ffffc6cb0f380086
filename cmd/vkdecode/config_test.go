package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vkdecode/h2o"
)

const everything = `
# all keys
[device]
select = 1
validation = true
no_check = true
precision = "int8"
gpu_layers = 12

[kv]
policy = "streaming"
prefill_policy = "h2o"
prefill = "bounded"
budget = 1024
recent_ratio = 0.25
sinks = 8
type = "f32"
positions = "original"
ctx = 4096
chunk = 64

[[kv.layers]]
layers = "0-9"
budget = "30%"
recent_ratio = 0.7

[[kv.layers]]
layers = 12
budget = 64

[[kv.layers]]
layers = "10-11"
recent_ratio = 1

[generate]
max_new_tokens = 16
temperature = 0
top_k = 5
top_p = 0.5
min_p = 0.1
repeat_penalty = 1.1
presence_penalty = 0.5
frequency_penalty = -0.25
repeat_last = 32
logit_bias = "11=-2.5,13=-inf"
seed = 42

[serve]
address = ":80"
`

// origins runs "config --json" and returns value and source of each key.
func origins(t *testing.T, args ...string) map[string]string {
	t.Helper()
	r := vkdecode(t, append([]string{"config", "--json"}, args...)...)
	r.want(t, exitOK)
	var report configReport
	r.read(t, &report)
	got := map[string]string{}
	for _, s := range report.Settings {
		var value bytes.Buffer
		if err := json.Compact(&value, s.Value); err != nil {
			t.Fatal(err)
		}
		got[s.Key] = fmt.Sprintf("%s from %s", &value, s.Source)
	}
	if len(got) != len(settings) {
		t.Errorf("%d settings, want %d", len(got), len(settings))
	}
	return got
}

func TestFlagsBeatVariablesBeatTheFileBeatDefaults(t *testing.T) {
	inFolder(t, map[string]string{"vkdecode.toml": "[kv]\nbudget = \"10%\"\nchunk = 32\nsinks = 2\n"})
	t.Setenv("VKDECODE_KV_BUDGET", "30%")
	t.Setenv("VKDECODE_KV_CHUNK", "16")
	got := origins(t, "--budget", "40%")
	for key, want := range map[string]string{
		"kv.budget": `"40%" from --budget`,
		"kv.chunk":  `16 from VKDECODE_KV_CHUNK`,
		"kv.sinks":  `"2" from vkdecode.toml:4`,
		"kv.type":   `"auto" from default`,
	} {
		if got[key] != want {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
}

func TestTheFirstFileFoundCounts(t *testing.T) {
	inFolder(t, map[string]string{
		"given.toml":                  "[kv]\nchunk = 1\n",
		"vkdecode.toml":               "[kv]\nchunk = 2\n",
		"home/vkdecode/vkdecode.toml": "[kv]\nchunk = 3\n",
		"empty/nothing":               "",
	})
	if got, want := origins(t, "--config", "given.toml")["kv.chunk"], "1 from given.toml:2"; got != want {
		t.Errorf("given: %s, want %s", got, want)
	}
	if got, want := origins(t)["kv.chunk"], "2 from vkdecode.toml:2"; got != want {
		t.Errorf("in the folder: %s, want %s", got, want)
	}
	t.Chdir("empty")
	if got := origins(t)["kv.chunk"]; !strings.HasPrefix(got, "3 from /") || !strings.HasSuffix(got, "/home/vkdecode/vkdecode.toml:2") {
		t.Errorf("the user's: %s", got)
	}
}

func TestTheFileSetsEveryKey(t *testing.T) {
	inFolder(t, map[string]string{"vkdecode.toml": everything})
	for key, origin := range origins(t) {
		if !strings.Contains(origin, "from vkdecode.toml:") && key != "kv.layers" {
			t.Errorf("%s is %s, want it from the file", key, origin)
		}
	}
}

func TestEverySettingHasItsVariableAndFlag(t *testing.T) {
	inFolder(t, nil)
	for _, s := range settings {
		t.Run(s.key, func(t *testing.T) {
			t.Setenv(s.env(), s.initial)
			if got, want := origins(t)[s.key], "from "+s.env(); !strings.HasSuffix(got, want) {
				t.Errorf("%s, want it %s", got, want)
			}
			if got, want := origins(t, "--"+s.flag+"="+s.initial)[s.key], "from --"+s.flag; !strings.HasSuffix(got, want) {
				t.Errorf("%s, want it %s", got, want)
			}
		})
	}
}

// What "config" prints is a file that gives the same configuration.
func TestConfigPrintsAFileThatReadsBack(t *testing.T) {
	inFolder(t, map[string]string{"all.toml": everything})
	values := func(got map[string]string) map[string]string {
		for key, origin := range got {
			got[key], _, _ = strings.Cut(origin, " from ")
		}
		return got
	}
	want := values(origins(t, "--config", "all.toml", "--device", "a \"quoted\" \x07 name é"))
	printed := vkdecode(t, "config", "--config", "all.toml", "--device", "a \"quoted\" \x07 name é")
	printed.want(t, exitOK)
	inFolder(t, map[string]string{"vkdecode.toml": printed.stdout})
	if diff := cmp.Diff(want, values(origins(t))); diff != "" {
		t.Errorf("want - got +:\n%s", diff)
	}
}

// Tables say what some layers have of their own: in the file, in a variable, in a flag and in what "config" prints.
func TestLayersHaveTablesOfTheirOwn(t *testing.T) {
	const file, text = "[[kv.layers]]\nlayers = \"0-9\"\nbudget = \"30%\"\nrecent_ratio = 0.7\n\n[[kv.layers]]\nlayers = 10\nbudget = 64\n", "0-9:budget=30%:recent_ratio=0.7,10:budget=64"
	const values = `[{"budget":"30%","layers":"0-9","recent_ratio":0.7},{"budget":"64","layers":"10"}]`
	inFolder(t, map[string]string{"given.toml": file, "inline.toml": "kv.layers = [{layers = \"0-9\", budget = \"30%\", recent_ratio = 0.7}, {layers = 10, budget = 64}]\n", "none.toml": "[kv]\nlayers = []\n"})
	for _, c := range []struct{ args, want string }{
		{"--config given.toml", values + " from given.toml"},
		{"--config inline.toml", values + " from inline.toml"},
		{"--config given.toml --kv-layers=" + text, values + " from --kv-layers"},
		{"--config given.toml --kv-layers 0-9:budget=30%:recent_ratio=0.7 --kv-layers 10:budget=64", values + " from --kv-layers"},
		{"--config given.toml --kv-layers=", "[] from --kv-layers"},
		{"--config none.toml", "[] from none.toml"},
		{"", "[] from default"},
	} {
		if got := origins(t, strings.Fields(c.args)...)["kv.layers"]; got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}
	const printed = "\nchunk = 256                      # default\n\n[[kv.layers]]                    # given.toml\nlayers = \"0-9\"\nbudget = \"30%\"\nrecent_ratio = 0.7\n\n[[kv.layers]]                    # given.toml\nlayers = \"10\"\nbudget = \"64\"\n\n[generate]\n"
	if r := vkdecode(t, "config", "--config", "given.toml"); !strings.Contains(r.stdout, printed) {
		t.Errorf("printed\n%s\nwant in it\n%s", r.stdout, printed)
	}
	t.Setenv("VKDECODE_KV_LAYERS", text)
	if got := origins(t)["kv.layers"]; got != values+" from VKDECODE_KV_LAYERS" {
		t.Error(got)
	}
}

func TestMistakesInTheFileNameTheirLine(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"[kv]\npolicy = \"h2o\"\nbugdet = \"20%\"\n", `f.toml:3: unknown key "kv.bugdet"; did you mean "kv.budget"?`},
		{"\n\nbudget = 1\n", `f.toml:3: unknown key "budget"; did you mean "kv.budget"?`},
		{"[generate]\nbudget = 1\n", `f.toml:2: unknown key "generate.budget"; did you mean "kv.budget"?`},
		{"[serv]\naddress = \":1\"\n", `f.toml:1: unknown key "serv"; did you mean "serve"?`},
		{"[kv]\nzebra = 1\n", `f.toml:2: unknown key "kv.zebra"; known are device.select, `},
		{"[kv.budget]\nshare = 1\n", `f.toml:1: kv.budget: got a section, want a string or a whole number`},
		{"[kv]\nrecent_ratio = \"0.5\"\n", `f.toml:2: kv.recent_ratio: got the string "0.5", want a number`},
		{"[kv]\nchunk = 2.5\n", `f.toml:2: kv.chunk: got 2.5, want a whole number`},
		{"[kv]\nbudget = 0.2\n", `f.toml:2: kv.budget: got 0.2, want a string or a whole number`},
		{"[kv]\npolicy = [\"h2o\"]\n", `f.toml:2: kv.policy: got an array, want a string`},
		{"[kv]\npolicy = 1979-05-27\n", `f.toml:2: kv.policy: got a date, want a string`},
		{"[device]\nvalidation = \"yes\"\n", `f.toml:2: device.validation: got the string "yes", want true or false`},
		{"[device]\nvalidation = 1\n", `f.toml:2: device.validation: got 1, want true or false`},
		{"[kv]\nchunk = 0\n", `f.toml:2: kv.chunk: got "0", want a whole number from 1`},
		{"[kv]\nchunk = 99999999999\n", `f.toml:2: kv.chunk: got "99999999999"`},
		{"[kv]\nrecent_ratio = nan\n", `f.toml:2: kv.recent_ratio: got "NaN", want a number from 0 to 1`},
		{"[kv]\nbudget = \"120%\"\n", `f.toml:2: kv.budget: h2o: budget "120%": more than the whole context`},
		{"[kv]\npolicy = \"h20\"\n", `f.toml:2: kv.policy: unknown policy "h20", want one of ` + strings.Join(h2o.Names(), ", ") + `; did you mean "h2o"?`},
		{"[kv]\npositions = \"cach\"\n", `f.toml:2: kv.positions: got "cach", want auto, original, cache; did you mean "cache"?`},
		{"[kv]\nlayers = \"0-9:budget=8\"\n", `f.toml:2: kv.layers: got the string "0-9:budget=8", want tables [[kv.layers]]`},
		{"[kv.layers]\nbudget = 1\n", `f.toml:1: kv.layers: got a section, want tables [[kv.layers]]`},
		{"[kv]\nlayers = [1, {layers = 3}]\n", `f.toml:2: kv.layers: got an array, want tables [[kv.layers]]`},
		{"[[kv.layers]]\nlayers = 1\nbugdet = 1\n", `f.toml: table 1 of [[kv.layers]]: unknown key "bugdet"; did you mean "budget"?`},
		{"[[kv.layers]]\nlayers = 1\nzebra = 1\n", `f.toml: table 1 of [[kv.layers]]: unknown key "zebra"; known are layers, budget, recent_ratio`},
		{"[[kv.layers]]\nbudget = 1\n", `f.toml: table 1 of [[kv.layers]]: layers is missing`},
		{"[[kv.layers]]\nlayers = 1\n", `f.toml: table 1 of [[kv.layers]]: layers "1": they have nothing of their own`},
		{"[[kv.layers]]\nlayers = 1.5\nbudget = 1\n", `f.toml: table 1 of [[kv.layers]]: layers: got 1.5, want a string or a whole number`},
		{"[[kv.layers]]\nlayers = 1\nbudget = 0.2\n", `f.toml: table 1 of [[kv.layers]]: budget: got 0.2, want a string or a whole number`},
		{"[[kv.layers]]\nlayers = 1\nrecent_ratio = \"0.5\"\n", `f.toml: table 1 of [[kv.layers]]: recent_ratio: got the string "0.5", want a number`},
		{"[[kv.layers]]\nlayers = 1\nbudget = \"2:recent_ratio=1\"\n", `f.toml: table 1 of [[kv.layers]]: budget: got "2:recent_ratio=1", which holds one of , : =`},
		{"[[kv.layers]]\nlayers = \"0,2\"\nbudget = 2\n", `f.toml: table 1 of [[kv.layers]]: layers: got "0,2", which holds`},
		{"[[kv.layers]]\nlayers = 1\nbudget = 2\n[[kv.layers]]\nlayers = \"2-1\"\nbudget = 2\n", `f.toml: table 2 of [[kv.layers]]: layers "2-1:budget=2": from 2 to 1 is no range`},
		{"[[kv.layers]]\nlayers = \"1-3\"\nbudget = 2\n[[kv.layers]]\nlayers = 3\nrecent_ratio = 1\n", `f.toml: table 2 of [[kv.layers]]: layers "3:recent_ratio=1": layer 3 is in "1-3:budget=2", too`},
		{"[[kv.layers]]\nlayers = 1\nrecent_ratio = nan\n", `f.toml: table 1 of [[kv.layers]]: layers "1:recent_ratio=NaN": recent_ratio "NaN", want a number from 0 to 1`},
		{"[[kv]]\nchunk = 1\n", `f.toml:1: kv: want a section [kv]`},
		{"kv = 3\n", `f.toml:1: kv: want a section [kv]`},
		{"kv.chunk = 1\n[generate\n", `f.toml:3: `},
		{"[kv]\nchunk = 1\nchunk = 2\n", `f.toml:3: `},
		{"kv = \xff", `f.toml:1: `},
	} {
		inFolder(t, map[string]string{"f.toml": c.file})
		vkdecode(t, "config", "--config", "f.toml").want(t, exitUsage, "config: "+c.want)
	}
}

func TestDottedAndInlineKeysAreTheSame(t *testing.T) {
	inFolder(t, map[string]string{"vkdecode.toml": "kv.chunk = 7\ngenerate = { seed = 3, top_k = 2 }\n"})
	got := origins(t)
	for key, want := range map[string]string{
		"kv.chunk": "7 from vkdecode.toml:1", "generate.seed": "3 from vkdecode.toml:2", "generate.top_k": "2 from vkdecode.toml:2",
	} {
		if got[key] != want {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
}

func TestMistakesInVariablesNameThem(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"VKDECODE_KV_CHUNK":  {"many", `config: VKDECODE_KV_CHUNK: kv.chunk: got "many"`},
		"VKDECODE_KV_BUGDET": {"20%", `config: unknown variable VKDECODE_KV_BUGDET; did you mean "VKDECODE_KV_BUDGET"?`},
	} {
		t.Run(name, func(t *testing.T) {
			inFolder(t, nil)
			t.Setenv(name, c.text)
			vkdecode(t, "config").want(t, exitUsage, c.want)
		})
	}
	inFolder(t, nil)
	t.Setenv("VKDECODE_DEBUG", "2") // read elsewhere, no setting
	vkdecode(t, "config").want(t, exitOK)
}
