// Command gen compiles the kernels and writes what binds them: spirv/*.spv and kernels_gen.go. It is run in the folder
// of package shaders by `make gen` and needs glslc (Debian packages glslc and spirv-tools).
//
// Optimised SPIR-V has lost its names, so each kernel is compiled twice: once to reflect, once to embed.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// form is an input directory and a reduce directory; its name ends the module's.
type form struct{ name, input, reduce string }

var (
	texel   = form{"texel", "texel", "subgroup"}
	storage = form{"storage", "storage", "subgroup"}
	shared  = form{"shared", "storage", "shared"}
	forms   = []form{texel, storage, shared}
)

// arguments are glslc's for a form, a weight type and a cache type, either of which may be none.
func (f form) arguments(weight, cache string) []string {
	args := []string{"--target-env=vulkan1.1", "-I", ".", "-I", "input/" + f.input, "-I", "reduce/" + f.reduce}
	if weight != "" {
		args = append(args, "-I", "quant/"+weight)
	}
	if cache != "" {
		args = append(args, "-I", "cache/"+cache)
	}
	return args
}

type kernel struct {
	file, name     string // "rms_norm.comp", "rms_norm"
	source         string
	weights, cache bool
	some           []string // weight types that it names by #pragma weights; nil: all
	*reflection
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("gen: ")
	sources, err := filepath.Glob("*.comp")
	if err != nil || len(sources) == 0 {
		log.Fatalf("no kernels here; run it in the folder shaders (%v)", err)
	}
	old, _ := filepath.Glob("spirv/*.spv")
	for _, f := range old {
		check(os.Remove(f))
	}
	kernels, all := make([]kernel, len(sources)), newCompilers()
	for i, f := range sources {
		k, err := build(f, all)
		if err != nil {
			log.Fatalf("%s: %v", f, err)
		}
		kernels[i] = k
	}
	check(all.wait())
	out, err := format.Source(bind(kernels))
	check(err)
	check(os.WriteFile("kernels_gen.go", out, 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// compilers run side by side, one for each CPU.
type compilers struct {
	group sync.WaitGroup
	slots chan struct{}
	once  sync.Once
	err   error // the first one
}

func newCompilers() *compilers { return &compilers{slots: make(chan struct{}, runtime.NumCPU())} }

func (c *compilers) do(what string, job func() error) {
	c.group.Go(func() {
		c.slots <- struct{}{}
		defer func() { <-c.slots }()
		if err := job(); err != nil {
			c.once.Do(func() { c.err = fmt.Errorf("%s: %w", what, err) })
		}
	})
}

func (c *compilers) wait() error {
	c.group.Wait()
	return c.err
}

// build reflects a kernel and has all its variants compiled.
func build(file string, all *compilers) (kernel, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return kernel{}, err
	}
	k := kernel{file: file, name: strings.TrimSuffix(file, ".comp"), source: string(source)}
	k.weights = strings.Contains(k.source, `#include "block.glsl"`)
	k.cache = strings.Contains(k.source, `#include "pack.glsl"`)
	weights, caches := []string{""}, []string{""}
	if k.weights {
		weights = folders("quant")
		if named := k.pragma("weights"); named != nil {
			weights, k.some = named, named
		}
	}
	if k.cache {
		caches = folders("cache")
		if !strings.Contains(k.source, `#include "include/scales.glsl"`) {
			caches = slices.DeleteFunc(caches, scaled)
		}
	}
	if err := k.reflect(weights[0], caches[0]); err != nil {
		return k, err
	}
	for _, w := range weights {
		for _, c := range caches {
			for _, f := range k.forms() {
				all.do(file, func() error { return k.compile(f, w, c) })
			}
		}
	}
	return k, k.freeze(all)
}

// forms are those that a kernel is compiled in: all, or those that it names by #pragma forms.
func (k *kernel) forms() []form {
	named := k.pragma("forms")
	if named == nil {
		return forms
	}
	return slices.DeleteFunc(slices.Clone(forms), func(f form) bool { return !slices.Contains(named, f.name) })
}

// pragma are the words of a pragma, nil if there is none.
func (k *kernel) pragma(name string) []string {
	found := regexp.MustCompile(`(?m)^#pragma ` + name + `\((.*)\)$`).FindStringSubmatch(k.source)
	if found == nil {
		return nil
	}
	return strings.Fields(found[1])
}

// reflect learns the constants and bindings, from the form whose SPIR-V tells the type of every binding.
func (k *kernel) reflect(weight, cache string) error {
	named, err := glslc(append(storage.arguments(weight, cache), "-O0", k.file, "-o", "-"))
	if err != nil {
		return err
	}
	k.reflection, err = reflectModule(named)
	return err
}

// scaled tells whether a cache type has scales: kernels that do not read them are not compiled for it.
func scaled(cache string) bool {
	source, err := os.ReadFile("cache/" + cache + "/pack.glsl")
	check(err)
	return strings.Contains(string(source), "const bool SCALED = true;")
}

func folders(in string) (names []string) {
	entries, err := os.ReadDir(in)
	check(err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (k *kernel) compile(f form, weight, cache string) error {
	name := k.name
	if weight != "" {
		name += "." + weight
	}
	if cache != "" {
		name += "." + cache
	}
	code, err := glslc(append(f.arguments(weight, cache), "-O", k.file, "-o", "-"))
	if err == nil {
		code, err = khronos(code)
	}
	if err != nil {
		return err
	}
	return os.WriteFile("spirv/"+name+"."+f.name+".spv", code, 0o644)
}

func glslc(args []string) ([]byte, error) { return output(exec.Command("glslc", args...)) }

// output runs a compiler and returns what it wrote; its complaints become the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %v\n%s", cmd.Args[0], err, stderr.Bytes())
	}
	return out, nil
}

var formats = map[string]string{
	"float": "R32Float", "vec2": "RG32Float", "vec4": "RGBA32Float",
	"uint": "R32Uint", "uvec2": "RG32Uint", "uvec4": "RGBA32Uint",
}

// bind writes kernels_gen.go.
func bind(kernels []kernel) []byte {
	var b bytes.Buffer
	b.WriteString("// Code generated by shaders/gen from the GLSL in this folder. DO NOT EDIT.\n\npackage shaders\n\nimport (\n\"encoding/binary\"\n\"math\"\n\n\"vkdecode/vk\"\n)\n\n")
	fmt.Fprintf(&b, "// WeightTypes are the weight types that have kernels.\nvar WeightTypes = %#v\n\n", folders("quant"))
	fmt.Fprintf(&b, "// CacheTypes are the types that K and V can be held in.\nvar CacheTypes = %#v\n\n", folders("cache"))
	for _, k := range kernels {
		typeName := camel(k.name)
		fmt.Fprintf(&b, "// %s binds %s.\n//\n%s", typeName, k.file, k.doc())
		fmt.Fprintf(&b, "type %s struct {\nLanes uint32 // workgroup size\n", typeName)
		for _, c := range k.Constants {
			fmt.Fprintf(&b, "%s uint32%s\n", camel(c.Name), k.comment(`constant_id = `+fmt.Sprint(c.ID)+`\)`))
		}
		if len(k.Push) > 0 {
			b.WriteString("\n")
		}
		for _, p := range k.Push {
			fmt.Fprintf(&b, "%s %s%s\n", camel(p.Name), goType(p), k.comment(`^\s+(uint|float) `+p.Name+`;|\{ (uint|float) `+p.Name+`; \}`))
		}
		b.WriteString("\n")
		for _, x := range k.Bindings {
			fmt.Fprintf(&b, "%s vk.Range%s\n", x.Name, k.comment(`IN_\w+\(\d+, `+x.Name+`\)|buffer `+x.Name+` `))
		}
		b.WriteString("}\n\n")

		if k.some != nil {
			fmt.Fprintf(&b, "// %sWeights are the weight types that it has modules for.\nvar %sWeights = %#v\n\n", typeName, typeName, k.some)
		}
		fmt.Fprintf(&b, "var %sInfo = info{name: %q, weights: %v, cache: %v, push: %d, count: %d, bindings: []bindingInfo{\n",
			strings.ToLower(typeName[:1])+typeName[1:], k.name, k.weights, k.cache, k.PushBytes, len(k.Constants)+1)
		for _, x := range k.Bindings {
			access := "Read"
			switch {
			case x.Writable && x.Readable:
				access = "Read | Write"
			case x.Writable:
				access = "Write"
			}
			fmt.Fprintf(&b, "{vk.%s, %s}, // %s\n", formats[x.Element], access, x.Name)
		}
		fmt.Fprintf(&b, "}, frozen: []frozen{\n%s}}\n\n", k.bindFrozen())

		fmt.Fprintf(&b, "// Call implements Kernel.\nfunc (k %s) Call(v Variant) (Call, error) {\n", typeName)
		fmt.Fprintf(&b, "push := make([]byte, %d)\n", k.PushBytes)
		for _, p := range k.Push {
			value := "k." + camel(p.Name)
			if p.Float {
				value = "math.Float32bits(" + value + ")"
			}
			fmt.Fprintf(&b, "binary.LittleEndian.PutUint32(push[%d:], %s)\n", p.Offset, value)
		}
		constants := []string{"k.Lanes"}
		for _, c := range k.Constants {
			constants = append(constants, "k."+camel(c.Name))
		}
		var bindings []string
		for _, x := range k.Bindings {
			bindings = append(bindings, "k."+x.Name)
		}
		fmt.Fprintf(&b, "return %sInfo.call(v, []uint32{%s}, push, []vk.Range{%s})\n}\n\n",
			strings.ToLower(typeName[:1])+typeName[1:], strings.Join(constants, ", "), strings.Join(bindings, ", "))
	}
	return b.Bytes()
}

func goType(f field) string {
	if f.Float {
		return "float32"
	}
	return "uint32"
}

// doc is the comment that heads the kernel, as Go comment lines.
func (k *kernel) doc() string {
	var b strings.Builder
	for line := range strings.Lines(k.source) {
		if strings.HasPrefix(line, "//") {
			b.WriteString(line)
		} else if b.Len() > 0 {
			break
		}
	}
	return b.String()
}

// comment is the trailing comment of the first source line that matches the pattern.
func (k *kernel) comment(pattern string) string {
	re := regexp.MustCompile(pattern)
	for line := range strings.Lines(k.source) {
		if !re.MatchString(line) {
			continue
		}
		if _, c, ok := strings.Cut(line, "//"); ok {
			return " // " + strings.TrimSpace(c)
		}
		break
	}
	return ""
}

// camel turns snake_case and UPPER_CASE into CamelCase; names already in CamelCase stay.
func camel(name string) string {
	if slices.ContainsFunc([]rune(name), func(r rune) bool { return r >= 'a' && r <= 'z' }) && !strings.Contains(name, "_") {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	var b strings.Builder
	for _, part := range strings.Split(strings.ToLower(name), "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
