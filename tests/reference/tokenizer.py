"""Goldens of model/tokenizer, from Hugging Face's tokenizers library.

    python tests/reference/tokenizer.py                 the small vocabulary, from the Go toolchain's Opticks
    python tests/reference/tokenizer.py smollm2 FILE    the vocabulary of a SmolLM2 GGUF file
    python tests/reference/tokenizer.py vocabularies    the vocabularies that vocabularies.sh fetched

Versions are those of requirements.txt. The small vocabulary is trained without
any pre-tokenizer: its tokens reach across words, lines and digits, so that a word
boundary at the wrong place shows in the ids.
"""

import json
import pathlib
import random
import subprocess
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre

from tokenizer_strings import SPECIAL, cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "model/tokenizer/testdata"
VOCABULARIES = ROOT / "models/vocab"

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


def cl_pattern(digits):
    return (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits
            + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def cl_words(digits):
    split = pre.Split(Regex(cl_pattern(digits)), "isolated")
    return pre.Sequence([split, pre.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS = {
    "gpt-2": pre.ByteLevel(add_prefix_space=False),
    "smollm": pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)]),
    "llama-bpe": cl_words(r"\p{N}{1,3}"),
    "qwen2": cl_words(r"\p{N}"),
}


def build(name, tokens, types, merges):
    """The tokenizer that a model with this pre-tokenizer was trained with."""
    ids = {}
    for i, token in enumerate(tokens):
        ids.setdefault(token, i)
    t = Tokenizer(models.BPE(ids, [tuple(m.split(" ")) for m in merges], ignore_merges=name == "llama-bpe"))
    t.pre_tokenizer = PRE_TOKENIZERS[name]
    t.decoder = decoders.ByteLevel()
    if name == "qwen2":
        t.normalizer = normalizers.NFC()
    for token, kind in zip(tokens, types):
        if kind in (CONTROL, USER_DEFINED):
            t.add_tokens([AddedToken(token, special=kind == CONTROL, normalized=False)])
    return t


def encode(t, text, special):
    t.encode_special_tokens = not special
    return t.encode(text, add_special_tokens=False).ids


def write(path, head, rows, tail=None):
    """JSON with a row a line, so that a difference can be read."""
    def dump(x):
        return json.dumps(x, ensure_ascii=False, separators=(",", ":"))
    parts = [f'"{k}":{dump(v)}' for k, v in head.items()]
    for key, values in {"cases": rows, **(tail or {})}.items():
        parts.append(f'"{key}":[\n' + ",\n".join(dump(v) for v in values) + "\n]")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + ",\n".join(parts) + "}\n")
    print(f"{path.relative_to(ROOT)}: {len(rows)} cases, {path.stat().st_size} bytes")


def row(text, repeat, special, **more):
    r = {"text": text}
    if repeat > 1:
        r["repeat"] = repeat
    if special:
        r["special"] = True
    return {**r, **more}


def goldens(name, t):
    rows = [row(*c, ids=encode(t, c[0] * c[1], c[2])) for c in cases()]
    write(GOLDENS / f"{name}.json", {}, rows)


def train():
    """1,024 tokens: bytes, merges, two words that no merge makes, and added tokens."""
    goroot = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
    book = pathlib.Path(goroot, "src/testdata/Isaac.Newton-Opticks.txt").read_text()[:200_000]
    added = [("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL),
             ("<think>", USER_DEFINED), ("</think>", USER_DEFINED),
             ("::", USER_DEFINED), (":::", USER_DEFINED), ("x::", USER_DEFINED), ("::yz", USER_DEFINED)]
    whole = ["refrangibility", "Ġtelescope"]
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=1024 - len(whole) - len(added), show_progress=False,
                                  initial_alphabet=pre.ByteLevel.alphabet(), max_token_length=12)
    seams = [text for text, repeat, _ in cases() if repeat == 1 and text not in SPECIAL]
    t.train_from_iterator([book[i:i + 80] for i in range(0, len(book), 80)] + 40 * seams, trainer)
    model = json.loads(t.to_str())["model"]
    words = sorted(model["vocab"], key=model["vocab"].get) + whole
    tokens = words + [text for text, _ in added]
    assert len(set(tokens)) == len(tokens), "a merge already makes a whole word or an added token"
    types = [NORMAL] * len(words) + [kind for _, kind in added]
    return tokens, types, [" ".join(m) for m in model["merges"]]


def small():
    tokens, types, merges = train()
    built = {name: build(name, tokens, types, merges) for name in PRE_TOKENIZERS}
    rows = []
    for case in cases():
        groups = {}
        for name, t in built.items():
            groups.setdefault(tuple(encode(t, case[0] * case[1], case[2])), []).append(name)
        rows.append(row(*case, ids={" ".join(names): list(ids) for ids, names in groups.items()}))
    rng = random.Random(1730)
    decode = []
    for _ in range(60):
        ids = [rng.choice([rng.randrange(256), rng.randrange(len(tokens))]) for _ in range(rng.randint(1, 12))]
        decode.append({"ids": ids, "text": built["gpt-2"].decode(ids, skip_special_tokens=False)})
    head = {"tokens": tokens, "types": types, "merges": merges}
    write(GOLDENS / "opticks.json", head, rows, {"decode": decode})


def read_gguf(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    return tuple(fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "merges"))


def read_json(path):
    """A vocabulary as a GGUF file would hold it, from a tokenizer.json."""
    j = json.loads(path.read_text())
    ids = dict(j["model"]["vocab"])
    kinds = {}
    for a in j["added_tokens"]:
        ids[a["content"]] = a["id"]
        kinds[a["id"]] = CONTROL if a["special"] else USER_DEFINED
    tokens = sorted(ids, key=ids.get)
    assert [ids[t] for t in tokens] == list(range(len(tokens))), f"{path}: ids with gaps"
    merges = [m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]]
    return tokens, [kinds.get(i, NORMAL) for i in range(len(tokens))], merges


def vocabularies():
    """Vocabularies for the full comparison, and their goldens from the makers' own tokenizer.json where there is one."""
    for name in ("gpt-2", "llama-bpe", "qwen2"):
        source = VOCABULARIES / "source" / name
        if (source / "tokenizer.json").exists():
            vocabulary = read_json(source / "tokenizer.json")
            t = Tokenizer.from_file(str(source / "tokenizer.json"))
        else:
            vocabulary = read_gguf(source / "vocabulary.gguf")
            t = build(name, *vocabulary)
        tokens, types, merges = vocabulary
        (VOCABULARIES / f"{name}.json").write_text(json.dumps({"tokens": tokens, "types": types, "merges": merges}))
        goldens(name, t)


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            small()
        case ["smollm2", path]:
            goldens("smollm2", build("smollm", *read_gguf(path)))
        case ["vocabularies"]:
            vocabularies()
        case _:
            sys.exit(__doc__)
