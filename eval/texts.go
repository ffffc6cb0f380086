package eval

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"vkdecode/eval/data"
)

// mostText bounds what is read of a path, in bytes.
const mostText = 512 << 20

// ReadTexts reads the texts at a path: the files *.txt of a folder, each as one, as PG-19 has them; the articles of a
// WikiText file, one after the other; or the text of any other file, its bytes as they are. Blank ones are left out.
func ReadTexts(path string) ([]*Text, error) {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Type() == fs.ModeNamedPipe { // it can be read once, from its beginning
		t, err := ReadText(path)
		return []*Text{t}, err
	}
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
	if !info.IsDir() {
		texts = []*Text{join(filepath.Base(path), texts)}
	}
	return texts, nil
}

// ReadWhole reads the texts at a path as one.
func ReadWhole(path string) (*Text, error) {
	texts, err := ReadTexts(path)
	if err != nil {
		return nil, err
	}
	return join(filepath.Base(path), texts), nil
}

// join makes one text of several, with a blank line between two.
func join(name string, texts []*Text) *Text {
	if len(texts) == 1 && texts[0].Name == name {
		return texts[0]
	}
	var parts []string
	for _, t := range texts {
		parts = append(parts, strings.TrimSpace(t.content))
	}
	return newText(name, strings.Join(parts, gap))
}
