// What a workgroup of attention of single tokens does, for a range of the slots of a head: attend_token.comp says what that
// is. The kernel that includes it has the constants DEPTH, KV_HEADS, GROUP, HEAD_TILE, HEAD_DIM, HEAD_PAD, ROPE_DIM, WIDE,
// RANGES and SCORED, `stride`, `splits` and `scale` among its push constants, and the inputs and outputs that are named here.

const uint PACKS = HEAD_PAD / PACK, QUADS = HEAD_PAD / 4, TILES = (GROUP + HEAD_TILE - 1) / HEAD_TILE;
const uint OWN = (PACKS + WIDE - 1) / WIDE; // packs of V per lane
const float NEVER = -1e30;                  // the logit of a slot that is not there

vec4 q[HEAD_TILE * QUADS];
float k_new[HEAD_PAD], v_new[HEAD_PAD]; // as the cache holds them
float o_sum[HEAD_TILE * OWN * PACK];

// Four dimensions of a head of the row at x; zero in the padding.
vec4 of_head(uint x, uint head, uint quad) {
    vec4 v = LOAD(X, x + head * (HEAD_DIM / 4) + min(quad, HEAD_DIM / 4 - 1));
    return quad < HEAD_DIM / 4 ? v : vec4(0);
}

vec4 rotated(uint x, uint head, uint quad, uint pos) {
    vec4 v = of_head(x, head, quad), turn = LOAD(Rope, pos * (ROPE_DIM / 4) + min(quad, ROPE_DIM / 4 - 1));
    vec4 w = vec4(v.x * turn.x - v.y * turn.y, v.y * turn.x + v.x * turn.y, v.z * turn.z - v.w * turn.w, v.w * turn.z + v.z * turn.w);
    return quad < ROPE_DIM / 4 ? w : v;
}

// Whether a tile has a head. No test where all tiles have all: lavapipe would mask every store.
bool there(uint head, uint head_end) { return GROUP % HEAD_TILE == 0 || head < head_end; }

