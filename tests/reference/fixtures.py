"""Writes the reference data under tests/testdata. See README.md for the commands.

  python fixtures.py tiny                     llama/*.gguf and llama/*.json
  python fixtures.py smollm2 --model FILE     smollm2.json
  python fixtures.py builtin --text FILE      builtin.json
  python fixtures.py h2o --text FILE          h2o.json
"""
import argparse, base64, hashlib, json, os
import numpy as np, torch
import book, h2o, tiny
from llama import Llama
from tokens import tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "testdata")
BUILTIN = os.path.join(HERE, "..", "..", "model", "builtin", "builtin.gguf")

SENTENCE = "The capital of France is"
CODE = """def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)

print(mean([1, 2, 3, 40, 512]))
"""
PROSE = """The lamp at the end of the pier had burned without a fault for thirty-one years before the night it went out. \
Old Marta, who kept it, was asleep in her chair with the cat across her knees, and neither of them noticed. Out beyond \
the sandbar a small boat carrying salt, lemons and a letter for the schoolmaster turned its bow towards the place where \
the light ought to have been, found only darkness, and waited. The captain was a patient woman. She let down the anchor, \
poured the last of the coffee into two tin cups, and told the boy that a harbour which cannot be seen has still not gone \
anywhere. By morning the fog had lifted. The letter was delivered before breakfast, the lemons were sold by noon, and \
Marta climbed the stairs with a new wick, counting each step aloud as she had always done."""
BATTLE = """Prince Andrew rode up the hill to the battery and looked down at the village. "Where is the general?" he asked."""
SALON = """Natasha ran into the drawing room, laughing, and threw her arms around the countess. "Mamma, dear," she said, \
"Pierre has come from Moscow, and he says that the war is over and the Emperor is coming home!" The countess looked at \
her daughter, then at Pierre, who stood smiling in the doorway with his spectacles in his hand."""


def base(values):
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def digits(x, n=9):
    return None if x is None else float(f"{x:.{n}g}")


def sha256(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def save(name, data):
    path = os.path.join(DATA, name)
    with open(path, "w") as f:
        json.dump(data, f, separators=(",", ":"))
        f.write("\n")
    print(f"{name} {os.path.getsize(path)} bytes")


def row(logits, position, sample):
    """One row of logits: the 64 largest, 64 at fixed ids, and the sums that the rest must agree with."""
    top = logits.topk(64)
    return dict(position=position, top_ids=top.indices.tolist(), top=base(top.values), sample=base(logits[sample]),
                sum=float(logits.sum()), sum_squares=float(logits.pow(2).sum()))


def prompts(model, tok, texts, steps=64):
    vocab = len(model.weights["token_embd.weight"])
    sample = np.sort(np.random.default_rng(7).choice(vocab, 64, replace=False)).tolist()
    out = []
    for name, text in texts.items():
        ids = tok.encode(text, add_special_tokens=False).ids
        if tok.decode(ids) != text:
            raise AssertionError(f"prompt {name} does not survive its own tokenizer")
        logits, greedy, gaps = model.greedy(ids, steps)
        out.append(dict(name=name, text=text, ids=ids, greedy=greedy, greedy_text=tok.decode(greedy), gaps=[digits(g, 6) for g in gaps],
                        logits=[row(logits[p], p, sample) for p in (0, len(ids) // 2, len(ids) - 1)]))
        print(f"{name}: {len(ids)} tokens, smallest gap {min(gaps):.2e}: {tok.decode(greedy)!r}")
    return dict(sample_ids=sample, prompts=out)


def write_tiny(o):
    for name in tiny.CASES:
        path = os.path.join(DATA, "llama", name + ".gguf")
        tiny.write(name, path)
        ids = tiny.ids(name)
        logits = Llama(path).forward(ids)
        print(f"{os.path.getsize(path)} bytes, logits of size {float(logits.std()):.2f}: ", end="")
        save(f"llama/{name}.json", dict(sha256=sha256(path), ids=ids, vocab=logits.shape[1], logits=base(logits)))


def write_smollm2(o):
    data = dict(model=os.path.basename(o.model), sha256=sha256(o.model), arithmetic="float64")
    save("smollm2.json", data | prompts(Llama(o.model), tokenizer(o.model), dict(sentence=SENTENCE, code=CODE, prose=PROSE)))


def write_builtin(o):
    model, tok = Llama(BUILTIN), tokenizer(BUILTIN)
    data = dict(model="builtin.gguf", sha256=sha256(BUILTIN), arithmetic="float64")
    data |= prompts(model, tok, dict(battle=BATTLE, salon=SALON))
    start = book.PASSAGES[0][0]
    ids = tok.encode(book.read(o.text)[start:start + 8192], add_special_tokens=False).ids[:1500]
    nll = torch.nn.functional.cross_entropy(model.forward(ids)[:-1], torch.tensor(ids[1:]), reduction="none")
    print(f"perplexity {float(nll.mean().exp()):.4f}")
    save("builtin.json", data | dict(passage=dict(book_sha256=book.SHA256, offset=start, ids=ids, nll=base(nll),
                                                  mean_nll=float(nll.mean()), perplexity=float(nll.mean().exp()))))


def write_h2o(o):
    model, tok = Llama(BUILTIN), tokenizer(BUILTIN)
    start = book.PASSAGES[0][0]
    ids = tok.encode(book.read(o.text)[start:start + 2048], add_special_tokens=False).ids[:200]
    runs = []
    for chunk in (1, 32):
        for budget in (16, 48):
            for ratio in (0.0, 0.5, 1.0):
                logits, steps = h2o.stream(model, ids, budget, int(budget * ratio), chunk)
                nll = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]))
                steps = [s for s in steps if any(v for heads in s[1] for v in heads)]
                gaps = [[[digits(g, 4) for g in heads] for heads in s[2]] for s in steps]
                flat = [g for s in gaps for heads in s for g in heads if g is not None]
                print(f"chunk {chunk} budget {budget} ratio {ratio}: smallest gap {min(flat, default=None)}, mean nll {float(nll):.4f}")
                runs.append(dict(chunk=chunk, budget=budget, recent=int(budget * ratio), last_positions=[s[0] for s in steps],
                                 victims=[s[1] for s in steps], gaps=gaps, mean_nll=float(nll), last_logits=base(logits[-1])))
    save("h2o.json", dict(model="builtin.gguf", sha256=sha256(BUILTIN), arithmetic="float64", ids=ids, runs=runs))


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", choices=["tiny", "smollm2", "builtin", "h2o"])
    ap.add_argument("--model"); ap.add_argument("--text")
    o = ap.parse_args()
    torch.set_num_threads(1)
    os.makedirs(os.path.join(DATA, "llama"), exist_ok=True)
    with torch.inference_mode():
        globals()["write_" + o.what](o)
