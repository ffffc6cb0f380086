#!/bin/sh
# Prints our speed on lavapipe beside llama.cpp's: its Vulkan backend on the same lavapipe, and its CPU backend, on the same
# prompt. Some minutes on two cores. What is given is added to the flags of tests/speed: -depths 64,1024 -rounds 5
# Usage: scripts/bench_peer.sh [FLAGS...]
# The peer's libraries come from npm and its headers from Python's package index, into .cache/peer.
set -eu
cd "$(dirname "$0")/.."

libraries=@node-llama-cpp/linux-x64-vulkan@3.22.1
libraries_hash=e10577190fc4bd1649d3b655588e5c7a85fc6b6dbf7136fee596cbe9e25521e7
headers=llama-cpp-python==0.3.36
headers_hash=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

say() { echo "bench_peer: $*" >&2; }
check() { echo "$2  $1" | sha256sum --check --status || { say "$1: not the file that is wanted; remove it and run it again"; exit 1; }; }

scripts/setup.sh build model peer
scripts/fetch_model.sh
scripts/build.sh

peer=.cache/peer
bins=$peer/package/bins/linux-x64-vulkan
llama=$peer/llama_cpp_python-0.3.36/vendor/llama.cpp
mkdir -p $peer
if [ ! -d $bins ]; then
	say "fetching $libraries, 24 MB"
	archive=$(cd $peer && npm pack --silent $libraries)
	check "$peer/$archive" $libraries_hash
	tar -xzf "$peer/$archive" -C $peer
fi
if [ ! -d $llama ]; then
	say "fetching $headers, 77 MB"
	python3 -m pip download --quiet --disable-pip-version-check \
		--no-deps --no-binary llama-cpp-python -d $peer $headers
	check $peer/llama_cpp_python-0.3.36.tar.gz $headers_hash
	tar -xzf $peer/llama_cpp_python-0.3.36.tar.gz -C $peer --wildcards '*/vendor/llama.cpp/include/*' '*/vendor/llama.cpp/ggml/include/*'
fi
"${CC:-gcc}" -O2 -Wall -I $llama/include -I $llama/ggml/include -o $peer/speed tests/peer/speed.c \
	$bins/libllama.vulkan.*.so $bins/libggml.vulkan.*.so $bins/libggml-base.so "-Wl,-rpath,$PWD/$bins"
exec go run ./tests/speed -peer $peer/speed -backends $bins "$@"
