#!/bin/sh
# Prints prompt and decode speed by context depth for full and h2o, on each software driver. A quarter of an hour on two
# cores. With auto it measures this machine's own device instead; what follows is added to the flags of `vkdecode bench`.
# Usage: scripts/bench.sh [auto [FLAGS...]]
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh build model test
swiftshader/fetch
scripts/fetch_model.sh
scripts/build.sh

measure() { ./vkdecode bench models/SmolLM2-135M-Instruct.Q4_1.gguf --config /dev/null --markdown "$@"; }
on() {
	VK_DRIVER_FILES=$1 VK_ICD_FILENAMES=$1
	export VK_DRIVER_FILES VK_ICD_FILENAMES
	shift
	measure "$@"
}
if [ "${1:-}" = auto ]; then
	shift
	measure "$@"
	exit
fi
lavapipe=$(echo /usr/share/vulkan/icd.d/lvp_icd*.json)
(on "$lavapipe" --depth 128,1024,4096 --prompt 256 -n 32 --repeat 3)
echo
(on "$PWD/swiftshader/lib/vk_swiftshader_icd.json" --depth 128,1024 --prompt 64 -n 8 --repeat 2)
