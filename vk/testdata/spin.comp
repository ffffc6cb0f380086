#version 450
// x = 16 push.rounds steps of a chain that no compiler can shorten: work that takes a chosen time. One workgroup per x.
// Rounds stay below 65,536: llvmpipe silently ends an invocation's loops after that many iterations, all loops together.
// glslc --target-env=vulkan1.1 -O spin.comp -o spin.spv
layout(local_size_x = 1) in;
layout(push_constant) uniform Push { uint rounds; } push;
layout(binding = 0) buffer X { uint x[]; }; // (workgroups)
#define STEP h = (h ^ (h >> 13)) * 0x5bd1e995u + i;
#define STEPS STEP STEP STEP STEP
void main() {
	uint h = x[gl_WorkGroupID.x];
	for (uint i = 0; i < push.rounds; i++) { STEPS STEPS STEPS STEPS }
	x[gl_WorkGroupID.x] = h;
}
