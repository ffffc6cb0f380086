#!/bin/sh
# Fails if the committed SPIR-V and bindings are not what shaders/gen makes of the GLSL.
# Another compiler writes other bytes, so only the one that made the committed files can tell.
set -eu
cd "$(dirname "$0")/.."

compiler="shaderc 2023.2-1" # Debian 12's
found=$(glslc --version | head -n 1)
if [ "$found" != "$compiler" ]; then
	echo "gen_check: not checked: glslc is $found, the committed files were made by $compiler" >&2
	exit 0
fi
# It takes minutes, so what has passed is not made again.
passed=.cache/gen_check
now=$({ go version; glslc --version; spirv-opt --version 2>&1; find shaders -type f | LC_ALL=C sort | xargs sha256sum; } | sha256sum)
if [ "$(cat $passed 2>/dev/null)" = "$now" ]; then exit 0; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/gen" ./shaders/gen
cp -R shaders "$work/shaders"
(cd "$work/shaders" && "$work/gen")
if ! diff -rq shaders "$work/shaders"; then
	echo "gen_check: these files are not what the GLSL gives; run make gen" >&2
	exit 1
fi
mkdir -p .cache
echo "$now" >$passed
