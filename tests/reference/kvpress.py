"""Writes testdata/kvpress.json: what the presses of NVIDIA's kvpress keep of a prompt, as a second reference.

  python kvpress.py --text BOOK --model SMOLLM2

Each press runs on transformers' LlamaForCausalLM with our weights in float64, over the whole prompt at once. What it kept is
read from the cache it leaves: the keys that are still there, or not masked. prompts.py, which shares no code with it, has to
keep the same tokens by the same scores. Where kvpress has no such setting (max pooling, whole budgets of PyramidKV and
Ada-KV), prompts.py alone says what stays, on scores that kvpress has confirmed where it can.

Where kvpress differs from our policies:
  - It takes a compression ratio r and keeps max(1, int(T (1 - r))) tokens; int() cuts, so that r = 1 - B / T may keep B - 1.
    Here r lies half a token below.
  - SnapKV: the mean over the window and over the group, where ours are sums: a factor of W G, no other order. Average
    pooling only; defaults W = 64, k = 5 (ours 32, 7, max). The window stays because its score is set to the highest + 1, so
    a budget below the window drops some of it, which ours refuses. A prompt must be longer than the window.
  - TOVA: in prompts only. The last token always stays; in the paper, and in ours without protect_last=1, it competes.
  - PyramidKV: T (1 - r) are the slots beyond the window, but the numbers that come out are used as slots with the window:
    every layer keeps W fewer than in the authors' code, or in ours with a budget of T (1 - r) + W. It rounds each layer to the
    nearest, and falls back to uniform budgets, rounded too, when the top layer would have less than W. There is no uniform
    case for short prompts.
  - Ada-KV: alpha is a safeguard: each head keeps its int(alpha n) best of all tokens, the window among them, and the heads
    compete for the rest. Ours gives (1 - alpha) c_i + alpha base beyond the window. Both are the same at alpha = 0,
    and kvpress's alpha does nothing while alpha n <= W. The keys of dropped tokens stay in memory, masked.
  - Softmax in float32, and equal scores in no certain order.

kvpress 0.5.5 asks for transformers below 5.3: in later ones the cache is handed to a layer under another name, and the
position of its rows not at all. `Recorded` gives both to the hook; the presses are as they are.
"""
import argparse, importlib.util, json, os, sys, types
import numpy as np, torch

HERE = os.path.dirname(os.path.abspath(__file__))


def package():
    """The installed package of this file's name, without its __init__, which imports every press and what they need."""
    for folder in sys.path:
        path = os.path.join(folder or ".", "kvpress")
        if os.path.isdir(os.path.join(path, "presses")):
            found = types.ModuleType("kvpress")
            found.__path__ = [path]
            return found
    raise SystemExit("kvpress.py: the package kvpress is missing: pip install --no-deps -r requirements-no-deps.txt")


sys.modules["kvpress"] = package()
from kvpress.presses.adakv_press import AdaKVPress
from kvpress.presses.pyramidkv_press import PyramidKVPress
from kvpress.presses.snapkv_press import SnapKVPress
from kvpress.presses.tova_press import TOVAPress
import book, prompts
from fixtures import BUILTIN, base, digits, save, sha256
from llama import Llama, transformers_twin
from tokens import tokenizer

SCORE = 2e-5  # most that a score of kvpress may differ from the definition's, relative: norms, rotations and softmax are in float32
CHOICE = 4e-5  # least relative gap, where the tokens that stay have to be the same
SMOLLM2_LAYERS = 0, 14, 29


class Recorded:
    """A press during one prompt: `kept` and `scores` by layer, then KV head."""

    def __init__(self, press, twin, ids):
        self.kept, self.scores = [], []
        scorer = getattr(press, "press", press)
        score, hook = scorer.score, press.forward_hook

        def scored(*args):
            s = score(*args)
            self.scores.append(s[0].numpy().copy())
            return s

        def hooked(module, inputs, kwargs, output):
            before = kwargs["cache"].layers[module.layer_idx].keys[0]
            out = hook(module, inputs, kwargs | dict(past_key_values=kwargs["cache"], cache_position=torch.arange(len(ids))), output)
            self.kept.append(self.left(module, before, kwargs["cache"].layers[module.layer_idx].keys[0]))
            return out

        scorer.score, press.forward_hook = scored, hooked
        with torch.inference_mode(), press(twin):
            twin(torch.tensor(ids)[None], use_cache=True)

    @staticmethod
    def left(module, before, after):
        """The positions of the keys (KV heads, tokens, head) that are left."""
        masked = getattr(module, "masked_key_indices", None)
        if masked is not None:
            module.masked_key_indices = None
            gone = set(zip(masked[1].tolist(), masked[2].tolist()))
            return [[p for p in range(len(keys)) if (h, p) not in gone] for h, keys in enumerate(before)]
        same = (after[:, :, None] == before[:, None]).all(-1)
        if not (same.sum(-1) == 1).all():
            raise AssertionError("two tokens have the same key")
        return [sorted(h.int().argmax(-1).tolist()) for h in same]


