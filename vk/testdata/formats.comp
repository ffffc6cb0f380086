#version 450
// y = one element of each texel format but RGBA32Uint, in binding order.
// glslc --target-env=vulkan1.1 -O formats.comp -o formats.spv
layout(local_size_x = 1) in;
layout(binding = 0) uniform usamplerBuffer A;          // (1) R32Uint
layout(binding = 1) uniform samplerBuffer B;           // (1) R32Float
layout(binding = 2) uniform usamplerBuffer C;          // (1) RG32Uint
layout(binding = 3) uniform samplerBuffer D;           // (1) RG32Float
layout(binding = 4) uniform samplerBuffer E;           // (1) RGBA32Float
layout(binding = 5) writeonly buffer Y { float y[]; }; // (10)
void main() {
	y[0] = float(texelFetch(A, 0).x);
	y[1] = texelFetch(B, 0).x;
	uvec2 c = texelFetch(C, 0).xy;
	y[2] = float(c.x);
	y[3] = float(c.y);
	vec2 d = texelFetch(D, 0).xy;
	y[4] = d.x;
	y[5] = d.y;
	vec4 e = texelFetch(E, 0);
	y[6] = e.x;
	y[7] = e.y;
	y[8] = e.z;
	y[9] = e.w;
}
