#!/bin/sh
# Prints, as Markdown, the perplexity of SmolLM2 on two pieces of War and Peace and one of Opticks under every policy with
# 20 and 30 % of the slots. Half an hour on two cores. What is given is added to the flags of `vkdecode eval ppl`.
# Usage: scripts/eval.sh [--chunk 1] [--kv full,h2o] [--resume FILE] ...
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh build run model
scripts/fetch_model.sh
scripts/build.sh

# War and Peace comes with a Go module; downloading one by its version leaves go.mod as it is.
peace=$(go mod download -json github.com/ollama/ollama@v0.17.4 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/tokenizer/testdata/war-and-peace.txt
opticks=$(go env GOROOT)/src/testdata/Isaac.Newton-Opticks.txt
policies=$(./vkdecode __complete eval ppl model --kv "" 2>/dev/null | sed '/^:/d' | paste -sd , -)

compare() {
	./vkdecode eval ppl models/SmolLM2-135M-Instruct.Q4_1.gguf --kv "$policies" --budget 20%,30% --tokens 2048 --chunk 16 --markdown "$@"
}
# The bytes where characters 400,000 and 1,500,000 begin.
compare --text "$peace" --offset 400003,1500013 "$@"
echo
compare --text "$opticks" --offset 200000 "$@"
