package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/tests/drivers"
)

// asProgram makes this test binary the program itself, for tests that need a process of its own.
const asProgram = "VKDECODE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main() // does not return
	}
	cache, err := os.MkdirTemp("", "vkdecode")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("MESA_SHADER_CACHE_DIR", drivers.MesaCache())
	os.Setenv("XDG_CACHE_HOME", cache) // one for all tests, and not the developer's
	code := m.Run()
	os.RemoveAll(cache)
	os.Exit(code)
}

// onDriver is inFolder with one driver to see. Whether it computes right is checked by the tests of that alone.
func onDriver(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	sel := drivers.Use(t, name) // before the test leaves the module's folder
	folder := inFolder(t, files)
	t.Setenv("VKDECODE_DEVICE_SELECT", sel)
	t.Setenv("VKDECODE_DEVICE_NO_CHECK", "true")
	return folder
}

// onFirstDriver is for what does not depend on the driver.
func onFirstDriver(t *testing.T, files map[string]string) string {
	t.Helper()
	return onDriver(t, drivers.Names()[0], files)
}

// eachDriver runs f once per driver.
func eachDriver(t *testing.T, f func(t *testing.T)) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			onDriver(t, name, nil)
			f(t)
		})
	}
}

// program is the command line as a process of its own.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr = exec.CommandContext(t.Context(), self, args...), &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// variant is the built-in model after a change: key returns a key's new value, nil to leave it out;
// tensor adds what it wants of a tensor; more adds more. Without a function all stays as it is.
func variant(t *testing.T, key func(name string, value any) any, tensor func(w *gguf.Writer, v *gguf.Tensor), more ...func(w *gguf.Writer)) string {
	t.Helper()
	f, err := gguf.Parse(builtin.Model)
	if err != nil {
		t.Fatal(err)
	}
	w := new(gguf.Writer)
	for _, name := range f.Keys() {
		value, _ := f.Value(name)
		if key != nil {
			value = key(name, value)
		}
		if value != nil {
			w.Set(name, value)
		}
	}
	for _, add := range more {
		add(w)
	}
	for _, v := range f.Tensors() {
		if tensor != nil {
			tensor(w, v)
			continue
		}
		w.Add(v.Name, v.Type, v.Shape, v.Data)
	}
	return string(w.Bytes())
}

// without leaves out the keys that begin with prefix.
func without(prefix string) func(string, any) any {
	return func(name string, value any) any {
		if strings.HasPrefix(name, prefix) {
			return nil
		}
		return value
	}
}

// with replaces one key.
func with(key string, replacement any) func(string, any) any {
	return func(name string, value any) any {
		if name == key {
			return replacement
		}
		return value
	}
}

// noneLeft fails if a half-written file lies about.
func noneLeft(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob("*.partial"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}
