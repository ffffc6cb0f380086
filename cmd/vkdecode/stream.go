package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"vkdecode/model/tokenizer"
)

// textStream turns tokens into text as they come, and prints it unless it is quiet. Without a tokenizer it prints ids.
// The first failure to print is kept until the end: it cancels the run by itself.
type textStream struct {
	w      io.Writer
	stream *tokenizer.Stream
	quiet  bool
	all    strings.Builder // the text
	shown  bool            // something was printed
	err    error
}

func newText(w io.Writer, t *tokenizer.Tokenizer, quiet bool) *textStream {
	s := &textStream{w: w, quiet: quiet}
	if t != nil {
		s.stream = t.Stream()
	}
	return s
}

func (s *textStream) push(token int32) {
	if s.stream == nil {
		s.print(fmt.Sprintf("%d ", token))
		return
	}
	s.add(s.stream.Push(token))
}

func (s *textStream) add(text string) {
	s.all.WriteString(text)
	s.print(text)
}

func (s *textStream) print(text string) {
	if s.quiet || text == "" || s.err != nil {
		return
	}
	s.shown = true
	_, s.err = io.WriteString(s.w, text)
}

// end prints what is left and a line end, and returns the whole text: empty without a tokenizer.
func (s *textStream) end() (string, error) {
	if s.stream != nil {
		s.add(s.stream.Flush())
	}
	if s.shown {
		s.print("\n")
	}
	return s.all.String(), s.err
}

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(w io.Writer, what string, total int64) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true))}
}

func (p *progress) set(done int64) {
	if p.bar != nil {
		p.bar.Set64(done)
	}
}

func (p *progress) of(done, total int64) {
	if p.bar != nil && total > 0 {
		p.bar.ChangeMax64(total)
		p.bar.Set64(done)
	}
}

// describe says what the work is about now.
func (p *progress) describe(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// clear makes room for a line of output; the bar comes back with the next step.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

func (p *progress) done() {
	if p.bar != nil {
		p.bar.Finish()
	}
}
