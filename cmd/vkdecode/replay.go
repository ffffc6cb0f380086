package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"vkdecode/replay"
)

func newReplay() *cobra.Command {
	var path string
	var sessions sessionFlags
	cmd := &cobra.Command{
		Use:   "replay LOG",
		Short: "check a log of evictions by doing the run again",
		Long: `Do the run again that left an eviction log (run --evict-log), with its tokens and
its settings, and check two things. The log must be the same, line by line and bit
for bit: that holds on the same device, with the same driver and kernels; of
another one it is said who else went. And at every step the policy's twin on the
CPU must choose the same victims from the scores that are read back.

The model is where the log says, or --model. A run that went on from a session
needs that session's file.

The exit code is 0 if the log holds, 1 if not.`,
		Example: `  vkdecode run model.gguf -f article.txt --evict-log evictions.jsonl
  vkdecode replay evictions.jsonl
  vkdecode replay evictions.jsonl --model copies/model.gguf --device lavapipe --json`,
		Args: cobra.ExactArgs(1),
	}
	bindSettings(cmd, "device")
	cmd.Flags().StringVar(&path, "model", "", "the model is `FILE`, or builtin:, not where the log says")
	cmd.Flags().StringVar(&sessions.load, "load-session", "", "the session that the run went on from is `FILE`")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		result, err := replayLog(cmd, args[0], path, &sessions)
		if err != nil {
			return err
		}
		print := result.print
		if *asJSON {
			print = func(w io.Writer) error { return printJSON(w, result.Result) }
		}
		if err := print(cmd.OutOrStdout()); err != nil {
			return err
		}
		if !result.Holds {
			return fmt.Errorf("replay: %s does not hold", args[0])
		}
		return nil
	}
	return cmd
}

// replayed is a result with what is told of the log beside it.
type replayed struct {
	*replay.Result
	log *replay.Log
}

// replayLog opens what the log names and does the run again.
func replayLog(cmd *cobra.Command, log, path string, sessions *sessionFlags) (_ *replayed, err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	verbose, _ := cmd.Flags().GetCount("verbose")
	from, err := sessions.open()
	if err != nil {
		return nil, err
	}
	defer from.close()
	l, err := replay.Open(log)
	if err != nil {
		return nil, err
	}
	defer l.Close() // was only read
	h := &l.Header
	switch {
	case h.Session != nil && from == nil:
		return nil, fmt.Errorf("replay: %s: the run went on from a session of %d tokens; give its file with --load-session", log, h.Session.Tokens)
	case h.Session == nil && from != nil:
		return nil, fmt.Errorf("replay: %s: the run did not go on from a session; leave --load-session out", log)
	}
	on, err := openModel(ctx, c, cmp.Or(path, h.Model.Path), verbose, stderr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.close()) }()
	if m := on.model; m.Fingerprint != h.Model.Fingerprint {
		return nil, fmt.Errorf("replay: %s: the model was %q with fingerprint %s, this one is %q with fingerprint %s; give the right one with --model", log, h.Model.Name, h.Model.Fingerprint, m.Name, m.Fingerprint)
	}
	s, err := on.model.NewSession(ctx, h.Options())
	if err != nil {
		return nil, fmt.Errorf("replay: %s: %w", log, err)
	}
	defer s.Close()
	on.savePipelineCache(verbose, stderr)
	if from != nil {
		if err := from.restore(s); err != nil {
			return nil, err
		}
		if s.Origin != h.Session.SHA256 {
			return nil, fmt.Errorf("replay: %s: the run went on from a session with SHA-256 %s, this one has %s", log, h.Session.SHA256, s.Origin)
		}
	}
	bar := newProgress(stderr, "replay", int64(l.End.Seen))
	defer bar.done()
	r, err := replay.Run(ctx, l, s, replay.DeviceOf(on.engine), func(done int) { bar.set(int64(done)) })
	if err != nil {
		return nil, fmt.Errorf("replay: %s: %w", log, err)
	}
	return &replayed{r, l}, nil
}

func (r *replayed) print(w io.Writer) error {
	h, end := r.log.Header, r.log.End
	fmt.Fprintf(w, "log      %d prompt and %d new tokens, %d evictions; %s, %s\n", len(h.Prompt), len(end.Tokens), end.Evictions, h.Model.Path, h.KV.Policy)
	fmt.Fprintf(w, "device   %s, %s\n", r.Device, r.Driver)
	switch {
	case r.Difference != nil:
		fmt.Fprintf(w, "lines    the first that differs is line %d\n  log    %s\n  here   %s\n", r.Difference.Line, cmp.Or(clipped(r.Difference.Log), "(it has ended)"), cmp.Or(clipped(r.Difference.Here), "(there is none)"))
	case r.NotComparable != nil:
		fmt.Fprintf(w, "lines    not comparable bit for bit: %s\n", strings.Join(r.NotComparable, "; "))
		fmt.Fprintf(w, "sets     %d evictions in both, %d of them at another step; %d only in the log, %d only here\n", r.Sets.Both, r.Sets.OtherStep, r.Sets.OnlyLog, r.Sets.OnlyHere)
	default:
		fmt.Fprintf(w, "lines    all the same\n")
	}
	if c := r.Choices.First; c != nil {
		fmt.Fprintf(w, "choices  %d are not the twin's; the first after %d tokens, layer %d, KV head %d: %s: positions %v went, the twin's are %v\n", r.Choices.Wrong, c.Step, c.Layer, c.Head, c.Reason, c.Device, c.Expected)
	} else {
		fmt.Fprintf(w, "choices  %d checked, all of them the twin's\n", r.Choices.Checked)
	}
	if n := r.Choices.Unchecked; n > 0 {
		fmt.Fprintf(w, "         %d not checked: decoding does not keep the scores of the prompt's policy\n", n)
	}
	verdict := "the log holds"
	switch {
	case !r.Holds:
		verdict = "the log does not hold"
	case r.NotComparable != nil:
		verdict = "the choices of this device hold; whether the log's lines do can be seen on its own"
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

// clipped is a line that a terminal can show.
func clipped(line string) string {
	const most = 400 // bytes; evictions are shorter
	if len(line) > most {
		return line[:most] + "…"
	}
	return line
}
