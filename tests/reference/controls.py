"""Shows that each random model notices the feature it is there for: the logits with the feature left out, against the true ones.

  python controls.py    prints one line per model and fails where leaving the feature out changes almost nothing

The first column is the error of the same pass in float32: what an engine can reach.
"""
import os, sys
import torch
import tiny
from fixtures import DATA
from llama import Llama


def plain_rotation(m):
    m.inv = 10_000.0 ** (-torch.arange(0, m.head, 2).double() / m.head)


def common_eps(m):
    m.eps = 1e-5


def without(ending, but="?"):
    def remove(m):
        for name in [n for n in m.weights if n.endswith(ending) and but not in n]:
            del m.weights[name]
    return remove


def scaled(m):
    m.inv = m.inv / 4


def halves(m):
    """Pairs half a head apart, as in files of other architectures."""
    def rotate(x, pos):
        angle, n = pos.double()[:, None] * m.inv, len(m.inv)
        cos, sin, a, b = angle.cos(), angle.sin(), x[..., :n], x[..., n:2 * n]
        return torch.cat((a * cos - b * sin, a * sin + b * cos, x[..., 2 * n:]), -1)
    m.rotate = rotate


FEATURES = {
    "eps": (common_eps, ["head64-eps3", "head80-eps6"]),
    "biases": (without(".bias"), ["head48-biases", "head128-f16", "layers-heads"]),
    "own head": (without("output.weight", but="blk."), ["group1-untied", "group8-f16", "head48-biases", "theta1e6", "layers-heads"]),
    "rotation": (plain_rotation, ["theta500", "theta1e6", "linear4", "linear4-untyped", "linear4-legacy", "freqs", "partial", "partial-freqs"]),
    "no scaling": (scaled, ["scaling-none"]),
    "neighbouring pairs": (halves, list(tiny.CASES)),
}


def nmse(got, want):
    return float((got.double() - want).pow(2).sum() / want.pow(2).sum())


if __name__ == "__main__":
    torch.set_num_threads(1)
    weak = False
    for name in tiny.CASES:
        path, ids = os.path.join(DATA, "llama", name + ".gguf"), tiny.ids(name)
        want = Llama(path).forward(ids)
        line = f"{name}: float32 {nmse(Llama(path, torch.float32).forward(ids), want):.1e}"
        for feature, (leave_out, names) in FEATURES.items():
            if name in names:
                m = Llama(path)
                leave_out(m)
                error = nmse(m.forward(ids), want)
                line += f", without {feature} {error:.1e}"
                weak |= error < 1e-2
        print(line)
    sys.exit("a feature can be left out unnoticed" if weak else 0)
