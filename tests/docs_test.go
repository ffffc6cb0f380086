package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vkdecode/eval/data"
	"vkdecode/h2o"
	"vkdecode/tests/drivers"
)

// command is one line of a document that begins with "$ " in a block marked sh, and what the document shows below it.
type command struct {
	where, line string
	shown       []string
}

// commands finds the commands of a document. Blocks with another mark, or none, are not for running.
func commands(name, document string) (found []command) {
	inBlock := false
	for i, line := range strings.Split(document, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = line == "```sh"
		case !inBlock:
		case strings.HasPrefix(line, "$ "):
			found = append(found, command{fmt.Sprintf("%s:%d", name, i+1), line[2:], nil})
		case len(found) > 0 && strings.TrimSpace(line) != "":
			found[len(found)-1].shown = append(found[len(found)-1].shown, line)
		}
	}
	return found
}

// try runs a command and returns what is wrong with it: it fails, or does not print a line that the document shows.
func (c command) try(folder string, environment []string) error {
	cmd := exec.Command("sh", "-ec", c.line)
	cmd.Dir, cmd.Env = folder, environment
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", c.where, c.line, err, out)
	}
	printed := strings.Split(string(out), "\n")
	for i := range printed {
		printed[i] = strings.TrimRight(printed[i], " ")
	}
	for _, line := range c.shown {
		if !slices.Contains(printed, line) {
			return fmt.Errorf("%s: %s: does not print\n%s\nbut\n%s", c.where, c.line, line, out)
		}
	}
	return nil
}

// documents are what users read, by their paths from the module's folder.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil || len(paths) < 4 {
		t.Fatalf("documents %v, want at least 4: %v", paths, err)
	}
	texts := map[string]string{}
	for _, path := range append(paths, "../README.md", "../CONTRIBUTING.md") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimPrefix(path, "../")] = string(b)
	}
	return texts
}

// Every documented command works in an empty folder, without a network, on a machine with the program and a device.
func TestDocumentedCommandsWork(t *testing.T) {
	bin, home := t.TempDir(), t.TempDir()
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "../cmd/vkdecode").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	environment := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "MESA_SHADER_CACHE_DIR="+drivers.MesaCache())
	if device := os.Getenv("VKDECODE_TEST_DEVICE"); device != "" {
		environment = append(environment, "VKDECODE_DEVICE_SELECT="+device)
	}
	count := 0
	for name, text := range documents(t) {
		folder := t.TempDir() // of one document: its commands may build on each other
		for _, c := range commands(name, text) {
			count++
			if err := c.try(folder, environment); err != nil {
				t.Error(err)
			}
		}
	}
	if count < 10 {
		t.Errorf("%d commands documented, want at least 10", count)
	}
}

func TestWrongDocumentsAreFound(t *testing.T) {
	document := "$ false\n```sh\n$ true\n$ echo one\none\n$ echo one\ntwo\n$ exit 3\n```\n```text\n$ false\n```\n"
	var failed []string
	for _, c := range commands("d.md", document) {
		if err := c.try(t.TempDir(), os.Environ()); err != nil {
			failed = append(failed, c.where)
		}
	}
	if want := []string{"d.md:6", "d.md:8"}; !slices.Equal(failed, want) {
		t.Errorf("failed %q, want %q", failed, want)
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	for name, text := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(name), found[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, found[1], err)
			}
		}
	}
}

func TestEveryPolicyIsDocumented(t *testing.T) {
	text := documents(t)["docs/policies.md"]
	for _, p := range h2o.Policies {
		if !strings.Contains(text, "`"+p.Name+"`") {
			t.Errorf("docs/policies.md does not name `%s`", p.Name)
		}
		for _, o := range p.Parameters {
			if !strings.Contains(text, "`"+o.Key+"`") {
				t.Errorf("docs/policies.md does not name option `%s` of %s", o.Key, p.Name)
			}
		}
	}
}

func TestEveryFormOfQuestionsIsDocumented(t *testing.T) {
	text := documents(t)["docs/questions.md"]
	for _, f := range data.Formats {
		if !strings.Contains(text, "| `"+f.Name+"` |") {
			t.Errorf("docs/questions.md does not list `%s`", f.Name)
		}
	}
}

// make help lists every target, and the documents name no other.
func TestDocumentedMakeTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllStringSubmatch(string(makefile), -1)
	var targets []string
	for _, l := range listed {
		targets = append(targets, l[1])
	}
	phony := regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).FindStringSubmatch(string(makefile))
	if phony == nil || !slices.Equal(strings.Fields(phony[1]), targets) {
		t.Errorf("make help lists %q, .PHONY %q", targets, phony)
	}
	for name, text := range documents(t) {
		for _, found := range regexp.MustCompile("(?:`|\\$ )make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
			if !slices.Contains(targets, found[1]) {
				t.Errorf("%s: make %s is no target", name, found[1])
			}
		}
	}
}
