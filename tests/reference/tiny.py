"""Random Llama models, one for each corner of the GGUF format, small enough to commit. Tokens are ids only."""
import numpy as np
from gguf import GGMLQuantizationType as Type, GGUFWriter
from gguf.quants import quantize

PLAIN = dict(layers=2, width=16, heads=2, kv_heads=1, head=32, ffn=37, vocab=97, eps=1e-5, theta=10_000.0,
             tied=True, biases=False, type=Type.F32, embedding=None, scale=1.0, freqs=False, metadata={})

# What each file is about; everything not named is PLAIN. A small scale lets eps show. A head of None is width / heads and stays out of the metadata.
CASES = {
    "group1-untied": dict(kv_heads=2, tied=False),
    "group3-q8_0": dict(width=96, heads=3, head=None, ffn=32, type=Type.Q8_0),
    "group4-q4_0": dict(width=64, heads=4, ffn=96, type=Type.Q4_0, embedding=Type.Q8_0),
    "group2-q4_1": dict(width=32, head=64, ffn=96, vocab=300, type=Type.Q4_1, embedding=Type.Q8_0),
    "group8-f16": dict(heads=8, ffn=101, vocab=257, tied=False, type=Type.F16),
    "group16-bf16": dict(heads=16, vocab=101, type=Type.BF16),
    "head48-biases": dict(width=20, heads=3, head=48, biases=True, tied=False),
    "head64-eps3": dict(head=64, eps=1e-3, scale=0.03),
    "head80-eps6": dict(heads=1, head=80, eps=1e-6, scale=0.001, vocab=257),
    "head128-f16": dict(heads=3, head=128, ffn=101, type=Type.F16, biases=True),
    "width-over-heads": dict(width=64, kv_heads=2, head=None, vocab=101, type=Type.F16),
    "theta500": dict(theta=500.0, metadata={"vocab_size": 97}),
    "theta1e6": dict(theta=1e6, tied=False, vocab=257),
    "linear4": dict(metadata={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "linear4-untyped": dict(metadata={"rope.scaling.factor": 4.0}),
    "linear4-legacy": dict(metadata={"rope.scale_linear": 4.0}),
    "scaling-none": dict(metadata={"rope.scaling.type": "none", "rope.scaling.factor": 4.0}),
    "freqs": dict(freqs=True, theta=500_000.0),
    "partial": dict(metadata={"rope.dimension_count": 16}),
    "partial-freqs": dict(freqs=True, head=48, width=12, metadata={"rope.dimension_count": 12}),
    "layers-kv-ffn": dict(heads=4, kv_heads=[1, 4], ffn=[37, 101]),
    "layers-heads": dict(heads=[4, 2], kv_heads=[2, 2], tied=False, biases=True),
}


def write(name, path):
    """Writes the GGUF file of one case; the same name always gives the same bytes."""
    c = PLAIN | CASES[name]
    rng = np.random.default_rng(list(name.encode()))
    out = GGUFWriter(path, "llama")
    each = lambda value: value if isinstance(value, list) else [value] * c["layers"]
    heads, kv_heads, ffn = each(c["heads"]), each(c["kv_heads"]), each(c["ffn"])
    head = c["head"] or c["width"] // heads[0]
    rotated = c["metadata"].get("rope.dimension_count", head)

    out.add_name(f"random {name}")
    out.add_block_count(c["layers"]); out.add_context_length(256); out.add_embedding_length(c["width"])
    out.add_head_count(c["heads"]); out.add_head_count_kv(c["kv_heads"]); out.add_feed_forward_length(c["ffn"])
    out.add_layer_norm_rms_eps(c["eps"]); out.add_rope_freq_base(c["theta"])
    if c["head"]:
        out.add_key_length(head); out.add_value_length(head)
    for key, value in c["metadata"].items():
        {int: out.add_uint32, float: out.add_float32, str: out.add_string}[type(value)]("llama." + key, value)

    def tensor(name, values, kind=Type.F32):
        out.add_tensor(name, quantize(values.astype(np.float32), kind), raw_dtype=kind)

    def norm(name):
        tensor(name, 1 + 0.2 * rng.standard_normal(c["width"]))

    def linear(name, rows, cols, gain=1.0):
        tensor(name + ".weight", rng.standard_normal((rows, cols)) * gain / cols ** 0.5, c["type"])
        if c["biases"]:
            tensor(name + ".bias", 0.3 * rng.standard_normal(rows))

    tensor("token_embd.weight", c["scale"] * rng.standard_normal((c["vocab"], c["width"])), c["embedding"] or c["type"])
    norm("output_norm.weight")
    if not c["tied"]:
        tensor("output.weight", 2 * rng.standard_normal((c["vocab"], c["width"])) / c["width"] ** 0.5, c["type"])
    if c["freqs"]:
        tensor("rope_freqs.weight", np.linspace(1, 8, rotated // 2))
    for l in range(c["layers"]):
        b = f"blk.{l}."
        norm(b + "attn_norm.weight")
        linear(b + "attn_q", heads[l] * head, c["width"], 1.5)  # the gain makes attention far from uniform
        linear(b + "attn_k", kv_heads[l] * head, c["width"], 1.5)
        linear(b + "attn_v", kv_heads[l] * head, c["width"])
        linear(b + "attn_output", c["width"], heads[l] * head)
        norm(b + "ffn_norm.weight")
        linear(b + "ffn_gate", ffn[l], c["width"])
        linear(b + "ffn_up", ffn[l], c["width"])
        linear(b + "ffn_down", c["width"], ffn[l])
    out.write_header_to_file(); out.write_kv_data_to_file(); out.write_tensors_to_file()
    out.close()


def ids(name, n=24):
    """The n random token ids that the case is run on."""
    return np.random.default_rng(list((name + " ids").encode())).integers((PLAIN | CASES[name])["vocab"], size=n).tolist()
