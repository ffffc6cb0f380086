#!/bin/sh
# Fetches what tests need, checks the sources and runs every test: on SwiftShader and lavapipe, or on the device that
# VKDECODE_TEST_DEVICE selects.
set -eu
cd "$(dirname "$0")/.."

say() { echo "test: $*" >&2; }

scripts/setup.sh build model test
if [ -z "${VKDECODE_TEST_DEVICE:-}" ]; then swiftshader/fetch; fi
scripts/fetch_model.sh

say "format"
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	say "gofmt would change:" $unformatted
	exit 1
fi
say "vet"
go vet ./...
# Compiled shaders are committed, so that only who changes them needs their compiler. As root it is there for the asking.
if command -v glslc >/dev/null || { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }; then
	say "generated files"
	scripts/setup.sh gen
	scripts/gen_check.sh
else
	say "generated files not checked: no glslc"
fi
say "tests"
# The longest first, so that none of them runs alone at the end. What vet looks at was looked at.
exec go test -count=1 -timeout 30m -vet=off ./tests ./cmd/vkdecode ./...
