"""Trains the builtin model: a three-layer Llama with a byte-level BPE of 1,024 tokens, on War and Peace.

  nice python train.py --text war-and-peace.txt --work DIR    tokenizer.json, model.pt and log.txt in DIR
  python builtin.py --work DIR --out model/builtin/builtin.gguf    then writes the file

One thread; every random choice is seeded. Rotary pairs are interleaved, as in GGUF llama files, so no row is permuted.
"""
import argparse, math, os, time
import torch, torch.nn as nn, torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
import book

SHAPE = dict(layers=3, width=128, heads=4, kv_heads=2, head=32, ffn=352, vocab=1024, theta=10_000.0, eps=1e-5)
CONTEXT = 4096
STAGES = [(512, 0.70), (2048, 0.15), (4096, 0.15)]  # window length in tokens, share of the steps
BATCH = 4096  # tokens per step
PEAK = 4e-3  # learning rate after warm-up, then cosine to a fiftieth


def tokenizer(spans):
    """GPT-2's pre-tokenizer, bytes as characters, merges learnt from the training spans."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(
        (chapter for s in spans for chapter in s.split(book.END)),
        trainers.BpeTrainer(vocab_size=SHAPE["vocab"], special_tokens=[book.END], show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tok


def rotary(length):
    """cos and sin, each (length, head / 2)."""
    inv = SHAPE["theta"] ** (-torch.arange(0, SHAPE["head"], 2).double() / SHAPE["head"])
    angle = torch.arange(length).double()[:, None] * inv
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):  # (..., length, head)
    a, b = x[..., 0::2], x[..., 1::2]
    n = x.shape[-2]
    return torch.stack((a * cos[:n] - b * sin[:n], a * sin[:n] + b * cos[:n]), -1).flatten(-2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        s = SHAPE
        linear = lambda rows, cols: nn.Linear(cols, rows, bias=False)
        self.attn_norm, self.ffn_norm = (nn.RMSNorm(s["width"], eps=s["eps"]) for _ in range(2))
        self.q, self.o = linear(s["heads"] * s["head"], s["width"]), linear(s["width"], s["heads"] * s["head"])
        self.k, self.v = (linear(s["kv_heads"] * s["head"], s["width"]) for _ in range(2))
        self.gate, self.up = (linear(s["ffn"], s["width"]) for _ in range(2))
        self.down = linear(s["width"], s["ffn"])

    def forward(self, x, cos, sin):  # (batch, length, width)
        split = lambda y: y.unflatten(-1, (-1, SHAPE["head"])).transpose(1, 2)
        h = self.attn_norm(x)
        q, k, v = rotate(split(self.q(h)), cos, sin), rotate(split(self.k(h)), cos, sin), split(self.v(h))
        k, v = (y.repeat_interleave(SHAPE["heads"] // SHAPE["kv_heads"], 1) for y in (k, v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        h = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(SHAPE["vocab"], SHAPE["width"])
        self.layers = nn.ModuleList(Layer() for _ in range(SHAPE["layers"]))
        self.norm = nn.RMSNorm(SHAPE["width"], eps=SHAPE["eps"])
        self.cos, self.sin = rotary(CONTEXT)
        nn.init.normal_(self.embed.weight, std=0.05)
        for name, p in self.named_parameters():
            if p.dim() == 2 and not name.startswith("embed"):
                nn.init.normal_(p, std=p.shape[1] ** -0.5 / (2 if name.endswith(("o.weight", "down.weight")) else 1))

    def forward(self, ids):  # (batch, length) -> logits (batch, length, vocab); the head is the embedding
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.norm(x) @ self.embed.weight.T


def windows(spans, n, length, rng):
    """n random windows of length + 1 tokens; half of them open with the end-of-text token, as a prompt would."""
    size = torch.tensor([len(s) - length - 1 for s in spans], dtype=torch.double)
    rows = []
    for i in torch.multinomial(size, n, replacement=True, generator=rng).tolist():
        at = int(torch.randint(int(size[i]), (1,), generator=rng))
        rows.append(spans[i][at:at + length + 1].clone())
        if torch.rand(1, generator=rng) < 0.5:
            rows[-1][0] = 0
    return torch.stack(rows)


@torch.inference_mode()
def validate(model, ids, length=2048, short=32):
    """Perplexity of the same tokens, the second half of each window, seen with the long context and with the short."""
    full, cut = [], []
    for at in range(0, len(ids) - length, length):
        w = ids[at:at + length + 1]
        half = slice(length // 2, length)
        full.append(F.cross_entropy(model(w[None, :-1])[0, half], w[1:][half]))
        views = w[:-1].unfold(0, short, 1)[length // 2 - short + 1:]  # the last `short` tokens before each target
        cut.append(F.cross_entropy(torch.cat([model(v)[:, -1] for v in views.split(256)]), w[1:][half]))
    return torch.stack(full).mean().exp().item(), torch.stack(cut).mean().exp().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--text", required=True); ap.add_argument("--work", required=True)
    ap.add_argument("--steps", type=int, default=3000); ap.add_argument("--validate-every", type=int, default=500)
    o = ap.parse_args()
    os.makedirs(o.work, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rng = torch.Generator().manual_seed(2)
    text = book.read(o.text)
    spans = book.training(text)
    tok = tokenizer(spans)
    tok.save(os.path.join(o.work, "tokenizer.json"))
    spans = [torch.tensor(tok.encode(s).ids) for s in spans]
    tail = torch.tensor(tok.encode(text[book.TAIL:]).ids)[:6 * 2048 + 1]
    model = Model()
    matrices = [p for p in model.parameters() if p.dim() == 2]
    opt = torch.optim.AdamW([dict(params=matrices, weight_decay=0.1),
                             dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0)],
                            lr=PEAK, betas=(0.9, 0.95))
    log = open(os.path.join(o.work, "log.txt"), "w", buffering=1)
    say = lambda s: (print(s, flush=True), log.write(s + "\n"))
    say(f"{sum(p.numel() for p in model.parameters())} parameters, {sum(map(len, spans))} training tokens, {o.steps} steps of {BATCH}")
    lengths = [n for n, share in STAGES for _ in range(round(o.steps * share))]
    start, mean = time.time(), None
    for step, length in enumerate(lengths):
        lr = PEAK * min((step + 1) / 100, 0.02 + 0.98 * (1 + math.cos(math.pi * step / len(lengths))) / 2)
        for g in opt.param_groups:
            g["lr"] = lr
        w = windows(spans, BATCH // length, length, rng)
        loss = F.cross_entropy(model(w[:, :-1]).flatten(0, 1), w[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if (step + 1) % 50 == 0:
            say(f"step {step + 1} length {length} loss {mean:.3f} lr {lr:.5f} {time.time() - start:.0f} s")
        if (step + 1) % o.validate_every == 0 or step + 1 == len(lengths):
            full, cut = validate(model, tail)
            say(f"step {step + 1} held-out perplexity: context 2048 {full:.2f}, context 32 {cut:.2f}")
            torch.save(model.state_dict(), os.path.join(o.work, "model.pt"))


if __name__ == "__main__":
    main()
