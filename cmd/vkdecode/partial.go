package main

import (
	"fmt"
	"os"
)

// partialFile is a file that appears under its name only when it is complete.
type partialFile struct {
	*os.File // path.PID.partial
	path     string
}

// createPartial starts the file at path.
func createPartial(path string) (*partialFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file, and would be replaced; give another name", path)
	}
	file, err := os.OpenFile(fmt.Sprintf("%s.%d.partial", path, os.Getpid()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	return &partialFile{file, path}, nil
}

// Complete gives the file its name. After an error nothing is left behind.
func (p *partialFile) Complete() error {
	err := p.File.Close() // a full disk may show only here
	if err == nil {
		err = os.Rename(p.Name(), p.path)
	}
	if err != nil {
		p.Discard()
	}
	return err
}

// Discard drops what was written. After Complete it does nothing.
func (p *partialFile) Discard() {
	p.File.Close()
	os.Remove(p.Name())
}
