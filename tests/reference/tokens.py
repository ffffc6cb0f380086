"""A tokenizer built from the vocabulary and merges inside a GGUF file, with the tokenizers library."""
from gguf import GGUFReader, TokenType
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
SPLIT = {"gpt-2": BYTES, "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES])}


def tokenizer(path):
    get = lambda key: GGUFReader(path).fields["tokenizer.ggml." + key].contents()
    tokens, types = get("tokens"), get("token_type")
    merges = [tuple(m.split(" ")) for m in get("merges")]
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tok.pre_tokenizer, tok.decoder = SPLIT[get("pre")], decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == TokenType.CONTROL])
    return tok
