"""Writes doctor/reference.json: what the self-test of a device compares with. Takes seconds.

  python doctor.py

The built-in model on one prompt, in float64. K and V are rounded as each of the cache's types does it, so that a device is
judged by its arithmetic, not by the steps of a type: logits of four positions, and what three policies keep and evict.
"""
import json, os
import gguf, numpy as np, torch
import h2o, prompts
from fixtures import BUILTIN, SALON, base, digits, sha256
from llama import Llama
from tokens import tokenizer

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doctor", "reference.json")
TOKENS = 80
POSITIONS = (0, 31, 32, 79)  # the first one, both sides of the border of a chunk of 32, the last one
TYPES = ("f32", "f16", "q8_0", "q4_0")
BUDGET, RECENT = 24, 12  # of the policies
WINDOW, KERNEL = 8, 3  # of SnapKV
DIGITS = 8


def rounded(y, kind):
    """y (…, head) as a cache of that type gives it back. The head is a whole number of blocks."""
    if kind == "f32":
        return y
    if kind == "f16":
        return y.half().to(y.dtype)
    t = gguf.GGMLQuantizationType[kind.upper()]
    blocks = gguf.quantize(y.numpy().astype(np.float32), t)
    return torch.from_numpy(gguf.dequantize(blocks, t)).to(y.dtype)


class Cached(Llama):
    """The model over a cache of one type: keys are rounded after they are rotated."""

    def __init__(self, path, kind):
        super().__init__(path)
        self.kind = kind

    def qkv(self, l, x, pos):
        q, k, v = super().qkv(l, x, pos)
        return q, rounded(k, self.kind), rounded(v, self.kind)


def heavy_hitters(model, ids, chunk):
    """H2O: the last position of every step that evicts, its victims, the smallest gap that decided, the scores at the end."""
    cache = []
    _, steps = h2o.stream(model, ids, BUDGET, RECENT, chunk, cache)
    steps = [s for s in steps if any(v for heads in s[1] for v in heads)]
    return [s[0] for s in steps], [s[1] for s in steps], least(g for s in steps for heads in s[2] for g in heads), kept_by(cache)


def last_query(model, ids):
    """TOVA, token by token: the same as heavy_hitters gives. The heads of a layer keep the same tokens."""
    cache = [[h2o.Kept(model.head, model.dtype) for _ in range(n)] for n in model.kv_heads]
    steps, gaps = [], []
    for t in range(len(ids)):
        x, pos, gone = model.embed(ids[t:t + 1]), torch.tensor([t]), []
        for l, heads in enumerate(cache):
            q, k, v = model.qkv(l, x, pos)
            out, given = [], 0
            for kept, query, key, value in zip(heads, q.chunk(len(heads)), k, v):
                kept.add(pos, key, value)
                kept.score = torch.zeros_like(kept.score)
                out.append(kept.attend(query, pos))
                given = given + kept.score
            x = model.finish(l, x, torch.cat(out))
            for kept in heads:
                kept.score = given / model.heads[l]
            choices = [kept.evict(BUDGET, t + 1) for kept in heads]
            gone.append([c[0] for c in choices])
            gaps += [c[1] for c in choices]
        if any(v for heads in gone for v in heads):
            steps.append((t, gone))
    return [s[0] for s in steps], [s[1] for s in steps], least(gaps), kept_by(cache)


def observed(model, ids):
    """SnapKV, which cuts once: the scores are those of the tokens that stay before the window."""
    victims, gaps, kept = [], [], []
    for l, a in enumerate(prompts.probabilities(model, ids)):
        scores = prompts.observe(a, model.kv_heads[l], WINDOW, KERNEL, "avg")
        count = BUDGET - WINDOW
        stay = prompts.keep(scores, [count] * len(scores), WINDOW)
        victims.append([sorted(set(range(len(ids))) - set(s)) for s in stay])
        for s in scores:
            order = np.sort(s)[::-1]
            gaps.append((order[count - 1] - order[count]) / order[count - 1])
        kept.append([left(s[:count], [row[j] for j in s[:count]]) for s, row in zip(stay, scores)])
    return [len(ids) - 1], [victims], least(gaps), kept


def kept_by(cache):
    return [[left(kept.pos.tolist(), kept.score.tolist()) for kept in heads] for heads in cache]


def left(positions, scores):
    order = sorted(zip(positions, scores))
    return dict(positions=[p for p, _ in order], scores=[digits(float(s), DIGITS) for _, s in order])


def least(gaps):
    return digits(min(float(g) for g in gaps if g is not None), 3)


def main():
    ids = tokenizer(BUILTIN).encode(SALON, add_special_tokens=False).ids[:TOKENS]
    assert len(ids) == TOKENS, len(ids)
    data = dict(model="builtin.gguf", sha256=sha256(BUILTIN), arithmetic="float64", ids=ids, positions=POSITIONS, logits={}, policies=[])
    exact = None
    for kind in TYPES:
        logits = Cached(BUILTIN, kind).forward(ids)[list(POSITIONS)]
        exact = logits if exact is None else exact
        print(f"{kind}: NMSE {float((logits - exact).pow(2).sum() / exact.pow(2).sum()):.1e} against f32")
        data["logits"][kind] = base(logits)
    single, half = Cached(BUILTIN, "f32"), Cached(BUILTIN, "f16")
    for policy, chunk, model, (last, victims, gap, kept) in (
            ("h2o", 1, half, heavy_hitters(half, ids, 1)), ("h2o", 32, half, heavy_hitters(half, ids, 32)),
            ("tova", 1, single, last_query(single, ids)),
            (f"snapkv:window={WINDOW}:kernel={KERNEL}:pool=avg", 32, single, observed(single, ids))):
        print(f"{policy}, {model.kind}, chunk {chunk}: {len(last)} steps, smallest gap {gap}")
        data["policies"].append(dict(policy=policy, type=model.kind, budget=str(BUDGET), recent_ratio=RECENT / BUDGET, chunk=chunk,
                                     last_positions=last, victims=victims, gap=gap, kept=kept))
    with open(OUT, "w") as f:
        json.dump(data, f, separators=(",", ":"))
        f.write("\n")
    print(f"{os.path.getsize(OUT)} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.inference_mode():
        main()
