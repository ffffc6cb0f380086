"""Writes model/gguf/testdata/dequant.json: blocks of weights and what they stand for.

The `gguf` package dequantises; the Go reader must agree bit for bit. Also lists every weight type
with its block layout.

    pip install gguf==0.19.0 numpy==2.4.6
    python tests/reference/dequant.py
"""

import base64
import json
import pathlib

import gguf
import numpy as np

BLOCKS = 96  # per type with blocks of 32
SUPER_BLOCKS = 16  # per type with blocks of 256
ELEMENTS = 512  # per type without blocks
# Where a block has f16 values; all other bytes may be anything. The package does not quantise most of these types.
SCALES = {
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0], "MXFP4": [],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
EXTREMES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00]

rng = np.random.default_rng(20230614)


def halves(n):
    """n f16 bit patterns, all finite: the extremes first, then any exponent and sign."""
    bits = rng.integers(0, 1 << 16, n, dtype=np.uint16)
    bits = np.where(bits & 0x7C00 == 0x7C00, bits & 0x83FF, bits)
    bits[: len(EXTREMES)] = EXTREMES
    return bits.astype(np.uint16)


def source(kind):
    """Bytes of random weights, as rows of uint8."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    if kind.name == "F32":
        bits = rng.integers(0, 1 << 32, ELEMENTS, dtype=np.uint32)
        return np.where(bits & 0x7F800000 == 0x7F800000, bits & 0x807FFFFF, bits).astype(np.uint32).view(np.uint8)
    if kind.name == "BF16":
        bits = rng.integers(0, 1 << 16, ELEMENTS, dtype=np.uint16)
        return np.where(bits & 0x7F80 == 0x7F80, bits & 0x807F, bits).astype(np.uint16).view(np.uint8)
    if kind.name == "F16":
        return halves(ELEMENTS).view(np.uint8)
    count = BLOCKS if block == 32 else SUPER_BLOCKS
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[0, :], blocks[1, :] = 0x00, 0xFF  # the lowest and the highest codes
    for i, at in enumerate(SCALES[kind.name]):
        order = rng.permutation(count) if i else np.arange(count)
        blocks[:, at : at + 2] = halves(count)[order].view(np.uint8).reshape(count, 2)
    if kind.name == "MXFP4":  # exponents: the smallest, which are no normal numbers, and up to the last whose weights are finite
        blocks[:, 0] = rng.integers(0, 253, count)
        blocks[1:6, 0] = [0, 1, 2, 3, 252]
    return blocks.reshape(-1)


def encode(array):
    return base64.b64encode(array.tobytes()).decode()


def main():
    kinds = gguf.GGMLQuantizationType
    cases = []
    for name in ["F32", "F16", "BF16", *SCALES]:
        src = source(kinds[name])
        dst = gguf.dequantize(src, kinds[name])
        assert dst.dtype == np.float32 and np.isfinite(dst).all(), name
        cases.append({"type": int(kinds[name]), "src": encode(src), "dst": encode(dst)})
    golden = {
        "types": [
            {"type": int(k), "name": k.name, "elements": block, "bytes": size}
            for k, (block, size) in gguf.GGML_QUANT_SIZES.items()
        ],
        "cases": cases,
    }
    path = pathlib.Path(__file__).parents[2] / "model/gguf/testdata/dequant.json"
    path.write_text(json.dumps(golden, indent=0) + "\n")
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
