package eval

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"vkdecode/eval/data"
)

// mostText bounds what is read of a path, in bytes.
const mostText = 512 << 20

// ReadTexts reads all texts at a path, each as one: the files *.txt of a folder, the articles of a WikiText file, or the
// one text of any other file. Blank ones are left out.
func ReadTexts(path string) ([]*Text, error) {
	list, err := data.Texts(path)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	var size int64
	for _, t := range list {
		if size += t.Bytes(); size > mostText {
			return nil, fmt.Errorf("eval: %s holds more than %d MiB of text; name one of its files, or cut it", path, mostText>>20)
		}
	}
	var texts []*Text
	for _, t := range list {
		content, err := t.Read(math.MaxInt64)
		if err != nil {
			return nil, fmt.Errorf("eval: %w", err)
		}
		if strings.TrimSpace(content) != "" {
			texts = append(texts, newText(t.Name, content))
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("eval: text %s is empty", path)
	}
	return texts, nil
}

// ReadWhole reads all texts at a path as one, with a blank line between two.
func ReadWhole(path string) (*Text, error) {
	texts, err := ReadTexts(path)
	if err != nil {
		return nil, err
	}
	if len(texts) == 1 {
		return texts[0], nil
	}
	var parts []string
	for _, t := range texts {
		parts = append(parts, strings.TrimSpace(t.content))
	}
	return newText(filepath.Base(path), strings.Join(parts, gap)), nil
}
