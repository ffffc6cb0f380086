package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"vkdecode/model/tokenizer"
)

// textStream turns tokens into text as they come, and prints it unless it is quiet. Without a tokenizer it prints ids.
type textStream struct {
	w      io.Writer
	stream *tokenizer.Stream
	quiet  bool
	all    strings.Builder
	ids    int
}

func newText(w io.Writer, t *tokenizer.Tokenizer, quiet bool) *textStream {
	s := &textStream{w: w, quiet: quiet}
	if t != nil {
		s.stream = t.Stream()
	}
	return s
}

func (s *textStream) push(token int32) error {
	if s.stream != nil {
		return s.write(s.stream.Push(token))
	}
	s.ids++
	if s.quiet {
		return nil
	}
	_, err := fmt.Fprintf(s.w, "%d ", token)
	return err
}

func (s *textStream) write(text string) error {
	s.all.WriteString(text)
	if s.quiet || text == "" {
		return nil
	}
	_, err := io.WriteString(s.w, text)
	return err
}

// end prints what is left and a line end, and returns the whole text: empty without a tokenizer.
func (s *textStream) end() (string, error) {
	if s.stream != nil {
		if err := s.write(s.stream.Flush()); err != nil {
			return "", err
		}
	}
	if !s.quiet && (s.ids > 0 || s.all.Len() > 0) {
		if _, err := fmt.Fprintln(s.w); err != nil {
			return "", err
		}
	}
	return s.all.String(), nil
}

// splitIDs splits at commas and white space.
func splitIDs(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
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

func (p *progress) done() {
	if p.bar != nil {
		p.bar.Finish()
	}
}