class Prompt:
    """The runs over one prompt of one model."""

    def __init__(self, path, ids, layers=None):
        self.model = Llama(path)
        self.twin = transformers_twin(self.model, len(self.model.weights["token_embd.weight"]))
        self.path, self.ids, self.layers = path, ids, list(layers or range(self.model.layers))
        with torch.inference_mode():
            self.a = list(prompts.probabilities(self.model, ids))
        self.heads = self.model.kv_heads[0]
        self.group = self.model.heads[0] // self.heads
        self.runs, self.scores, self.tables = [], [], {}

    def ratio(self, n):
        return 1 - (n + 0.5) / len(self.ids)

    def press(self, press):
        print(f"  {press}")
        return Recorded(press, self.twin, self.ids)

    def observed(self, window, kernel, how="avg", reduce="sum"):
        return [prompts.observe(a, self.heads, window, kernel, how, reduce) for a in self.a]

    def table(self, name, scores):
        """The index of a table of scores in the file, by layer and KV head."""
        if name not in self.tables:
            self.tables[name] = len(self.scores)
            self.scores.append(dict(name=name, values=[[base(h) for h in scores[l]] for l in self.layers]))
        return self.tables[name]

    def confirm(self, got, scores, factor):
        """Fails unless a press gave the tokens before the window these scores, times factor."""
        n = scores[0].shape[1]
        worst = max(float(abs(g[:, :n] * factor / s - 1).max()) for g, s in zip(got.scores, scores))
        if worst > SCORE:
            raise AssertionError(f"scores of kvpress are {worst:.1e} from the definition, want {SCORE} at most")
        return worst

    def run(self, policy, budget, name, scores, kept, got=None, budgets=None):
        """Notes a run: kept by layer and KV head is what prompts.py says, and has to be what the press left, if there was one."""
        gaps = [self.gap(s, k) for l, row in enumerate(kept) for s, k in zip(list(scores[l]) * (1 if len(scores[l]) > 1 else self.heads), row)]
        if policy.startswith("adakv"):
            gaps += [self.gap(s.flatten(), self.winners(s, budget - len(self.ids) + s.shape[1])) for s in scores]
        least = min((g for g in gaps if g is not None), default=None)
        if got and got.kept != kept:
            if least is None or least > CHOICE:
                raise AssertionError(f"{policy}, budget {budget}: kvpress keeps other tokens than the definition, smallest gap {least}")
        run = dict(policy=policy, budget=budget, by="kvpress" if got else "definition", scores=self.table(name, scores),
                   gap=digits(least, 4), counts=[[len(h) for h in row] for row in kept], kept=[(got.kept if got else kept)[l] for l in self.layers])
        if budgets:
            run["layers"] = budgets
        self.runs.append(run)
        print(f"{run['by']}: {policy} budget {budget}: smallest gap {least and f'{least:.1e}'}, counts {run['counts']}")

    @staticmethod
    def winners(scores, base):
        """The best of all heads, as indices of the scores in a row: what Ada-KV counts."""
        return np.argsort(scores, axis=None)[scores.size - len(scores) * base:].tolist()

    @staticmethod
    def gap(scores, kept):
        """(lowest score that stays - highest that goes) / the lowest that stays; None where nothing goes or all does."""
        stays = [scores[p] for p in kept if p < len(scores)]
        goes = [s for p, s in enumerate(scores) if p not in set(kept)]
        return (min(stays) - max(goes)) / min(stays) if stays and goes else None

    def snapkv(self, budget, window, kernel):
        scores, got = self.observed(window, kernel), self.press(SnapKVPress(self.ratio(budget), window, kernel))
        worst = self.confirm(got, scores, window * self.group)
        print(f"  scores differ by {worst:.1e}")
        kept = [prompts.keep(s, [budget - window] * self.heads, window) for s in scores]
        self.run(f"snapkv:window={window}:kernel={kernel}:pool=avg", budget, f"window {window}, kernel {kernel}, avg", scores, kept, got)

    def snapkv_alone(self, budget, window, kernel, how, reduce):
        scores = self.observed(window, kernel, how, reduce)
        kept = [prompts.keep(s, [budget - window] * self.heads, window) for s in scores]
        self.run(f"snapkv:window={window}:kernel={kernel}:pool={how}:reduce={reduce}", budget, f"window {window}, kernel {kernel}, {how}, {reduce}", scores, kept)

    def tova(self, budget):
        scores, got = [prompts.last(a) for a in self.a], self.press(TOVAPress(self.ratio(budget)))
        before = [s[:, :-1] for s in scores]
        self.confirm(got, before, 1)
        kept = [prompts.keep(s, [budget - 1], 1) * self.heads for s in before]
        self.run("tova:protect_last=1", budget, "last query, all but the last token", before, kept, got)
        self.run("tova", budget, "last query", scores, [prompts.keep(s, [budget], 0) * self.heads for s in scores])

    def pyramidkv(self, budget, window, kernel, beta):
        scores, tokens = self.observed(window, kernel), len(self.ids)
        got = self.press(PyramidKVPress(1 - (budget - window) / tokens, window, kernel, beta))
        self.confirm(got, scores, window * self.group)
        counts = [len(k[0]) for k in got.kept]
        kept = [prompts.keep(s, [n - window] * self.heads, window) for s, n in zip(scores, counts)]
        self.run(f"snapkv:window={window}:kernel={kernel}:pool=avg", budget, f"window {window}, kernel {kernel}, avg", scores, kept, got, counts)
        ends = prompts.line(self.model.layers, budget, window, tokens, beta)
        ours = self.pyramidkv_alone(budget, window, kernel, beta)
        want = [b - window for b in ours] if ends and ends[1] >= window else [budget - window] * len(ours)
        if max(abs(n - b) for n, b in zip(counts, want)) > 1:
            raise AssertionError(f"kvpress gives the layers {counts} slots, want {want}, one more or less")

    def pyramidkv_alone(self, budget, window, kernel, beta):
        """Returns the exact budgets."""
        scores, budgets = self.observed(window, kernel), {}
        for rounding in "published", "exact":
            budgets = prompts.pyramid(self.model.layers, budget, window, len(self.ids), beta, rounding == "published")
            kept = [prompts.keep(s, [n - window] * self.heads, window) for s, n in zip(scores, budgets)]
            self.run(f"pyramidkv:window={window}:kernel={kernel}:pool=avg:beta={beta}:rounding={rounding}", budget,
                     f"window {window}, kernel {kernel}, avg", scores, kept)
        return budgets

    def adakv(self, budget, window, kernel, *alphas):
        scores, name = self.observed(window, kernel), f"window {window}, kernel {kernel}, avg"
        policy = lambda alpha: f"adakv:window={window}:kernel={kernel}:pool=avg:alpha={alpha / 1000:g}"
        by_alpha = lambda alpha: [prompts.keep(s, prompts.shares(s, budget - window, alpha), window) for s in scores]
        for safeguard in 0, 200, 900:
            got = self.press(AdaKVPress(SnapKVPress(self.ratio(budget), window, kernel), safeguard / 1000))
            self.confirm(got, scores, window * self.group)
            counts = [[len(h) for h in row] for row in got.kept]
            least = max(window, budget * safeguard // 1000)
            if any(min(row) < least or sum(row) != self.heads * budget for row in counts):
                raise AssertionError(f"kvpress shares {counts} slots, want at least {least} of {self.heads * budget} for a head")
            print(f"  kvpress with alpha {safeguard / 1000:g} shares {counts[:3]}")
            if safeguard == 0:
                self.run(policy(0), budget, name, scores, by_alpha(0), got)
        for alpha in alphas:
            self.run(policy(alpha), budget, name, scores, by_alpha(alpha))

    def file(self):
        return dict(model=os.path.basename(self.path), sha256=sha256(self.path), ids=self.ids, layers=self.layers, scores=self.scores, runs=self.runs)


def builtin(text):
    start = book.PASSAGES[0][0]
    p = Prompt(BUILTIN, tokenizer(BUILTIN).encode(book.read(text)[start:start + 2048], add_special_tokens=False).ids[:252])
    for budget, window, kernel in (48, 16, 5), (64, 32, 7), (96, 32, 7), (80, 64, 5), (20, 4, 1), (33, 32, 7), (150, 40, 99):
        p.snapkv(budget, window, kernel)
    for reduce in "sum", "max":
        p.snapkv_alone(64, 32, 7, "max", reduce)
    for budget in 2, 24, 120:
        p.tova(budget)
    p.pyramidkv(64, 4, 5, 4)
    p.pyramidkv(142, 16, 5, 20)  # the lowest layer would keep more than there is
    p.pyramidkv(48, 16, 5, 20)  # the top layer would keep less than the window: uniform in kvpress
    p.pyramidkv_alone(160, 16, 5, 20)  # a short prompt: uniform
    for budget, window, kernel in (48, 16, 5), (96, 32, 7):
        p.adakv(budget, window, kernel, 200, 500, 1000)
    return p.file()


def smollm2(path, text):
    start = book.PASSAGES[0][0]
    p = Prompt(path, tokenizer(path).encode(book.read(text)[start:start + 2048], add_special_tokens=False).ids[:200], SMOLLM2_LAYERS)
    p.snapkv(64, 32, 7)
    p.tova(48)
    p.pyramidkv(64, 8, 7, 4)
    p.adakv(64, 32, 7, 200)
    return p.file()


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--text", required=True); ap.add_argument("--model", required=True)
    o = ap.parse_args()
    torch.set_num_threads(1)
    with torch.inference_mode():
        save("kvpress.json", dict(kvpress="0.5.5", prompts=[builtin(o.text), smollm2(o.model, o.text)]))
