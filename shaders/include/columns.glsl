// Probabilities that queries give slots, by slots: a lane has DEPTH of them and unpacks their keys once for all queries, an
// element of which is the same for all lanes. p = exp(q k - m) / sum, with the m and the sum that attention left in Norms
// for each query. The kernel that includes it has the constants DEPTH, QUADS, K_TYPE and ROPE_DIM, `k_plane` and `ranks`
// among its push constants, and the inputs that are named here.
#include "include/placed.glsl"

vec4 keys[DEPTH * QUADS];
float given[DEPTH]; // by one query, to the slots of the lane

// Slot number s of the lane's, of those of a workgroup that begin at `begin`.
uint own_slot(uint begin, uint s) { return begin + s * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }

// Unpacks the lane's keys of a head; slots past the live ones repeat the last one.
void take_keys(uint begin, uint live, Head h) {
    [[unroll]] for (uint s = 0; s < DEPTH; s++) {
        uint slot = min(own_slot(begin, s), live - 1), at = h.offset + slot, place = 0;
        if (ROPE_DIM > 0) place = place_of(slot, h.offset, h.live);
        [[unroll]] for (uint p = 0; p < QUADS >> K_TYPE; p++) {
            uvec4 packed = LOAD(K, at * (QUADS >> K_TYPE) + p);
            uint quad = p << K_TYPE, word = scale_word(at, QUADS, quad / 8);
            float scale = 1;
            if (has_scales(K_TYPE)) scale = scale_of(LOAD(K, push.k_plane + word / 4), word, quad / 8);
            [[unroll]] for (uint n = 0; n < 1 << K_TYPE; n++) {
                vec4 k = quad_of(K_TYPE, packed, n);
                if (has_scales(K_TYPE)) k *= scale;
                if (ROPE_DIM > 0) k = turned(k, place, quad + n);
                keys[s * QUADS + quad + n] = k;
            }
        }
    }
}

// What a query gives them, of which it sees those in front of slot number `seen`.
void give(uint query, uint begin, uint seen) {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    float dots[DEPTH];
    [[unroll]] for (uint s = 0; s < DEPTH; s++) dots[s] = 0;
    [[unroll]] for (uint d = 0; d < QUADS; d++) {
        if (SPREAD && d % lanes == 0) hold(LOAD(Q, query * QUADS + min(d + lane, QUADS - 1)));
        vec4 q = SPREAD ? held(d % lanes) : LOAD(Q, query * QUADS + d);
        [[unroll]] for (uint s = 0; s < DEPTH; s++) dots[s] += dot(keys[s * QUADS + d], q);
    }
    vec2 norm = LOAD2(Norms, query);
    float scale = 1.0 / norm.y;
    [[unroll]] for (uint s = 0; s < DEPTH; s++) {
        float p = exp_of(min(dots[s] - norm.x, 0.0)) * scale;
        given[s] = own_slot(begin, s) < seen ? p : 0.0;
    }
}
