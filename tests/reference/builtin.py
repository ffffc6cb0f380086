"""Writes the trained model as model/builtin/builtin.gguf: Q8_0 matrices, F32 norms, the tokenizer inside.

  python builtin.py --work DIR --out builtin.gguf    DIR is where train.py left model.pt and tokenizer.json
"""
import argparse, json, os
import torch
from gguf import GGMLQuantizationType as Type, GGUFWriter, LlamaFileType, TokenType
from gguf.quants import quantize
import book
from train import CONTEXT, SHAPE

DESCRIPTION = ("A small Llama trained from scratch by this project (tests/reference/train.py) on War and Peace by Leo Tolstoy "
               "in the translation of Louise and Aylmer Maude, which is in the public domain. The weights are the project's "
               f"own, under its licence. Text sha256 {book.SHA256}.")
NAMES = dict(attn_norm="attn_norm", q="attn_q", k="attn_k", v="attn_v", o="attn_output",
             ffn_norm="ffn_norm", gate="ffn_gate", up="ffn_up", down="ffn_down")


def tensors(state):
    """GGUF names and values; q and k need no permutation, for the training rotated interleaved pairs."""
    yield "token_embd.weight", state["embed.weight"]
    yield "output_norm.weight", state["norm.weight"]
    for l in range(SHAPE["layers"]):
        for ours, theirs in NAMES.items():
            yield f"blk.{l}.{theirs}.weight", state[f"layers.{l}.{ours}.weight"]


def write(work, path):
    out = GGUFWriter(path, "llama")
    out.add_name("vkdecode builtin"); out.add_description(DESCRIPTION)
    out.add_size_label("685K"); out.add_languages(["en"]); out.add_file_type(LlamaFileType.MOSTLY_Q8_0); out.add_quantization_version(2)
    out.add_block_count(SHAPE["layers"]); out.add_context_length(CONTEXT); out.add_embedding_length(SHAPE["width"])
    out.add_feed_forward_length(SHAPE["ffn"]); out.add_vocab_size(SHAPE["vocab"])
    out.add_head_count(SHAPE["heads"]); out.add_head_count_kv(SHAPE["kv_heads"])
    out.add_rope_dimension_count(SHAPE["head"]); out.add_rope_freq_base(SHAPE["theta"]); out.add_layer_norm_rms_eps(SHAPE["eps"])

    tok = json.load(open(os.path.join(work, "tokenizer.json")))["model"]
    words = sorted(tok["vocab"], key=tok["vocab"].get)
    out.add_tokenizer_model("gpt2"); out.add_tokenizer_pre("gpt-2")
    out.add_token_list(words)
    out.add_token_types([TokenType.CONTROL if w == book.END else TokenType.NORMAL for w in words])
    out.add_token_merges([" ".join(m) for m in tok["merges"]])
    out.add_bos_token_id(0); out.add_eos_token_id(0); out.add_add_bos_token(False)

    for name, value in tensors(torch.load(os.path.join(work, "model.pt"))):
        kind = Type.Q8_0 if value.dim() == 2 else Type.F32
        out.add_tensor(name, quantize(value.numpy(), kind), raw_dtype=kind)
    out.write_header_to_file(); out.write_kv_data_to_file(); out.write_tensors_to_file()
    out.close()
    print(f"{path} {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", required=True); ap.add_argument("--out", required=True)
    o = ap.parse_args()
    write(o.work, o.out)
