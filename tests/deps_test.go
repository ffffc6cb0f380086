package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// levels are the packages from left to right: each imports only what stands to its left. A package that comes later has
// its place here before it exists.
var levels = [][]string{
	{"kept"},
	{"vk"},
	{"shaders"},
	{"runtime"},
	{"h2o"},
	{"model/gguf", "model/tokenizer", "model/builtin", "eval/data"},
	{"model"},
	{"eval", "bench", "serve", "ref", "shaders/gen"},
	{"eval/report", "replay"},
	{"doctor"},
	{"cmd/vkdecode"},
	{"tests", "tests/drivers", "tests/speed"},
}

// alone are the packages that import nothing of ours.
var alone = []string{"kept", "model/gguf", "model/tokenizer", "model/builtin", "eval/data", "ref", "shaders/gen"}

const module = "vkdecode/"

// source is what `go list` says of a package.
type source struct {
	ImportPath, Doc string
	GoFiles         []string
	CgoFiles        []string
	Imports         []string
}

// program tells a package with files outside tests from one that holds tests only.
func (s source) program() bool { return len(s.GoFiles)+len(s.CgoFiles) > 0 }

func level(name string) int {
	return slices.IndexFunc(levels, func(names []string) bool { return slices.Contains(names, name) })
}

// objections lists what is wrong with the packages, in their order. What test files import is free.
func objections(sources []source) (wrong []string) {
	for _, s := range sources {
		name := strings.TrimPrefix(s.ImportPath, module)
		own := level(name)
		if own < 0 {
			wrong = append(wrong, name+" has no level")
		}
		if s.program() && s.Doc == "" {
			wrong = append(wrong, name+" has no package comment")
		}
		for _, path := range s.Imports {
			imported, ours := strings.CutPrefix(path, module)
			switch {
			case !ours:
			case slices.Contains(alone, name):
				wrong = append(wrong, name+" imports "+imported+", want nothing of ours")
			case level(imported) >= own && !strings.HasPrefix(name, "tests"):
				wrong = append(wrong, name+" imports "+imported+", which does not stand to its left")
			}
		}
	}
	return wrong
}

func TestPackagesImportOnlyToTheirLeft(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,CgoFiles,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var sources []source
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var s source
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, s)
	}
	if len(sources) < 10 {
		t.Errorf("go list found %d packages, want at least 10", len(sources))
	}
	for _, wrong := range objections(sources) {
		t.Error(wrong)
	}
}

func TestWrongImportsAreFound(t *testing.T) {
	files := []string{"x.go"}
	got := objections([]source{
		{ImportPath: module + "vk", Doc: "d", GoFiles: files, Imports: []string{"fmt", "vkdecode/runtime"}},
		{ImportPath: module + "h2o", Doc: "d", GoFiles: files, Imports: []string{"vkdecode/runtime", "vkdecode/model"}},
		{ImportPath: module + "model", Doc: "d", GoFiles: files, Imports: []string{"vkdecode/h2o", "vkdecode/tests/drivers"}},
		{ImportPath: module + "model/gguf", Doc: "d", GoFiles: files, Imports: []string{"vkdecode/vk"}},
		{ImportPath: module + "ref", Doc: "d", GoFiles: files, Imports: []string{"vkdecode/h2o"}},
		{ImportPath: module + "serve", Doc: "d", GoFiles: files, Imports: []string{"vkdecode/eval"}},
		{ImportPath: module + "runtime", GoFiles: files},
		{ImportPath: module + "util", Doc: "d", GoFiles: files},
		{ImportPath: module + "tests/drivers", Doc: "d", GoFiles: files, Imports: []string{"vkdecode/tests"}},
		{ImportPath: module + "tests"},
	})
	want := []string{
		"vk imports runtime, which does not stand to its left",
		"h2o imports model, which does not stand to its left",
		"model imports tests/drivers, which does not stand to its left",
		"model/gguf imports vk, want nothing of ours",
		"ref imports h2o, want nothing of ours",
		"serve imports eval, which does not stand to its left",
		"runtime has no package comment",
		"util has no level",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// foreign is what no file may name: folders of somebody's machine, and hosts that a registry's own client knows. (The
// hosts are cut in two, or this file would name them.)
var foreign = regexp.MustCompile(`(?i)(^|[^\w.~-])/(work|root|home|Users|opt|tmp|farm|mnt|srv)/[\w.][\w./-]*` +
	`|pypi` + `\.org|python` + `hosted\.org|registry\.npm` + `js\.org|(proxy|sum|index)\.golang` + `\.org|deb\.debian` + `\.org`)

// innocent is what only looks so: the end of a path in a folder that a test made.
var innocent = []string{"/home/vkdecode/vkdecode.toml"}

// ignored are the folders and files that git ignores.
var ignored = []string{".git", ".cache", "models", "swiftshader/lib", "vkdecode"}

func TestNoFileNamesAMachineOrARegistry(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case slices.Contains(ignored, name) && d.IsDir():
			return filepath.SkipDir
		case slices.Contains(ignored, name) || !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, found := range foreign.FindAllString(string(content), -1) {
			if !slices.Contains(innocent, strings.TrimLeft(found, "\"")) {
				t.Errorf("%s names %q", name, found)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files read, want at least 100: %v", files, err)
	}
}

func TestForeignNamesAreFound(t *testing.T) {
	for _, tail := range []string{"work/main", "root/.cache/x", "home/anna/models", "tmp/x.gguf", "opt/venv/bin/python"} {
		for _, before := range []string{"", "cd ", "\"", "=", "(", "\n"} {
			if text := before + "/" + tail; !foreign.MatchString(text) {
				t.Errorf("%q passes", text)
			}
		}
	}
	for _, host := range []string{"files.python" + "hosted.org", "proxy.golang" + ".org", "registry.npm" + "js.org"} {
		if text := fmt.Sprintf("https://%s/x", host); !foreign.MatchString(text) {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{"frames/work/done", "usr/share/vulkan", "./tmp/x", "and/or", "~/home/x", "tests/root"} {
		if foreign.MatchString(text) {
			t.Errorf("%q does not pass", text)
		}
	}
}
