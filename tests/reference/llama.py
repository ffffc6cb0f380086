"""An independent Llama forward pass over a GGUF file: weights dequantised by the gguf package, arithmetic in float64.

Written for clarity and for the corners of the format, not for speed. `python llama.py MODEL.gguf` compares it with
transformers' LlamaForCausalLM on the same weights and prints the normalised mean squared error of the logits.
"""
import math, sys
import numpy as np, torch
from gguf import GGUFReader
from gguf.quants import dequantize


class Llama:
    """One model. Shapes: ids (T), x (T, width), q (heads, T, head), k and v (kv heads, T, head), logits (T, vocab)."""

    def __init__(self, path, dtype=torch.float64):
        r = GGUFReader(path)
        get = lambda key, default=None: r.fields["llama." + key].contents() if "llama." + key in r.fields else default
        each = lambda value: list(value) if isinstance(value, list) else [value] * self.layers
        self.weights = {t.name: torch.from_numpy(np.array(dequantize(t.data, t.tensor_type))).to(dtype) for t in r.tensors}
        self.layers, self.width = get("block_count"), get("embedding_length")
        self.heads = each(get("attention.head_count"))
        self.kv_heads = each(get("attention.head_count_kv", get("attention.head_count")))
        self.head = get("attention.key_length", self.width // self.heads[0])
        if self.head != get("attention.value_length", self.head):
            raise ValueError(f"{path}: key_length {self.head} and value_length differ; want equal")
        self.eps = get("attention.layer_norm_rms_epsilon")
        self.dtype = dtype
        rotated = get("rope.dimension_count", self.head)
        scale = get("rope.scaling.factor", get("rope.scale_linear", 1.0))
        if get("rope.scaling.type", "linear") not in ("linear", "none"):
            raise ValueError(f"{path}: rope scaling {get('rope.scaling.type')}; want linear or none")
        if get("rope.scaling.type") == "none":
            scale = 1.0
        inv = get("rope.freq_base", 10_000.0) ** (-torch.arange(0, rotated, 2).double() / rotated) / scale
        if "rope_freqs.weight" in self.weights:
            inv = inv / self.weights["rope_freqs.weight"].double()
        self.inv = inv  # (rotated / 2) radians per position

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].T
        return y + self.weights[name + ".bias"] if name + ".bias" in self.weights else y

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weights[name + ".weight"]

    def rotate(self, x, pos):
        """Turns the neighbouring pairs of the first rotated elements; x (heads, T, head), pos (T)."""
        angle = pos.double()[:, None] * self.inv
        cos, sin, n = angle.cos().to(self.dtype), angle.sin().to(self.dtype), 2 * len(self.inv)
        a, b = x[..., 0:n:2], x[..., 1:n:2]
        return torch.cat((torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2), x[..., n:]), -1)

    def embed(self, ids):
        return self.weights["token_embd.weight"][torch.as_tensor(ids)]

    def qkv(self, l, x, pos):
        """The rotated query and key and the value of layer l."""
        h = self.norm(x, f"blk.{l}.attn_norm")
        q, k, v = (self.linear(h, f"blk.{l}.attn_{n}").unflatten(-1, (-1, self.head)).transpose(0, 1) for n in "qkv")
        return self.rotate(q, pos), self.rotate(k, pos), v

    def attend(self, q, k, v, visible):
        """Causal attention (heads, T, head); one k and v head serves heads / kv heads neighbouring query heads."""
        k, v = (y.repeat_interleave(len(q) // len(y), 0) for y in (k, v))
        return (q @ k.transpose(1, 2) / math.sqrt(self.head)).masked_fill(~visible, -math.inf).softmax(-1) @ v

    def finish(self, l, x, o):
        """The rest of layer l from the attention output o (heads, T, head): projection, feed-forward, both residuals."""
        x = x + self.linear(o.transpose(0, 1).flatten(1), f"blk.{l}.attn_output")
        h = self.norm(x, f"blk.{l}.ffn_norm")
        act = torch.nn.functional.silu(self.linear(h, f"blk.{l}.ffn_gate")) * self.linear(h, f"blk.{l}.ffn_up")
        return x + self.linear(act, f"blk.{l}.ffn_down")

    def logits(self, x):
        return self.linear(self.norm(x, "output_norm"), "output" if "output.weight" in self.weights else "token_embd")

    def forward(self, ids, cache=None):
        """Logits of ids, which follow the tokens already in cache (a list that it extends: one (k, v) per layer)."""
        past = cache[0][0].shape[1] if cache else 0
        x, pos = self.embed(ids), past + torch.arange(len(ids))
        visible = torch.arange(past + len(ids)) <= pos[:, None]
        for l in range(self.layers):
            q, k, v = self.qkv(l, x, pos)
            if past:
                k, v = torch.cat((cache[l][0], k), 1), torch.cat((cache[l][1], v), 1)
            if cache is not None:
                cache[l:l + 1] = [(k, v)]
            x = self.finish(l, x, self.attend(q, k, v, visible))
        return self.logits(x)

    def greedy(self, ids, n):
        """The logits of the prompt (T, vocab), the n greedy tokens after it, and the gap of each to the runner-up."""
        cache, tokens, gaps = [], [], []
        prompt = out = self.forward(ids, cache)
        for step in range(n):
            top = out[-1].topk(2)
            tokens.append(int(top.indices[0]))
            gaps.append(float(top.values[0] - top.values[1]))
            if step + 1 < n:
                out = self.forward(tokens[-1:], cache)
        return prompt, tokens, gaps


def transformers_twin(model, vocab):
    """The same weights in transformers' LlamaForCausalLM, Q and K rows put back from interleaved pairs to halves."""
    from transformers import LlamaConfig, LlamaForCausalLM
    h = model.head
    halves = lambda w: w.unflatten(0, (-1, h // 2, 2)).transpose(1, 2).flatten(0, 2)
    names = dict(attn_q="self_attn.q_proj", attn_k="self_attn.k_proj", attn_v="self_attn.v_proj", attn_output="self_attn.o_proj",
                 ffn_gate="mlp.gate_proj", ffn_up="mlp.up_proj", ffn_down="mlp.down_proj",
                 attn_norm="input_layernorm", ffn_norm="post_attention_layernorm")
    state = {"model.embed_tokens.weight": model.weights["token_embd.weight"], "model.norm.weight": model.weights["output_norm.weight"]}
    state["lm_head.weight"] = model.weights.get("output.weight", state["model.embed_tokens.weight"])
    for l in range(model.layers):
        for ours, theirs in names.items():
            w = model.weights[f"blk.{l}.{ours}.weight"]
            state[f"model.layers.{l}.{theirs}.weight"] = halves(w) if ours in ("attn_q", "attn_k") else w
    base = float(model.inv[1] ** (-h / 2))
    twin = LlamaForCausalLM(LlamaConfig(
        vocab_size=vocab, hidden_size=model.width, intermediate_size=len(model.weights["blk.0.ffn_up.weight"]),
        num_hidden_layers=model.layers, num_attention_heads=model.heads[0], num_key_value_heads=model.kv_heads[0], head_dim=h,
        rms_norm_eps=model.eps, rope_parameters=dict(rope_type="default", rope_theta=base), max_position_embeddings=8192,
        tie_word_embeddings="output.weight" not in model.weights)).to(model.dtype).eval()
    twin.load_state_dict(state)
    return twin


if __name__ == "__main__":
    torch.set_num_threads(1)
    ours = Llama(sys.argv[1])
    vocab = len(ours.weights["token_embd.weight"])
    ids = torch.randint(vocab, (128,), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        a = ours.forward(ids)
        b = transformers_twin(ours, vocab)(ids[None]).logits[0]
    print(f"nmse {float((a - b).pow(2).sum() / b.pow(2).sum()):.2e}, largest difference {float((a - b).abs().max()):.2e}, "
          f"same argmax {int((a.argmax(-1) == b.argmax(-1)).sum())} of {len(ids)}")
