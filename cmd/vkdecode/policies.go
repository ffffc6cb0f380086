package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
)

// policyReport is what --kv knows.
type policyReport struct {
	Policies []policyEntry `json:"policies"`
}

type policyEntry struct {
	Name    string         `json:"name"`
	Summary string         `json:"summary"`
	Source  string         `json:"source,omitempty"`
	Options []policyOption `json:"options"`
}

type policyOption struct {
	Key     string `json:"key"`
	Values  string `json:"values"`
	Summary string `json:"summary"`
}

func newPolicies() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "list the KV policies and their options",
		Long: `List the KV policies that --kv and --prefill-policy take, where each comes from,
and the options that stand behind its name, like h2o:score=max:decay=0.999.`,
		Example: `  vkdecode policies
  vkdecode policies --json`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r := newPolicyReport()
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), r)
		}
		return r.print(cmd.OutOrStdout())
	}
	return cmd
}

func newPolicyReport() (r policyReport) {
	for _, p := range h2o.Policies {
		e := policyEntry{Name: p.Name, Summary: p.Summary, Source: p.Source, Options: []policyOption{}}
		for _, o := range p.Parameters {
			e.Options = append(e.Options, policyOption{o.Key, o.Values, o.Summary})
		}
		r.Policies = append(r.Policies, e)
	}
	return r
}

func (r policyReport) print(w io.Writer) (err error) {
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for i, p := range r.Policies {
		if i > 0 {
			line("")
		}
		line("%s: %s", p.Name, p.Summary)
		if p.Source != "" {
			line("  %s", p.Source)
		}
		for _, o := range p.Options {
			line("  %s = %s\n      %s", o.Key, o.Values, o.Summary)
		}
	}
	return err
}
