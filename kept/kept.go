// Package kept holds files of what can be made again: compiled pipelines, verdicts, measurements. They are replaced in one
// step, and sealed where damage would not show by itself.
package kept

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
)

// Replace writes a file in one step, so that a reader sees the old or the new one. It makes the folder.
func Replace(path string, data []byte) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, filepath.Base(path))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already after the rename
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// Writable makes a folder and tells why nothing can be written there.
func Writable(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, "probe")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// Read reads a file of at most so many bytes; nil if there is none, or a larger one.
func Read(path string, most int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() // was only read
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil || int64(len(data)) > most {
		return nil
	}
	return data
}

// sealBytes is a SHA-256 in hexadecimal and the end of its line.
const sealBytes = 2*sha256.Size + 1

// Seal puts a line with the SHA-256 of the data before it.
func Seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(append(hex.AppendEncode(nil, sum[:]), '\n'), data...)
}

// Unseal gives the data of a sealed file; nil if they are not what was sealed.
func Unseal(file []byte) []byte {
	if len(file) < sealBytes || !bytes.Equal(Seal(file[sealBytes:]), file) {
		return nil
	}
	return file[sealBytes:]
}
