// Reductions over the workgroup through shared memory: for any workgroup size and any driver, no subgroup feature needed.
// Every invocation must call them; every invocation gets the result.
layout(local_size_x_id = 0) in; // before gl_WorkGroupSize is named, which otherwise is the constant 1
shared uint lanes[256];

// Publishes v and waits; the caller reads lanes[] and calls done().
void publish(uint v) {
    lanes[gl_LocalInvocationID.x] = v;
    barrier(); // every lane has written before any reads
}

void done() { barrier(); } // every lane has read before any writes again

float reduce_run(float v, uint width) {
    publish(floatBitsToUint(v));
    uint first = gl_LocalInvocationID.x / width * width;
    float sum = 0;
    for (uint i = 0; i < width; i++) sum += uintBitsToFloat(lanes[first + i]);
    done();
    return sum;
}

float reduce_stride(float v, uint stride) {
    publish(floatBitsToUint(v));
    float sum = 0;
    for (uint i = gl_LocalInvocationID.x % stride; i < gl_WorkGroupSize.x; i += stride) sum += uintBitsToFloat(lanes[i]);
    done();
    return sum;
}

float reduce_add(float v) { return reduce_run(v, gl_WorkGroupSize.x); }

float reduce_max(float v) {
    publish(floatBitsToUint(v));
    float most = v;
    for (uint i = 0; i < gl_WorkGroupSize.x; i++) most = max(most, uintBitsToFloat(lanes[i]));
    done();
    return most;
}

uint reduce_add(uint v) {
    publish(v);
    uint sum = 0;
    for (uint i = 0; i < gl_WorkGroupSize.x; i++) sum += lanes[i];
    done();
    return sum;
}

uint reduce_min(uint v) {
    publish(v);
    uint least = v;
    for (uint i = 0; i < gl_WorkGroupSize.x; i++) least = min(least, lanes[i]);
    done();
    return least;
}

uint scan_add(uint v) {
    publish(v);
    uint sum = 0;
    for (uint i = 0; i < gl_LocalInvocationID.x; i++) sum += lanes[i];
    done();
    return sum;
}

// hold() keeps a value of every lane for the others, held() is that of one of them, and release() ends that.
shared vec4 kept[256];

void hold(vec4 v) {
    kept[gl_LocalInvocationID.x] = v;
    barrier(); // every lane has written before any reads
}

vec4 held(uint lane) { return kept[lane]; }

void release() { barrier(); } // every lane has read before any writes again

// Orders this workgroup's reads of memory before its later writes.
void reads_before_writes() { barrier(); }

// Orders this workgroup's writes to memory before its later reads.
void writes_before_reads() {
    memoryBarrierBuffer();
    barrier();
}
