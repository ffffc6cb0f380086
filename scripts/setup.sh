#!/bin/sh
# Sees to what other scripts need. As root with apt-get it installs what is missing and says so; otherwise it prints the
# command and exits with 2. Exits with 1 when installing fails.
# Usage: scripts/setup.sh build|run|model|gen|test|peer ...
set -eu
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
exists() { for file in "$@"; do if [ -e "$file" ]; then return 0; fi; done; return 1; }

# need PACKAGE CHECK...: notes the Debian package unless the check succeeds.
missing=
need() {
	package=$1
	shift
	if ! "$@" >/dev/null 2>&1; then missing="$missing $package"; fi
}

has_go() { have go || { say "Go is missing: install Go 1.26 or newer from https://go.dev/dl"; exit 2; }; }
has_libc() { echo '#include <stdlib.h>' | "${CC:-gcc}" -E -; }
has_headers() { echo '#include <vulkan/vulkan.h>' | "${CC:-gcc}" -E -; }
has_driver() { [ -n "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] || exists /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json; }

for what in "$@"; do
	case $what in
	build)
		has_go
		need gcc have "${CC:-gcc}"
		need libc6-dev has_libc
		need libvulkan-dev has_headers
		;;
	run) need mesa-vulkan-drivers has_driver ;;
	model)
		need python3-pip python3 -m pip --version
		need unzip have unzip
		;;
	gen)
		need glslc have glslc
		need spirv-tools have spirv-opt
		;;
	test)
		need mesa-vulkan-drivers exists /usr/share/vulkan/icd.d/lvp_icd*.json
		need vulkan-validationlayers exists /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json
		need brotli have brotli
		;;
	peer) need npm have npm ;;
	*)
		say "'$what', want build, run, model, gen, test or peer"
		exit 2
		;;
	esac
done
missing=$(printf '%s\n' $missing | sort -u | paste -sd ' ' -)
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends $missing"
if ! have apt-get; then
	say "missing, by their Debian names: $missing; install them and run it again"
	exit 2
elif [ "$(id -u)" != 0 ]; then
	say "missing: $missing; install them and run it again:"
	echo "    sudo apt-get update && sudo $install" >&2
	exit 2
fi
say "installing $missing"
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get -qq update && $install -qq; } >/dev/null; then # errors are on standard error
	say "installing failed; is there a network?"
	exit 1
fi
