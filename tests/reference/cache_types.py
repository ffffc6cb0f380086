"""Writes testdata/cache_types.json: rows of numbers and the blocks that ggml makes of them.

The `gguf` package quantises as ggml's reference does; the kernels that fill the KV cache must agree bit for bit.

    pip install gguf==0.19.0 numpy==2.4.6
    python tests/reference/cache_types.py
"""

import base64
import json
import pathlib

import gguf
import numpy as np

ROWS, COLUMNS = 24, 128  # a row is a head of four blocks

rng = np.random.default_rng(20230614)


def rows():
    """Rows of every size that a key or a value may have, with the corners in the first ones."""
    x = rng.standard_normal((ROWS, COLUMNS)) * np.exp(rng.uniform(-8, 6, (ROWS, 1)))
    x[0, :32] = 0  # no scale at all
    x[0, 32:64] = 1.5  # all alike
    x[0, 64:96] = -1.5
    x[0, 96] = -1e5  # one that dwarfs the others
    x[1, 5], x[1, 9] = 8, -8  # two as far from 0: the first one gives the sign of q4_0's scale
    x[1, 37], x[1, 41] = -8, 8
    x[2] *= 1e-7 / np.abs(x[2]).max()  # a scale below the smallest normal f16
    x[3] = np.linspace(-1, 1, COLUMNS)
    return x.astype(np.float32)


def encode(array):
    return base64.b64encode(array.tobytes()).decode()


def main():
    x = rows()
    kinds = gguf.GGMLQuantizationType
    blocks = {k.name.lower(): encode(gguf.quantize(x, k)) for k in (kinds.Q8_0, kinds.Q4_0)}
    path = pathlib.Path(__file__).parents[1] / "testdata/cache_types.json"
    path.write_text(json.dumps({"columns": COLUMNS, "x": encode(x), "blocks": blocks}, indent=0) + "\n")
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
