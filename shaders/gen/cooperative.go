package main

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Cooperative matrices as glslc of Debian 12 writes them, by SPV_NV_cooperative_matrix, and as devices of all makers take
// them, by SPV_KHR_cooperative_matrix. The two differ in numbers, in how a layout is told, and in that Khronos' types know
// what a matrix is used for.
const (
	opExtension, opCapability, opConstant = 10, 17, 43
	opConstantTrue, opConstantFalse       = 41, 42

	capabilityNV, capabilityKHR = 5357, 6022
	typeNV, typeKHR             = 5358, 4456 // result, component, scope, rows, columns; KHR: use
	loadNV, loadKHR             = 5359, 4457 // type, result, pointer, stride, column major; KHR: layout, stride
	storeNV, storeKHR           = 5360, 4458 // pointer, object, and the same
	mulAddNV, mulAddKHR         = 5361, 4459

	useA, useB, useAccumulator = 0, 1, 2
)

// khronos makes Khronos' cooperative matrices of NVIDIA's; other modules are left alone. A type of f32 is an accumulator, one
// of f16 with as many rows as that is a factor A, another one a factor B: rows are told apart by their constants.
func khronos(code []byte) ([]byte, error) {
	all, err := instructionsOf(code)
	if err != nil {
		return nil, err
	}
	cooperative, accumulatorRows, uint32Type, float32Type := false, uint32(0), uint32(0), uint32(0)
	columnMajor := map[uint32]uint32{} // by id of a constant that is true or false
	for _, in := range all {
		switch in[0] & 0xFFFF {
		case opCapability:
			cooperative = cooperative || in[1] == capabilityNV
		case opTypeInt:
			if in[2] == 32 && in[3] == 0 {
				uint32Type = in[1]
			}
		case opTypeFloat:
			if in[2] == 32 {
				float32Type = in[1]
			}
		case opConstantTrue, opConstantFalse:
			columnMajor[in[2]] = opConstantFalse - in[0]&0xFFFF
		case typeNV:
			if in[2] == float32Type {
				accumulatorRows = in[4]
			}
		}
	}
	if !cooperative {
		return code, nil
	}
	out := wordsOf(code)[:spirvHeaderWords:spirvHeaderWords]
	first := out[3] // of three ids for the constants 0, 1 and 2
	out[3] += 3
	constants := false
	for _, in := range all {
		op := in[0] & 0xFFFF
		if op == typeNV && !constants {
			constants = true
			for v := range uint32(3) {
				out = append(out, 4<<16|opConstant, uint32Type, first+v, v)
			}
		}
		switch op {
		case opCapability:
			if in[1] == capabilityNV {
				in = []uint32{in[0], capabilityKHR}
			}
		case opExtension:
			if literal(in[1:]) == "SPV_NV_cooperative_matrix" {
				in = append([]uint32{in[0]}, wordsOf([]byte("SPV_KHR_cooperative_matrix\x00\x00"))...) // as many words
			}
		case typeNV:
			use := uint32(useB)
			switch {
			case in[2] == float32Type:
				use = useAccumulator
			case in[4] == accumulatorRows:
				use = useA
			}
			in = append([]uint32{7<<16 | typeKHR}, append(slices.Clone(in[1:]), first+use)...)
		case loadNV, storeNV:
			khr := map[uint32]uint32{loadNV: loadKHR, storeNV: storeKHR}[op]
			stride := 4 // the word of it
			if op == storeNV {
				stride = 3
			}
			major, known := columnMajor[in[stride+1]]
			if !known {
				return nil, fmt.Errorf("a cooperative matrix in memory whose order is no constant")
			}
			moved := slices.Clone(in)
			moved[0], moved[stride], moved[stride+1] = in[0]&^0xFFFF|khr, first+major, in[stride]
			in = moved
		case mulAddNV:
			in = append([]uint32{in[0]&^0xFFFF | mulAddKHR}, in[1:]...)
		}
		out = append(out, in...)
	}
	var b []byte
	for _, w := range out {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b, nil
}
