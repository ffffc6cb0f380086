package main

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// reflection is what the generator needs to know of one compute module.
type reflection struct {
	Constants []constant // by constant_id, without local_size_x_id
	Push      []field
	PushBytes int
	Bindings  []binding // by binding number
}

type constant struct {
	ID   uint32
	Name string
}

type field struct {
	Name   string
	Offset int
	Float  bool
}

type binding struct {
	Number   uint32
	Name     string
	Texel    bool
	Element  string // float, vec2, vec4, uint, uvec2 or uvec4; empty for texel buffers, whose SPIR-V does not tell
	Readable bool
	Writable bool
}

// SPIR-V opcodes, decorations and storage classes (SPIR-V specification 1.3, section 3).
const (
	opName, opMemberName                         = 5, 6
	opTypeInt, opTypeFloat, opTypeVector         = 21, 22, 23
	opTypeImage, opTypeRuntimeArray              = 25, 29
	opTypeStruct, opTypePointer                  = 30, 32
	opSpecConstant                               = 50
	opVariable, opDecorate, opMemberDecorate     = 59, 71, 72
	decorationSpecID, decorationNonWritable      = 1, 24
	decorationNonReadable, decorationBinding     = 25, 33
	decorationOffset                             = 35
	classUniformConstant, classUniform           = 0, 2
	classPushConstant, classStorageBuffer        = 9, 12
	spirvMagic, spirvHeaderWords             int = 0x07230203, 5
)

type spirvType struct {
	op       uint32
	operands []uint32
}

// reflectModule reads names, constants, push block and bindings from SPIR-V that still has its names.
func reflectModule(code []byte) (*reflection, error) {
	instructions, err := instructionsOf(code)
	if err != nil {
		return nil, err
	}
	var (
		names       = map[uint32]string{}
		memberNames = map[[2]uint32]string{}
		types       = map[uint32]spirvType{}
		decorations = map[[2]uint32]uint32{} // (id, decoration) -> operand
		members     = map[[3]uint32]uint32{} // (struct, member, decoration) -> operand
		variables   [][3]uint32              // pointer type, id, storage class
		constants   []uint32
	)
	for _, in := range instructions {
		op, args := in[0]&0xFFFF, in[1:]
		operand := func(i int) uint32 {
			if i < len(args) {
				return args[i]
			}
			return 0
		}
		switch op {
		case opName:
			names[args[0]] = literal(args[1:])
		case opMemberName:
			memberNames[[2]uint32{args[0], args[1]}] = literal(args[2:])
		case opDecorate:
			decorations[[2]uint32{args[0], args[1]}] = operand(2)
		case opMemberDecorate:
			members[[3]uint32{args[0], args[1], args[2]}] = operand(3)
		case opTypeInt, opTypeFloat, opTypeVector, opTypeImage, opTypeRuntimeArray, opTypeStruct, opTypePointer:
			types[args[0]] = spirvType{op, args[1:]}
		case opVariable:
			variables = append(variables, [3]uint32{args[0], args[1], args[2]})
		case opSpecConstant:
			constants = append(constants, args[1])
		}
	}

	r := &reflection{}
	for _, id := range constants {
		if spec := decorations[[2]uint32{id, decorationSpecID}]; spec != 0 {
			r.Constants = append(r.Constants, constant{spec, names[id]})
		}
	}
	slices.SortFunc(r.Constants, func(a, b constant) int { return int(a.ID) - int(b.ID) })
	for i, c := range r.Constants {
		if int(c.ID) != i+1 {
			return nil, fmt.Errorf("constant %s has id %d, want %d: ids are dense and begin at 1", c.Name, c.ID, i+1)
		}
	}

	for _, v := range variables {
		pointee := types[v[0]].operands[1]
		t := types[pointee]
		switch v[2] {
		case classPushConstant:
			for m, member := range t.operands {
				f := field{memberNames[[2]uint32{pointee, uint32(m)}], int(members[[3]uint32{pointee, uint32(m), decorationOffset}]), types[member].op == opTypeFloat}
				r.Push = append(r.Push, f)
				r.PushBytes = max(r.PushBytes, f.Offset+4)
			}
		case classUniform, classStorageBuffer:
			_, readonly := members[[3]uint32{pointee, 0, decorationNonWritable}]
			_, writeonly := members[[3]uint32{pointee, 0, decorationNonReadable}]
			array := types[t.operands[len(t.operands)-1]]
			if array.op != opTypeRuntimeArray {
				return nil, fmt.Errorf("block %s does not end in an array", names[pointee])
			}
			r.Bindings = append(r.Bindings, binding{
				Number: decorations[[2]uint32{v[1], decorationBinding}], Name: names[pointee],
				Element: elementName(types, array.operands[0]), Readable: !writeonly, Writable: !readonly,
			})
		case classUniformConstant:
			r.Bindings = append(r.Bindings, binding{Number: decorations[[2]uint32{v[1], decorationBinding}], Name: names[v[1]], Texel: true, Readable: true})
		}
	}
	slices.SortFunc(r.Bindings, func(a, b binding) int { return int(a.Number) - int(b.Number) })
	for i, b := range r.Bindings {
		if int(b.Number) != i {
			return nil, fmt.Errorf("binding %s has number %d, want %d: bindings are dense", b.Name, b.Number, i)
		}
	}
	return r, nil
}

func elementName(types map[uint32]spirvType, id uint32) string {
	t, prefix, width := types[id], "", ""
	if t.op == opTypeVector {
		width = fmt.Sprint(t.operands[1])
		t = types[t.operands[0]]
	}
	if t.op == opTypeInt {
		prefix = "u"
	}
	switch {
	case width != "":
		return prefix + "vec" + width
	case prefix == "u":
		return "uint"
	}
	return "float"
}

// wordsOf are the words of a module, little-endian.
func wordsOf(code []byte) (words []uint32) {
	for ; len(code) >= 4; code = code[4:] {
		words = append(words, binary.LittleEndian.Uint32(code))
	}
	return words
}

// instructionsOf are those of a module, each with its first word, which tells operation and length.
func instructionsOf(code []byte) (all [][]uint32, err error) {
	words := wordsOf(code)
	if len(words) < spirvHeaderWords || words[0] != uint32(spirvMagic) {
		return nil, fmt.Errorf("not SPIR-V")
	}
	for at := spirvHeaderWords; at < len(words); {
		count := int(words[at] >> 16)
		if count == 0 || at+count > len(words) {
			return nil, fmt.Errorf("instruction at word %d runs past the end", at)
		}
		all = append(all, words[at:at+count])
		at += count
	}
	return all, nil
}

// literal decodes a SPIR-V string: UTF-8, little-endian words, ended by a zero byte.
func literal(words []uint32) string {
	var s []byte
	for _, w := range words {
		for i := 0; i < 4; i++ {
			if c := byte(w >> (8 * i)); c != 0 {
				s = append(s, c)
			} else {
				return string(s)
			}
		}
	}
	return string(s)
}
