// Package report puts the results of evaluations on one page of HTML.
//
// Write makes index.html: tables of every policy at every budget, and the plots that a paper would show. Perplexity by
// budget and by position, memory against quality with the settings that nothing beats, recall of needles by depth and
// context, and accuracy with its confidence intervals. The page is one file: style and plots are inside it, nothing is
// loaded, and no script is needed to read it. It prints, follows the reader's choice of light or dark, keeps its
// colours apart for the colour-blind, and has a table for every plot. Only what was measured is shown.
//
// Read takes the results from JSON lines, as `eval` prints them. Both sides treat what they are given as hostile: names
// are escaped by html/template, figures that cannot be drawn are left out and counted, and Read never panics.
//
//	results, err := report.Read("results.jsonl")
//	results.Title, results.Command = "SmolLM2 at 20%", "vkdecode eval ppl …"
//	err = report.Write("report", results)
package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vkdecode/eval"
)

// File is the name of the page that Write makes.
const File = "index.html"

// Results are what one page shows. What is empty is left out.
type Results struct {
	Title   string    // heading of the page; "Evaluation" if empty
	Command string    // the command line that made the results
	Version string    // of the program
	When    time.Time // when they were made
	Model   string    // if empty, taken from the rows
	Device  string    // if empty, taken from the rows

	Perplexity []eval.Perplexity
	Recall     []eval.Recall
	Accuracy   []eval.Accuracy
}

// Write writes r to index.html in dir, which it makes if it is not there. The page replaces an older one in one step: a
// reader sees the old or the new one, and after an error the old one is still there.
func Write(dir string, r Results) error {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, "page.html", newPage(r)); err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: folder %q cannot be made: %w; name another one", dir, err)
	}
	if err := replace(filepath.Join(dir, File), b.Bytes()); err != nil {
		return fmt.Errorf("report: %s cannot be written to folder %q: %w; name a folder that can be written to", File, dir, err)
	}
	return nil
}

// replace gives path a new content, or leaves it and the folder as they are.
func replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.partial")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already after the rename
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644) // a temporary file is for its owner only, a page is for everybody
	}
	if closed := f.Close(); err == nil {
		err = closed // a full disk may show only here
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
