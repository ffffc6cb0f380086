package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "vkdecode",
		Short: "decode language models on any Vulkan device within a KV budget",
		Long: `vkdecode decodes language models on any Vulkan device with a KV cache that stays
inside a budget you choose.

Results go to standard output, progress and errors to standard error; --json
prints JSON and nothing else. Values come from flags, then VKDECODE_* variables,
then vkdecode.toml, then defaults: see "vkdecode config".

Exit codes: 0 success, also when the reader of standard output leaves early;
1 failure at run time; 2 wrong usage or configuration; 3 the device computes wrong
numbers (see "vkdecode doctor"); 130 interrupted.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.PersistentFlags().String("config", "", "read this `FILE` instead of ./vkdecode.toml or the user's own")
	root.PersistentFlags().CountP("verbose", "v", "say more on standard error; twice for more still")
	root.AddCommand(newBench(), newConfig(), newDevices(), newDoctor(), newEval(), newInspect(), newPlan(), newPolicies(), newReplay(), newRun())
	return root
}

// version is the module's own, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v, revision, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = " " + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = " with local changes"
		}
	}
	return fmt.Sprintf("%s%s%s (%s)", v, revision, dirty, info.GoVersion)
}

// jsonFlag adds --json to a command that calls printJSON when it is set.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print one JSON object")
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
