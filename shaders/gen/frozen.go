package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// frozen is a copy of a kernel in storage form with some constants fixed and its loops unrolled here. SwiftShader does not unroll loops
// by itself: such a copy runs several times faster there. Other drivers unroll after specialising and need none.
type frozen struct {
	kernel    string
	weights   []string
	constants []fixed
}

type fixed struct {
	name  string
	value uint32
}

var frozenKernels = []frozen{
	{"matmul", []string{"q4_0", "q4_1", "q8_0", "f16", "q4_k", "q6_k"}, []fixed{{"RUN", 1}, {"ROWS", 16}, {"COLS", 1}}},
	{"matmul", []string{"q4_1", "q8_0"}, []fixed{{"RUN", 1}, {"ROWS", 16}, {"COLS", 4}}},
	{"matmul_int8", []string{"q4_0", "q4_1", "q4_k"}, []fixed{{"ROWS", 16}, {"PAIRS", 4}}},
}

// suffix ends the module's name: "run1.rows16.cols1".
func (f frozen) suffix() string {
	var parts []string
	for _, c := range f.constants {
		parts = append(parts, fmt.Sprintf("%s%d", strings.ToLower(c.name), c.value))
	}
	return strings.Join(parts, ".")
}

// unroll are the passes that leave straight code without arrays. Branches that a weight type never takes go first: a loop
// with a merge that nobody reaches is not unrolled.
var unroll = []string{"--inline-entry-points-exhaustive", "--private-to-local", "--ssa-rewrite", "--ccp", "--eliminate-dead-branches", "--merge-blocks",
	"--loop-unroll", "--scalar-replacement=2000", "--ssa-rewrite", "--ccp", "--eliminate-dead-branches", "--merge-blocks", "--simplify-instructions", "--eliminate-dead-code-aggressive"}

// freeze has the frozen copies of a kernel compiled.
func (k *kernel) freeze(all *compilers) error {
	for _, f := range frozenKernels {
		if f.kernel != k.name {
			continue
		}
		source := k.source
		for _, c := range f.constants {
			re := regexp.MustCompile(`layout\(constant_id = \d+\) const uint ` + c.name + ` = \d+;`)
			if !re.MatchString(source) {
				return fmt.Errorf("frozen constant %s: no such constant", c.name)
			}
			source = re.ReplaceAllString(source, fmt.Sprintf("const uint %s = %d;", c.name, c.value))
		}
		for _, w := range f.weights {
			all.do(k.file, func() error { return freezeOne(f, w, source) })
		}
	}
	return nil
}

func freezeOne(f frozen, weight, source string) error {
	cmd := exec.Command("glslc", append(storage.arguments(weight, ""), "-fshader-stage=compute", "-", "-o", "-")...)
	cmd.Stdin = strings.NewReader(source)
	code, err := output(cmd)
	if err != nil {
		return err
	}
	opt := exec.Command("spirv-opt", append(unroll, "-", "-o", "-")...)
	opt.Stdin = bytes.NewReader(code)
	if code, err = output(opt); err != nil {
		return err
	}
	return os.WriteFile(fmt.Sprintf("spirv/%s.%s.%s.%s.spv", f.kernel, weight, storage.name, f.suffix()), code, 0o644)
}

// bindFrozen writes the table of frozen copies that kernel.go looks into.
func (k *kernel) bindFrozen() string {
	var b strings.Builder
	for _, f := range frozenKernels {
		if f.kernel != k.name {
			continue
		}
		fmt.Fprintf(&b, "{suffix: %q, weights: %#v, constants: map[int]uint32{", f.suffix(), f.weights)
		for _, c := range f.constants {
			for _, known := range k.Constants {
				if known.Name == c.name {
					fmt.Fprintf(&b, "%d: %d,", known.ID, c.value)
				}
			}
		}
		b.WriteString("}},\n")
	}
	return b.String()
}
