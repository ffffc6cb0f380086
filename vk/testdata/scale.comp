#version 450
// y = FACTOR * x + push.add over storage buffers, one invocation per element.
// glslc --target-env=vulkan1.1 -O scale.comp -o scale.spv
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FACTOR = 1;
layout(push_constant) uniform Push { uint add; uint n; } push;
layout(binding = 0) readonly buffer X { uint x[]; };  // (n)
layout(binding = 1) writeonly buffer Y { uint y[]; }; // (n)
void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i < push.n) y[i] = FACTOR * x[i] + push.add;
}
