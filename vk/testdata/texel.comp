#version 450
// y = x.x + 10 x.y + 100 x.z + 1000 x.w of a texel buffer, one invocation per texel.
// glslc --target-env=vulkan1.1 -O texel.comp -o texel.spv
layout(local_size_x_id = 0) in;
layout(binding = 0) uniform usamplerBuffer X;         // (n) uvec4
layout(binding = 1) writeonly buffer Y { uint y[]; }; // (n)
void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= y.length()) return;
	uvec4 x = texelFetch(X, int(i));
	y[i] = x.x + 10 * x.y + 100 * x.z + 1000 * x.w;
}
