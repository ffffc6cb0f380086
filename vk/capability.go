package vk

import "encoding/binary"

// capabilities of SPIR-V that kernels may ask for and devices may not have.
var capabilities = []struct {
	number uint32
	name   string
	has    func(DeviceInfo) bool
}{
	{9, "arithmetic in f16 (shaderFloat16)", func(i DeviceInfo) bool { return i.Features.Float16 }},
	{6022, "cooperative matrices of f16 with sums of f32 (VK_KHR_cooperative_matrix)", func(i DeviceInfo) bool { return i.Limits.Matrix[0] > 0 }},
}

// Lacks names what a module asks for that a device does not have; empty if there is nothing.
func (m *Module) Lacks(info DeviceInfo) string {
	const header, opCapability, words = 20, 17, 2
	for at := header; at+4*words <= len(m.Code); at += 4 * words { // capabilities come before all else
		if binary.LittleEndian.Uint32(m.Code[at:]) != words<<16|opCapability {
			break
		}
		for _, c := range capabilities {
			if c.number == binary.LittleEndian.Uint32(m.Code[at+4:]) && !c.has(info) {
				return c.name
			}
		}
	}
	return ""
}
