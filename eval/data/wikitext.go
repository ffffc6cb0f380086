package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// WikiText (arXiv 1609.07843) is text in words: punctuation stands apart, every line begins and ends with a space, and
// " @-@ ", " @,@ ", " @.@ " stand for what joined two words or digits. An article begins with a line " = Title = "
// between two blank ones; " = = Section = = " are headings inside it. In .tokens files rare words are <unk>, in .raw
// files they stand as they are.
//
// A model has learned from ordinary text, so lines are put together again:
//   - "@-@", "@,@" and "@.@" become "-", "," and "." without spaces around them;
//   - no space before , . ; : ! ? ) ] % and 's 't 're 've 'll 'd 'm n't, none after ( [ $ £;
//   - double quotes are taken as opening and closing in turn, with no space on their inner side;
//   - "= =" in headings become "==", and of several blank lines one is kept;
//   - <unk> stays.

// longestLine bounds a line of WikiText, in bytes; a longer one is taken as several. Published ones reach about 10 KiB.
const longestLine = 1 << 16

// lines reads lines of bounded length.
type lines struct {
	*bufio.Reader
	at   int64  // bytes of the lines given
	rest []byte // of a line that was too long
}

func newLines(r io.Reader) *lines { return &lines{Reader: bufio.NewReaderSize(r, longestLine)} }

// next returns a line with its end, valid until the next call, or io.EOF. One that is too long is cut behind a space, or
// at least a character.
func (l *lines) next() ([]byte, error) {
	line, err := l.ReadSlice('\n')
	if len(l.rest) > 0 {
		line, l.rest = append(l.rest, line...), nil
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		cut := bytes.LastIndexByte(line, ' ') + 1
		if cut == 0 {
			cut = len(whole(line, int64(len(line))))
		}
		l.rest, line, err = bytes.Clone(line[cut:]), line[:cut], nil
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	l.at += int64(len(line))
	return line, err
}

// title returns what stands in a line " = Title = ".
func title(line []byte) (string, bool) {
	text := strings.TrimSpace(string(line[:min(len(line), 2*maxTitle)]))
	inner, found := strings.CutPrefix(text, "= ")
	inner, closed := strings.CutSuffix(inner, " =")
	if !found || !closed || inner == "" || len(inner) > maxTitle || inner[0] == '=' || inner[len(inner)-1] == '=' {
		return "", false
	}
	return inner, true
}

// articles finds the articles of a file, nil if its first line that is not blank is no title.
func articles(r io.Reader) (texts []Text, err error) {
	l := newLines(r)
	blank, pending := true, "" // the line before was blank; the title that it was instead
	var pendingAt int64
	finish := func(end int64) {
		if n := len(texts); n > 0 {
			texts[n-1].bytes = end - texts[n-1].begin
		}
	}
	for {
		begin := l.at
		line, err := l.next()
		empty := len(bytes.TrimSpace(line)) == 0
		if pending != "" && (empty || err != nil) {
			finish(pendingAt)
			if len(texts) == maxTexts {
				return nil, fmt.Errorf("more than %d articles", maxTexts)
			}
			texts = append(texts, Text{Name: pending, begin: pendingAt, wiki: true})
		}
		if err != nil {
			finish(begin)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return texts, err
		}
		pending = ""
		if name, ok := title(line); ok && blank {
			pending, pendingAt = name, begin
		} else if !empty && len(texts) == 0 {
			return nil, nil // something before the first title
		}
		blank = empty
	}
}

// readArticle puts an article together, at most so many bytes or a little more.
func readArticle(r io.Reader, most int64) (text []byte, err error) {
	l := newLines(r)
	blank := true
	for int64(len(text)) < most {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		joined := join(strings.Fields(string(line)))
		if joined != "" || !blank {
			text = append(text, joined...)
			text = append(text, '\n')
		}
		blank = joined == ""
	}
	return text, nil
}

// joints are words that stand for what joined their neighbours.
var joints = map[string]string{"@-@": "-", "@,@": ",", "@.@": "."}

// leftward are words without a space before them, rightward without one behind them.
var (
	leftward  = set(", . ; : ! ? ) ] % 's 't 're 've 'll 'd 'm n't 'S")
	rightward = set("( [ $ £")
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// join makes ordinary text of words.
func join(words []string) string {
	var b strings.Builder
	glued, quoted := true, false // no space before the next word; inside quotes
	for i, w := range words {
		after := rightward[w]
		if joint, ok := joints[w]; ok && i > 0 {
			w, glued, after = joint, true, true
		} else if w == `"` {
			glued, after = glued || quoted, !quoted
			quoted = !quoted
		} else if w == "=" && i > 0 && words[i-1] == "=" {
			glued = true
		} else if leftward[w] {
			glued = true
		}
		if !glued {
			b.WriteByte(' ')
		}
		b.WriteString(w)
		glued = after
	}
	return b.String()
}
