// Inputs as uniform texel buffers: ten times faster than storage buffers on lavapipe.
// IN_<TYPE>(binding, Name) declares one, LOAD, LOAD1 and LOAD2 read its four-, one- and two-component elements.
#define IN_FLOAT(b, Name) layout(binding = b) uniform samplerBuffer Name;
#define IN_VEC2(b, Name) layout(binding = b) uniform samplerBuffer Name;
#define IN_VEC4(b, Name) layout(binding = b) uniform samplerBuffer Name;
#define IN_UINT(b, Name) layout(binding = b) uniform usamplerBuffer Name;
#define IN_UVEC2(b, Name) layout(binding = b) uniform usamplerBuffer Name;
#define IN_UVEC4(b, Name) layout(binding = b) uniform usamplerBuffer Name;
#define LOAD(Name, i) texelFetch(Name, int(i))
#define LOAD1(Name, i) texelFetch(Name, int(i)).x
#define LOAD2(Name, i) texelFetch(Name, int(i)).xy

// A fetch costs 45 instructions, a shuffle one: what all lanes need is fetched once and handed on.
const bool SPREAD = true;

// Weight rows that a product of one activation row works on at once: more hide the time that a sum waits for a term.
const uint AT_ONCE = 4;
