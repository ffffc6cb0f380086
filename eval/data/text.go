package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Text is one text of a file or folder, which is read only when it is asked for.
type Text struct {
	Name string // of the file, and behind a colon the title where a file holds several

	path         string
	begin, bytes int64
	wiki         bool // in WikiText's form
}

const (
	maxTexts = 1 << 20
	maxTitle = 200 // bytes
)

// Texts lists the texts at a path:
//   - a folder: each file *.txt in it, in the order of their names, as PG-19 has them;
//   - a file of WikiText (wiki.test.tokens, wiki.test.raw): each article, told by the lines " = Title = ";
//   - any other file: its text.
//
// Only their places are held in memory.
func Texts(path string) ([]Text, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if info.IsDir() {
		return folder(path)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("data: %s is neither a file nor a folder", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	name := filepath.Base(path)
	texts, err := articles(f)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", name, err)
	}
	if texts == nil {
		texts = []Text{{bytes: info.Size()}}
	}
	for i, t := range texts {
		texts[i].path = path
		texts[i].Name = name
		if t.Name != "" {
			texts[i].Name += ": " + t.Name
		}
	}
	return texts, nil
}

// folder lists the text files of a folder; those in folders within it are left alone.
func folder(path string) (texts []Text, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	inner := ""
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a link to nowhere, or just deleted
			continue
		case err != nil:
			return nil, fmt.Errorf("data: %w", err)
		case info.IsDir():
			inner = e.Name()
			continue
		case !info.Mode().IsRegular() || !strings.EqualFold(filepath.Ext(name), ".txt") || info.Size() == 0:
			continue
		}
		if len(texts) == maxTexts {
			return nil, fmt.Errorf("data: %s: more than %d texts", path, maxTexts)
		}
		texts = append(texts, Text{Name: e.Name(), path: name, bytes: info.Size()})
	}
	switch {
	case len(texts) > 0:
		return texts, nil
	case inner != "":
		return nil, fmt.Errorf("data: %s: no file *.txt that holds anything; there are folders in it, such as %s: name one", path, inner)
	}
	return nil, fmt.Errorf("data: %s: no file *.txt that holds anything", path)
}

// Bytes is the size of the text in its file.
func (t Text) Bytes() int64 { return t.bytes }

// Read returns at most so many bytes of the text, whole characters.
func (t Text) Read(most int64) (string, error) {
	f, err := os.Open(t.path)
	if err != nil {
		return "", fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	section := io.NewSectionReader(f, t.begin, t.bytes)
	var text []byte
	if t.wiki {
		text, err = readArticle(section, most)
	} else {
		text, err = io.ReadAll(io.LimitReader(section, most))
	}
	if err != nil {
		return "", fmt.Errorf("data: %s: %w", t.Name, err)
	}
	return whole(text, most), nil
}

// whole cuts a text to at most so many bytes, not inside a character. What is no UTF-8 stays as it is.
func whole(text []byte, most int64) string {
	cut := int64(len(text)) > most
	if cut {
		text = text[:most]
	}
	if cut || int64(len(text)) == most {
		for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
			if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
				if !utf8.FullRune(last) {
					text = text[:len(text)-n]
				}
				break
			}
		}
	}
	return string(text)
}
