#!/bin/sh
# Prints prompt and decode speed by context depth for full and h2o, on each software driver. A quarter of an hour on two cores.
# Usage: scripts/bench.sh [auto]; auto measures this machine's own device instead.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh build model test
swiftshader/fetch
scripts/fetch_model.sh
scripts/build.sh
if [ "${1:-}" = auto ]; then
	exec go run ./tests/speed -driver auto
fi
go run ./tests/speed -driver lavapipe
go run ./tests/speed -driver swiftshader -depths 128,1024 -rounds 1
