"""H2O by its definition: one kept set per layer and KV head, scores summed over the query heads of the group.

Tokens arrive in chunks. A chunk is written, attends to the kept tokens and causally to itself, adds its column sums to
the scores; then the lowest scores go until the budget holds. The last `recent` positions are never a victim; of equal
scores the older position goes. Everything in the model's own precision.
"""
import math
import torch


class Kept:
    """The live tokens of one layer and KV head."""

    def __init__(self, head, dtype):
        self.pos = torch.zeros(0, dtype=torch.long)
        self.key, self.value = torch.zeros(0, head, dtype=dtype), torch.zeros(0, head, dtype=dtype)
        self.score = torch.zeros(0, dtype=dtype)
        self.lost = 0.0  # the scores of all evicted tokens

    def add(self, pos, key, value):
        self.pos = torch.cat((self.pos, pos))
        self.key, self.value = torch.cat((self.key, key)), torch.cat((self.value, value))
        self.score = torch.cat((self.score, torch.zeros(len(pos), dtype=self.score.dtype)))

    def attend(self, q, pos):
        """Output (group, T, head) of the queries q at pos; their probabilities go into the scores."""
        a = (q @ self.key.T / math.sqrt(q.shape[-1])).masked_fill(self.pos > pos[:, None], -math.inf).softmax(-1)
        self.score = self.score + a.sum((0, 1))
        return a @ self.value

    def evict(self, budget, protected):
        """Frees all above the budget, none from position `protected` on. Returns the victims, ascending, and the gap."""
        n = len(self.pos) - budget
        if n <= 0:
            return [], None
        order = sorted((i for i, p in enumerate(self.pos.tolist()) if p < protected),
                       key=lambda i: (float(self.score[i]), int(self.pos[i])))
        victims, gap = order[:n], None
        if len(order) > n:
            gap = float((self.score[order[n]] - self.score[order[n - 1]]) / self.score[order[n]])
        self.lost += float(self.score[victims].sum())
        gone = sorted(self.pos[victims].tolist())
        live = [i for i in range(len(self.pos)) if i not in set(victims)]
        self.pos, self.key, self.value, self.score = (y[live] for y in (self.pos, self.key, self.value, self.score))
        return gone, gap


@torch.inference_mode()
def stream(model, ids, budget, recent, chunk=1, left=None):
    """Logits (T, vocab), and for each chunk: its last position, victims[layer][head] and gaps[layer][head].

    A gap is (lowest score left - highest score evicted) / lowest score left among the tokens that could go; None
    where there was nothing to choose. left, if given, is a list that gets the heads of each layer, as they are at the end.
    """
    cache = [[Kept(model.head, model.dtype) for _ in range(n)] for n in model.kv_heads]
    if left is not None:
        left += cache
    logits, steps = [], []
    for start in range(0, len(ids), chunk):
        x = model.embed(ids[start:start + chunk])
        pos = start + torch.arange(len(x))
        last = int(pos[-1])
        for l, heads in enumerate(cache):
            q, k, v = model.qkv(l, x, pos)
            out = []
            for kept, query, key, value in zip(heads, q.chunk(len(heads)), k, v):
                kept.add(pos, key, value)
                out.append(kept.attend(query, pos))
            x = model.finish(l, x, torch.cat(out))
        logits.append(model.logits(x))
        choices = [[kept.evict(budget, last + 1 - recent) for kept in heads] for heads in cache]
        steps.append((last, [[c[0] for c in row] for row in choices], [[c[1] for c in row] for row in choices]))
        for l, heads in enumerate(cache):
            for kept in heads:
                want = (last + 1) * model.heads[l] // len(heads)  # every query hands out exactly 1
                if abs(float(kept.score.sum()) + kept.lost - want) > 1e-6 * want:
                    raise AssertionError(f"layer {l}: scores sum to {float(kept.score.sum()) + kept.lost}, want {want}")
    return torch.cat(logits), steps
