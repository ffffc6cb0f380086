package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"vkdecode/h2o"
)

// Lines of a log are never longer: a header holds the ids of its prompt.
const mostLine = 256 << 20 // bytes

// Open reads the first and the last line of a log.
func Open(path string) (_ *Log, err error) {
	l := &Log{Path: path}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("replay: %s: %w", path, err), l.Close())
		}
	}()
	if l.file, err = os.Open(path); err != nil {
		return nil, err
	}
	if info, err := l.file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file, and it is read twice; copy it into one")
	}
	r := &lines{r: bufio.NewReaderSize(l.file, 1<<20)}
	first, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	if err := strict(first, &l.Header); err != nil {
		return nil, fmt.Errorf("line 1 is no header of a log of evictions: %w; logs have one since they can be replayed", err)
	}
	if err := l.Header.check(); err != nil {
		return nil, err
	}
	last := []byte(nil)
	for {
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		last = append(last[:0], line...)
	}
	if err := strict(last, &l.End); err != nil || l.End.Kind != kindEnd {
		return nil, fmt.Errorf("line %d is no end: the run did not finish, or the log was cut", r.number)
	}
	if base := l.Header.base(); l.End.Seen < base || l.End.Seen > l.Header.Length || l.End.Evictions < 0 || len(l.End.Tokens) > l.Header.Length+1 {
		return nil, fmt.Errorf("%d tokens seen and %d decoded, %d evictions, in a session for %d tokens", l.End.Seen, len(l.End.Tokens), l.End.Evictions, l.Header.Length)
	}
	return l, nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	return l.file.Close()
}

// evictions begins to read the lines between header and end.
func (l *Log) evictions() (*lines, error) {
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r := &lines{r: bufio.NewReaderSize(l.file, 1<<20)}
	if _, err := r.next(); err != nil {
		return nil, err
	}
	return r, nil
}

// lines reads a file line by line.
type lines struct {
	r      *bufio.Reader
	number int    // of the last line, from 1
	held   []byte // a line that was looked at
	buffer []byte
}

// next is the next line, without its end, good until the next call. After the last one it is io.EOF.
func (l *lines) next() ([]byte, error) {
	if l.held != nil {
		line := l.held
		l.held = nil
		return line, nil
	}
	l.buffer = l.buffer[:0]
	for {
		piece, err := l.r.ReadSlice('\n')
		l.buffer = append(l.buffer, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(l.buffer) < mostLine:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("line %d has more than %d bytes", l.number+1, mostLine)
		case errors.Is(err, io.EOF) && len(l.buffer) > 0:
			return nil, fmt.Errorf("line %d has no end", l.number+1)
		case err != nil:
			return nil, err
		}
		l.number++
		return l.buffer[:len(l.buffer)-1], nil
	}
}

// eviction is the next line if it is an eviction; the end, and what is no eviction, is left there.
func (l *lines) eviction() (line []byte, e h2o.Eviction, err error) {
	line, err = l.next()
	if err != nil {
		return nil, e, err
	}
	if err := strict(line, &e); err != nil {
		l.held = line
		return nil, e, io.EOF
	}
	return line, e, nil
}

// strict decodes a line that holds one object, with no field that is not known.
func strict(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one object")
	}
	return nil
}
