"""War and Peace: the text, its checksum, and which parts of it the builtin model never saw in training."""
import hashlib, re

SHA256 = "eaecfcb30408e2bc35ffe69b297127e3a6ca75548c033df4d2e703b5ff711f8d"
PASSAGES = [(400_000, 416_384), (1_500_000, 1_516_384)]  # characters, where the policies are compared
TAIL = 3_100_000  # characters: everything from here on is for validation
END = "<|endoftext|>"


def read(path):
    """The whole book; any other text is refused. Offsets into it count characters, not bytes."""
    raw = open(path, "rb").read()
    got = hashlib.sha256(raw).hexdigest()
    if got != SHA256:
        raise SystemExit(f"{path}: sha256 {got}, want {SHA256}")
    return raw.decode("utf8")


def training(book):
    """The spans of text to train on, every chapter opened by the end-of-text token."""
    cuts = [0] + [edge for span in PASSAGES for edge in span] + [TAIL]
    spans = [book[a:b] for a, b in zip(cuts[0::2], cuts[1::2])]
    return [re.sub(r"(?m)^(?=CHAPTER [IVXL]+$)", END, s) for s in spans]
