package main

import (
	"slices"

	"github.com/spf13/cobra"
)

// bindSettings gives cmd the flags of the named sections ("kv") and of single
// settings ("kv.ctx").
func bindSettings(cmd *cobra.Command, wanted ...string) {
	for _, s := range settings {
		if !slices.Contains(wanted, s.section()) && !slices.Contains(wanted, s.key) {
			continue
		}
		usage := s.help
		if s.kind != truth {
			usage += " (default " + s.initial + ")"
		}
		f := cmd.Flags().VarPF(&flagText{setting: s}, s.flag, s.short, usage)
		if s.kind == truth {
			f.NoOptDefVal = "true"
		}
		words := s.words
		err := cmd.RegisterFlagCompletionFunc(s.flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return words, cobra.ShellCompDirectiveNoFileComp
		})
		if err != nil {
			panic(err) // a flag bound twice
		}
	}
}

// flagText is a flag's text, checked when the command line is parsed.
type flagText struct {
	setting setting
	text    string
}

func (f *flagText) String() string { return f.text }

// Type is what the help calls the argument.
func (f *flagText) Type() string {
	if f.setting.kind == truth {
		return "bool"
	}
	return f.setting.arg
}

// Set takes a text. Tables are added to those that were given before.
func (f *flagText) Set(given string) error {
	if f.setting.kind == tables && f.text != "" && given != "" {
		given = f.text + "," + given
	}
	if err := f.setting.set(new(Config), given); err != nil {
		return err
	}
	f.text = given
	return nil
}
