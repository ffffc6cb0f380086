package main

import (
	"strings"
	"testing"

	"vkdecode/h2o"
)

func TestPoliciesListsEveryPolicyAndOption(t *testing.T) {
	printed := vkdecode(t, "policies")
	printed.want(t, exitOK)
	var report policyReport
	vkdecode(t, "policies", "--json").read(t, &report)
	if len(report.Policies) != len(h2o.Policies) {
		t.Fatalf("%d policies, want %d", len(report.Policies), len(h2o.Policies))
	}
	for i, p := range h2o.Policies {
		want := []string{p.Name + ": " + p.Summary, p.Source}
		for _, o := range p.Parameters {
			want = append(want, "  "+o.Key+" = "+o.Values, o.Summary)
		}
		for _, part := range want {
			if !strings.Contains(printed.stdout, part) {
				t.Errorf("stdout does not say %q", part)
			}
		}
		if got := report.Policies[i]; got.Name != p.Name || len(got.Options) != len(p.Parameters) {
			t.Errorf("%+v, want %s with %d options", got, p.Name, len(p.Parameters))
		}
	}
}
