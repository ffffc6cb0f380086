// What an invocation of a product does: acc += the products of its ROWS weight rows with COLS activation rows, block by
// block of 32 columns. The kernel that includes it has the constants RUN, ROWS and COLS, the planes W and S
// (include/planes.glsl), includes fours.glsl and says what the activations are.
vec4 activation(uint c, uint k); // elements 4k .. 4k + 3 of the invocation's activation row c

const uint TOGETHER = COLS == 1 ? AT_ONCE : 1; // weight rows
float acc[ROWS * COLS];

// Blocks of the given group of rows, each invocation taking so many steps; the planes begin at uvec4 `weights` and `scales`.
void add_blocks(uint group, uint steps, uint weights, uint scales_at) {
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x;
    uint row_lanes = lanes / RUN, records = (steps * RUN + SUPER - 1) / SUPER;
    uint quad = weights + group * steps * (ROWS / 4) * WORDS * lanes + lane;
    uint scale = scales_at + first_scale(group, steps, records, lanes, row_lanes, lane, lane / RUN);
    uint at = lane % RUN * 8, step = 0;
    [[dont_unroll]] do { // the test stands at the end: before the body, lavapipe would run that once more, masked
        float x[32 * COLS], sum[PARTS * COLS];
        [[unroll]] for (uint c = 0; c < COLS; c++) {
            [[unroll]] for (uint p = 0; p < PARTS; p++) sum[c * PARTS + p] = 0;
            [[unroll]] for (uint i = 0; i < 8; i++) {
                vec4 v;
                if (RUN == 1 && SPREAD) { // all lanes need the same: each loads a part and hands it to the others
                    if (i % min(lanes, 8u) == 0) hold(activation(c, at + i + lane % 8));
                    v = held(i % min(lanes, 8u));
                    if (i % min(lanes, 8u) == min(lanes, 8u) - 1) release();
                } else {
                    v = activation(c, at + i);
                }
                [[unroll]] for (uint e = 0; e < 4; e++) {
                    uint n = i * 4 + e, j = n % PER_WORD;
                    if (SCALES != NONE) sum[c * PARTS + n * PARTS / 32] += presum(j) * v[e];
                    x[c * 32 + n] = v[e] * prescale(j);
                }
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; r += 4) {
            Scales scales = scales_of(scale, r / 4, at / 8, lanes, row_lanes);
            uvec4 q[WORDS + 1];
            if (ACROSS) q = words_across(quad + r / 4 * WORDS * lanes, lanes);
            [[unroll]] for (uint first = 0; first < 4; first += TOGETHER) {
                // Rows worked on together: their loads wait for nothing, and while one sum waits for a term the others go on.
                if (!ACROSS) [[unroll]] for (uint n = 0; n < TOGETHER * (WORDS / 4); n++) q[n] = LOAD(W, quad + ((r + first) * (WORDS / 4) + n) * lanes);
                float dots[TOGETHER * COLS * PARTS], sub[TOGETHER * COLS];
                [[unroll]] for (uint n = 0; n < TOGETHER * COLS * PARTS; n++) dots[n] = 0;
                uint w = 0, j = 0;
                [[unroll]] for (uint i = 0; i < 32; i++) { // a sum for each word and part
                    bool begins = j == 0 || i * PARTS % 32 == 0, ends = j == PER_WORD - 1 || (i + 1) * PARTS % 32 == 0;
                    float f[TOGETHER];
                    [[unroll]] for (uint p = 0; p < TOGETHER; p++) f[p] = weight(ACROSS ? q[w][first + p] : q[p * (WORDS / 4) + w / 4][w % 4], j);
                    [[unroll]] for (uint c = 0; c < COLS; c++)
                        [[unroll]] for (uint p = 0; p < TOGETHER; p++) {
                            uint n = c * TOGETHER + p;
                            float product = f[p] * x[c * 32 + i];
                            sub[n] = begins ? product : sub[n] + product;
                            if (ends) dots[n * PARTS + i * PARTS / 32] += sub[n];
                        }
                    w += j == PER_WORD - 1 ? 1 : 0;
                    j = j == PER_WORD - 1 ? 0 : j + 1;
                }
                [[unroll]] for (uint c = 0; c < COLS; c++)
                    [[unroll]] for (uint p = 0; p < TOGETHER; p++)
                        [[unroll]] for (uint part = 0; part < PARTS; part++)
                            acc[c * ROWS + r + first + p] += combine(uvec2(scales.own[first + p], scales.above[first + p]), part, dots[(c * TOGETHER + p) * PARTS + part], sum[c * PARTS + part]);
            }
        }
        quad += ROWS / 4 * WORDS * lanes;
        if (SCALES != PER_SUPER) scale += ROWS / 4 * lanes;
        at += RUN * 8;
    } while (++step < steps);
}
