#!/bin/sh
# Builds ./vkdecode.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh build
# The version names the commit where git can tell it.
vcs=false
if git status >/dev/null 2>&1; then vcs=auto; fi
exec go build -buildvcs=$vcs -o vkdecode ./cmd/vkdecode
