package h2o

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// parameterValues are the values that each parameter must accept, all with different effects, and some that it must refuse.
var parameterValues = []struct {
	key               string
	accepted, refused []string
}{
	{"score", []string{"head", "max", "layer", "guide"}, []string{"Head", "sum", "heads"}},
	{"reduce", []string{"sum", "mean", "max"}, []string{"min", "average", "Sum"}},
	{"decay", []string{"1", "0.5", "0.999", "1e-3"}, []string{"0", "-0.5", "1.0001", "NaN", "inf", "half", "1e-60"}},
	{"norm", []string{"none", "lifetime"}, []string{"life", "true"}},
	{"admit", []string{"compete", "always"}, []string{"never", "yes"}},
	{"grace", []string{"0", "1", "2147483647"}, []string{"-1", "1.5", "2147483648", "x"}},
	{"protect_last", []string{"0", "7"}, []string{"-1", "all"}},
	{"every", []string{"1", "2", "1000", "once"}, []string{"0", "-1", "never", "1.5"}},
	{"seed", []string{"0", "9", "4294967295"}, []string{"-1", "4294967296", "1.5", "x"}},
	{"window", []string{"1", "32", "512"}, []string{"0", "513", "-1", "1.5"}},
	{"kernel", []string{"1", "7", "99"}, []string{"0", "2", "100", "101", "-1", "3.0"}},
	{"pool", []string{"max", "avg"}, []string{"mean", "average", "sum"}},
	{"decode", []string{"h2o", "grow"}, []string{"snapkv", "evict"}},
	{"beta", []string{"1", "20", "1000"}, []string{"0", "-20", "2.5"}},
	{"rounding", []string{"exact", "published"}, []string{"up", "integer"}},
	{"alpha", []string{"0", "0.2", "0.125", "1"}, []string{"-0.1", "1.001", "0.1234", "NaN", "fifth"}},
}

func TestPoliciesTakeTheirParameters(t *testing.T) {
	tested := map[string]bool{}
	for _, policy := range Policies {
		for _, parameter := range policy.Parameters {
			i := slices.IndexFunc(parameterValues, func(v struct {
				key               string
				accepted, refused []string
			}) bool {
				return v.key == parameter.Key
			})
			if i < 0 {
				t.Errorf("%s: no values of %s are tested", policy.Name, parameter.Key)
				continue
			}
			tested[parameter.Key] = true
			found := map[string]string{} // policies by what they do
			for _, value := range parameterValues[i].accepted {
				text := fmt.Sprintf("%s:%s=%s", policy.Name, parameter.Key, value)
				p, err := find(text)
				if err != nil {
					t.Error(err)
					continue
				}
				effect := fmt.Sprintf("%+v", []any{p.Rule, p.Observation, p.Share, p.Beta, p.Published, p.Alpha, p.Renumbers})
				if found[effect] != "" {
					t.Errorf("%s is the same as %s", text, found[effect])
				}
				found[effect] = text
			}
			for _, value := range parameterValues[i].refused {
				text := fmt.Sprintf("%s:%s=%s", policy.Name, parameter.Key, value)
				_, err := find(text)
				if want := fmt.Sprintf("h2o: policy %q: option %s=%s: want %s", policy.Name, parameter.Key, value, parameter.Values); err == nil || err.Error() != want {
					t.Errorf("%s: error %v, want %q", text, err, want)
				}
			}
		}
	}
	for _, v := range parameterValues {
		if !tested[v.key] {
			t.Errorf("no policy has a parameter %s", v.key)
		}
	}
}

func find(text string) (*Policy, error) {
	spec, err := ParseSpec(text)
	if err != nil {
		return nil, err
	}
	return Find(spec)
}

func TestFindingAPolicyLeavesTheTableAlone(t *testing.T) {
	before := fmt.Sprintf("%+v", *snapKV)
	p, err := find("snapkv:window=5:kernel=3:pool=avg:reduce=max:decode=grow")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Observation{Window: 5, Kernel: 3, Average: true}); p.Observation != want || p.Last != 5 || p.Reduce != ReduceMax || p.Every != 0 {
		t.Errorf("%+v", p)
	}
	if after := fmt.Sprintf("%+v", *snapKV); after != before {
		t.Errorf("the table's snapkv became %s", after)
	}
}

func TestParametersThatContradictEachOther(t *testing.T) {
	if _, err := find("h2o:norm=lifetime:decay=0.9"); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Errorf("error %v", err)
	}
	for _, text := range []string{"h2o:norm=lifetime:decay=1", "h2o:norm=none:decay=0.9"} {
		if _, err := find(text); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownParametersAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"snapkv:windw=5": `did you mean "window"?`, "snapkv:alpha=0.2": `policy "snapkv" has no option "alpha", want one of window, kernel, pool, reduce, decode`,
		"full:every=2": "it takes none",
	} {
		if _, err := find(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}