// Of row `row`, whose activations begin at vec4 x, whose heads in Parts, E and Peaks come behind so many, and whose layer's
// heads begin at `entry` of Table. Tiles count on from one KV head to the next.
void attend(uint row, uint range, uint tiled, uint x, uint heads, uint entry) {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    uint kv = tiled / TILES, tile = tiled % TILES, head0 = kv * GROUP + tile * HEAD_TILE, head_end = (kv + 1) * GROUP;
    uvec4 token = step_row(row);
    Head h = load_head(entry + token.y * KV_HEADS + kv);
    uint fresh = h.live, last = max(fresh, 1) - 1; // slot of the new token; the last one that may be read
    uint splits = fresh / (DEPTH * lanes) + 1, per_range = (splits + RANGES - 1) / RANGES;
    uint split = range * per_range, end = min(split + per_range, splits);
    bool owner = split < end && end == splits; // the new token is in this range

    [[unroll]] for (uint t = 0; t < HEAD_TILE; t++)
        [[unroll]] for (uint d = 0; d < QUADS; d++) {
            uint n = t * QUADS + d, i = min(n + lane, HEAD_TILE * QUADS - 1);
            if (n % lanes == 0) { // each lane rotates a part and hands it to the others
                if (n > 0) release();
                hold(push.scale * rotated(x, min(head0 + i / QUADS, head_end - 1), i % QUADS, token.z));
            }
            q[n] = held(n % lanes);
        }
    release();
    [[unroll]] for (uint n = 0; n < PACKS; n += lanes) {
        uint i = min(n + lane, PACKS - 1);
        float k[PACK], v[PACK];
        [[unroll]] for (uint d = 0; d < PACK; d += 4) {
            vec4 a = rotated(x, HEADS + kv, (i * PACK + d) / 4, token.z), b = of_head(x, HEADS + KV_HEADS + kv, (i * PACK + d) / 4);
            [[unroll]] for (uint e = 0; e < 4; e++) {
                k[d + e] = a[e];
                v[d + e] = b[e];
            }
        }
        uvec4 packed_k = pack(k).data[0], packed_v = pack(v).data[0]; // without scales UNIT is PACK
        if (owner && tile == 0 && n + lane < PACKS) {
            k_out[(h.offset + fresh) * PACKS + i] = packed_k;
            v_out[(h.offset + fresh) * PACKS + i] = packed_v;
        }
        k = unpack(packed_k);
        v = unpack(packed_v);
        [[unroll]] for (uint d = 0; d < PACK; d += 4) {
            hold(vec4(k[d], k[d + 1], k[d + 2], k[d + 3]));
            [[unroll]] for (uint l = 0; l < min(lanes, PACKS); l++)
                [[unroll]] for (uint e = 0; e < 4; e++)
                    if (n + l < PACKS) k_new[(n + l) * PACK + d + e] = held(l)[e];
            release();
            hold(vec4(v[d], v[d + 1], v[d + 2], v[d + 3]));
            [[unroll]] for (uint l = 0; l < min(lanes, PACKS); l++)
                [[unroll]] for (uint e = 0; e < 4; e++)
                    if (n + l < PACKS) v_new[(n + l) * PACK + d + e] = held(l)[e];
            release();
        }
    }
    if (owner && tile == 0 && lane == 0) slots[h.offset + fresh] = uvec2(token.z, floatBitsToUint(born(h.rule, token.z)));

    float own[HEAD_TILE], peak[HEAD_TILE], sum[HEAD_TILE]; // own: q k of the new token
    [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
        own[t] = 0;
        [[unroll]] for (uint p = 0; p < PACKS; p++) {
            float part = 0;
            [[unroll]] for (uint i = 0; i < PACK; i++) part += k_new[p * PACK + i] * q[t * QUADS + (p * PACK + i) / 4][i % 4];
            own[t] += part;
        }
        peak[t] = NEVER;
        sum[t] = 0;
        [[unroll]] for (uint i = 0; i < OWN * PACK; i++) o_sum[t * OWN * PACK + i] = 0;
    }
    if (split < end) {
        [[dont_unroll]] do {
            uint run = split, run_end = min(run + lanes, end);
            float ms[HEAD_TILE]; // of the lane's split of the run: lavapipe stores lane by lane, so m waits until every lane has one
            [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) ms[t] = 0;
            [[dont_unroll]] do {
                uint first = split * DEPTH * lanes;
                float e[DEPTH * HEAD_TILE], most[HEAD_TILE];
                [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) most[t] = peak[t];
                [[unroll]] for (uint s = 0; s < DEPTH; s++) {
                    uint slot = first + s * lanes + lane, at = h.offset + min(slot, last);
                    float dots[HEAD_TILE];
                    [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) dots[t] = 0;
                    [[unroll]] for (uint p = 0; p < PACKS; p++) {
                        float k[PACK] = unpack(LOAD(K, at * PACKS + p));
                        [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
                            float part = 0; // shorter sums round less
                            [[unroll]] for (uint i = 0; i < PACK; i++) part += k[i] * q[t * QUADS + (p * PACK + i) / 4][i % 4];
                            dots[t] += part;
                        }
                    }
                    [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
                        float logit = slot < fresh ? dots[t] : slot == fresh ? own[t] : NEVER;
                        e[s * HEAD_TILE + t] = logit;
                        most[t] = max(most[t], logit);
                    }
                }
                [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
                    most[t] = reduce_max(most[t]);
                    float shrink = exp_of(peak[t] - most[t]);
                    peak[t] = most[t];
                    sum[t] *= shrink;
                    [[unroll]] for (uint i = 0; i < OWN * PACK; i++) o_sum[t * OWN * PACK + i] *= shrink;
                    if (lane == split - run) ms[t] = peak[t];
                }
                [[unroll]] for (uint s = 0; s < DEPTH; s++) {
                    uint slot = first + s * lanes + lane;
                    vec4 weights = vec4(0);
                    [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
                        float w = exp_of(e[s * HEAD_TILE + t] - peak[t]);
                        sum[t] += w;
                        e[s * HEAD_TILE + t] = w;
                        weights[t] = slot < fresh ? w : 0; // v of the new token may not be there yet
                    }
                    hold(weights);
                    [[unroll]] for (uint l = 0; l < lanes; l += lanes / WIDE) {
                        uint from = WIDE == lanes ? l : l + lane / WIDE;
                        vec4 w = held(from);
                        uint at = h.offset + min(first + s * lanes + from, last);
                        [[unroll]] for (uint o = 0; o < OWN; o++) {
                            float v[PACK] = unpack(LOAD(V, at * PACKS + min(o * WIDE + lane % WIDE, PACKS - 1)));
                            [[unroll]] for (uint t = 0; t < HEAD_TILE; t++)
                                [[unroll]] for (uint i = 0; i < PACK; i++) o_sum[(t * OWN + o) * PACK + i] += w[t] * v[i];
                        }
                    }
                    release();
                }
                [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
                    uint at = (heads + head0 + t) * push.stride + first + lane * DEPTH;
                    if (SCORED == 0 || !there(head0 + t, head_end)) continue;
                    if (DEPTH % 4 == 0) { // lavapipe stores lane by lane: four at once
                        [[unroll]] for (uint s = 0; s < DEPTH; s += 4) {
                            uint i = s * HEAD_TILE + t;
                            e_out[(at + s) / 4] = vec4(e[i], e[i + HEAD_TILE], e[i + 2 * HEAD_TILE], e[i + 3 * HEAD_TILE]);
                        }
                    } else {
                        [[unroll]] for (uint s = 0; s < DEPTH; s++) e_out[(at + s) / 4][(at + s) % 4] = e[s * HEAD_TILE + t];
                    }
                }
            } while (++split < run_end);
            [[unroll]] for (uint t = 0; t < HEAD_TILE; t++)
                if (SCORED == 1 && run + lane < run_end && there(head0 + t, head_end)) peaks[(heads + head0 + t) * push.splits + run + lane] = ms[t];
        } while (split < end);
    }
    // A loop that stays one, over a copy: see attend_values.comp.
    float sums[HEAD_TILE * OWN * PACK];
    [[unroll]] for (uint t = 0; t < HEAD_TILE; t++)
        [[unroll]] for (uint i = 0; i < OWN * PACK; i++) sums[t * OWN * PACK + i] = o_sum[t * OWN * PACK + i];
    if (lanes > WIDE) {
        [[dont_unroll]] for (uint i = 0; i < HEAD_TILE * OWN * PACK; i++) sums[i] = reduce_stride(sums[i], WIDE);
    }
    [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
        float total = reduce_add(sum[t]), w = owner ? exp_of(own[t] - peak[t]) : 0.0;
        uint head = head0 + t, base = ((heads + head) * RANGES + range) * (QUADS + 1);
        if (lane == 0 && there(head, head_end)) parts[base + QUADS] = vec4(peak[t], total, 0, 0);
        [[unroll]] for (uint o = 0; o < OWN; o++) {
            uint part = o * WIDE + lane;
            float v[PACK];
            [[unroll]] for (uint i = 0; i < PACK; i++) v[i] = 0;
            [[unroll]] for (uint p = 0; p < PACKS; p++)
                [[unroll]] for (uint i = 0; i < PACK; i++) v[i] = part == p ? v_new[p * PACK + i] : v[i];
            [[unroll]] for (uint i = 0; i < PACK; i += 4) {
                uint a = (t * OWN + o) * PACK + i;
                vec4 all = vec4(sums[a], sums[a + 1], sums[a + 2], sums[a + 3]) + w * vec4(v[i], v[i + 1], v[i + 2], v[i + 3]);
                if (lane < WIDE && part < PACKS && there(head, head_end)) parts[base + (part * PACK + i) / 4] = all;
            }
        }
    }
}
