// Command vkdecode decodes language models on any Vulkan device with a KV cache
// that stays inside a budget.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// What a shell sees.
const (
	exitOK          = 0
	exitFailure     = 1   // at run time
	exitUsage       = 2   // wrong usage or configuration
	exitUnfit       = 3   // the device computes wrong numbers
	exitInterrupted = 130 // Ctrl-C: 128 + SIGINT
)

// sameSignal is how long one Ctrl-C may take to arrive: parents such as timeout send it to the process and to its group.
const sameSignal = time.Second / 2

func main() {
	// Without this a write to a closed pipe kills the process where it stands.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.Sleep(sameSignal)
		stop() // a second Ctrl-C does not wait
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code. A reader that closes
// stdout early, as head does, has what it wants: the command stops quietly with
// success, unless something else went wrong. Any other failure to write is an error.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	interrupted := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &output{w: stdout, failed: cancel}

	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.ValidateFlagGroups(); err != nil { // cobra's own check comes after this
			return err
		}
		started = true
		return nil
	}
	cmd, err := root.ExecuteContextC(ctx)

	switch {
	case errors.Is(out.err, syscall.EPIPE) && (err == nil || errors.Is(err, syscall.EPIPE) || errors.Is(err, context.Canceled)):
		return exitOK
	case out.err != nil && !errors.Is(out.err, syscall.EPIPE):
		fmt.Fprintf(stderr, "vkdecode: standard output: %v\n", out.err)
		return exitFailure
	case interrupted.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return exitInterrupted
	case err == nil:
		return exitOK
	}
	fmt.Fprintf(stderr, "vkdecode: %v\n", err)
	var wrong usageError
	if !started || errors.As(err, &wrong) {
		fmt.Fprintf(stderr, "Try \"%s --help\".\n", cmd.CommandPath())
		return exitUsage
	}
	if unfit(err) {
		return exitUnfit
	}
	return exitFailure
}

// output keeps the first failure to write and calls failed, which cancels the
// command's context: decoding on for nobody would waste the device.
type output struct {
	w      io.Writer
	failed func()
	err    error
}

func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.err = err
		o.failed()
	}
	return n, err
}

// usageError is a command line or configuration that cannot be right whatever
// the machine: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
