package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "show the effective configuration and where each value comes from",
		Long: `Show the effective configuration and where each value comes from. The output is
a valid vkdecode.toml.

Flags beat VKDECODE_* variables (VKDECODE_KV_BUDGET sets kv.budget), which beat
the file, which beats the defaults. The file is the first of: the one given with
--config, ./vkdecode.toml, vkdecode/vkdecode.toml in your configuration folder.`,
		Example: `  vkdecode config > vkdecode.toml
  VKDECODE_KV_BUDGET=512MiB vkdecode config --json`,
		Args: cobra.NoArgs,
	}
	bindSettings(cmd, sections()...)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), c.report())
		}
		return c.print(cmd.OutOrStdout())
	}
	return cmd
}

// configReport is the configuration in JSON.
type configReport struct {
	File     string           `json:"file"` // empty when none was found
	Settings []settingOrigins `json:"settings"`
}

type settingOrigins struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
	Source string          `json:"source"` // default, FILE:LINE, a variable or a flag
	Flag   string          `json:"flag"`
	Env    string          `json:"env"`
}

func (c *configuration) report() configReport {
	r := configReport{File: c.file}
	for _, s := range settings {
		v := c.values[s.key]
		r.Settings = append(r.Settings, settingOrigins{s.key, s.literal(v.text), v.source, "--" + s.flag, s.env()})
	}
	return r
}

// print writes the configuration as TOML with the sources in comments.
func (c *configuration) print(w io.Writer) error {
	from := "no configuration file"
	if c.file != "" {
		from = "file " + c.file
	}
	if _, err := fmt.Fprintf(w, "# %s\n", from); err != nil {
		return err
	}
	section := ""
	for _, s := range settings {
		if s.section() != section {
			section = s.section()
			if _, err := fmt.Fprintf(w, "\n[%s]\n", section); err != nil {
				return err
			}
		}
		if err := s.print(w, c.values[s.key]); err != nil {
			return err
		}
	}
	return nil
}

func (s setting) print(w io.Writer, v value) error {
	rows := s.tables(v.text)
	for _, row := range rows {
		if _, err := fmt.Fprintf(w, "\n%-32s # %s\n", "[["+s.key+"]]", v.source); err != nil {
			return err
		}
		for i, given := range row {
			if given == nil {
				continue
			}
			if _, err := fmt.Fprintf(w, "%s = %s\n", s.columns[i].name, given); err != nil {
				return err
			}
		}
	}
	if rows != nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "%-32s # %s\n", fmt.Sprintf("%s = %s", s.name(), s.literal(v.text)), v.source)
	return err
}

// literal writes a value the way both TOML and JSON read it.
func (s setting) literal(text string) json.RawMessage {
	if s.kind == tables {
		return s.tablesJSON(text)
	}
	return s.kind.literal(text)
}

func (k kind) literal(text string) json.RawMessage {
	switch k {
	case truth:
		v, _ := strconv.ParseBool(text) // was checked
		return strconv.AppendBool(nil, v)
	case whole, number:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return strconv.AppendInt(nil, n, 10)
		}
		v, _ := strconv.ParseFloat(text, 64) // was checked; "0x1p-2" is no JSON
		written, _ := json.Marshal(v)
		return written
	}
	quoted, _ := json.Marshal(text) // every escape of JSON is one of TOML
	return quoted
}
