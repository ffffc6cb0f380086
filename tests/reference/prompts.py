"""What SnapKV, PyramidKV, Ada-KV and TOVA keep of a prompt, by their definitions.

The keys and values of the whole prompt are held until its end, then every layer is cut to its budget once. T tokens, B
slots per KV head, the last W queries observe. Scores are float64; higher stays; of equal scores the newer position stays.

  SnapKV     s[j] = sum over the last W queries of a[q, j] for j < T - W, pooled over k neighbours for each query head, taken
             together over the group; the best B - W stay, and the last W
  PyramidKV  the same, with budgets that fall from layer to layer
  Ada-KV     the same, with budgets for each KV head by its share of the layer's best scores
  TOVA       s[j] = mean over all query heads of the layer of a[T - 1, j]; the best B stay, the same in all heads
"""
import math
from fractions import Fraction
import numpy as np, torch


def probabilities(model, ids):
    """For each layer, a (query heads, T, T): what the query of one token gives each token."""
    x, pos = model.embed(ids), torch.arange(len(ids))
    visible = pos <= pos[:, None]
    for l in range(model.layers):
        q, k, v = model.qkv(l, x, pos)
        k, v = (y.repeat_interleave(len(q) // len(y), 0) for y in (k, v))
        a = (q @ k.transpose(1, 2) / math.sqrt(model.head)).masked_fill(~visible, -math.inf).softmax(-1)
        yield a.numpy()
        x = model.finish(l, x, a @ v)


def pool(s, kernel, how):
    """Over `kernel` neighbours of the last axis, centred; the ends have fewer, the mean divides by kernel there too."""
    half, out = kernel // 2, np.empty_like(s)
    for j in range(s.shape[-1]):
        near = s[..., max(0, j - half):j + half + 1]
        out[..., j] = near.max(-1) if how == "max" else near.sum(-1) / kernel
    return out


def observe(a, kv_heads, window, kernel, how="max", reduce="sum"):
    """SnapKV's scores (KV heads, T - window) of a layer with the probabilities a."""
    s = a[:, -window:, :-window].sum(1)
    return getattr(pool(s, kernel, how).reshape(kv_heads, -1, s.shape[-1]), reduce)(1)


def last(a):
    """TOVA's scores (1, T), one row for all heads."""
    return a[:, -1].mean(0)[None]


def best(scores, n):
    """The n positions with the highest scores, ascending."""
    order = sorted(range(len(scores)), key=lambda j: (scores[j], j))
    return sorted(order[len(order) - n:])


def keep(scores, counts, window):
    """For each head its best counts[head] positions and the window behind the scores."""
    return [best(s, n) + list(range(len(s), len(s) + window)) for s, n in zip(scores, counts)]


def largest_remainders(exact, total):
    """Whole numbers that sum to total, near the exact values: floors, then one each to the largest fractions, lower index first."""
    out = [math.floor(x) for x in exact]
    for i in sorted(range(len(out)), key=lambda i: (out[i] - exact[i], i))[:total - sum(out)]:
        out[i] += 1
    return out


def line(layers, budget, window, tokens, beta):
    """PyramidKV's highest and lowest number of tokens beyond the window, or None where budgets are uniform."""
    base, beyond = budget - window, tokens - window
    low = base // beta
    high = 2 * base - low
    if high >= beyond:
        high, low = beyond, 2 * base - beyond
    return None if tokens < 2 * base or layers == 1 or high < low else (high, low)


def pyramid(layers, budget, window, tokens, beta=20, published=False):
    """PyramidKV's slots of each layer: the exact line rounded to sum layers * budget, or the authors' whole steps."""
    ends = line(layers, budget, window, tokens, beta)
    if ends is None:
        return [budget] * layers
    high, low = ends
    if published:
        return [high - l * ((high - low) // (layers - 1)) + window for l in range(layers)]
    exact = [high - l * Fraction(high - low, layers - 1) for l in range(layers)]
    total = layers * (budget - window)
    return [n + window for n in largest_remainders([x * total / sum(exact) for x in exact], total)]


def shares(scores, base, alpha):
    """Ada-KV's slots of each head beyond the window, for `base` in the mean; alpha in thousandths."""
    heads, have = scores.shape
    flat = sorted(range(scores.size), key=lambda i: (scores.flat[i], i % have, i // have))
    count = [0] * heads
    for i in flat[scores.size - heads * base:]:
        count[i // have] += 1
    out = largest_remainders([Fraction((1000 - alpha) * c + alpha * base, 1000) for c in count], heads * base)
    if max(out) > have:
        raise AssertionError(f"shares {out} of {have} tokens: choose a setting where no head is full")
    return out
