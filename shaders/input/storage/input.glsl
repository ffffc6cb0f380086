// Inputs as read-only storage buffers: the form for GPUs and SwiftShader.
// IN_<TYPE>(binding, Name) declares one, LOAD, LOAD1 and LOAD2 read its four-, one- and two-component elements.
#define INPUT(b, Name, type) layout(std430, binding = b) readonly buffer Name { type data[]; } in##Name;
#define IN_FLOAT(b, Name) INPUT(b, Name, float)
#define IN_VEC2(b, Name) INPUT(b, Name, vec2)
#define IN_VEC4(b, Name) INPUT(b, Name, vec4)
#define IN_UINT(b, Name) INPUT(b, Name, uint)
#define IN_UVEC2(b, Name) INPUT(b, Name, uvec2)
#define IN_UVEC4(b, Name) INPUT(b, Name, uvec4)
#define LOAD(Name, i) in##Name.data[i]
#define LOAD1(Name, i) in##Name.data[i]
#define LOAD2(Name, i) in##Name.data[i]

// A load of what all lanes need costs no more than handing it on.
const bool SPREAD = false;

// Weight rows that a product of one activation row works on at once: compilers order the loads themselves.
const uint AT_ONCE = 1;
