#!/bin/sh
# Decodes a prompt with the KV cache held at a fifth: by SmolLM2, or by the model inside the program where there is no network.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh build run
status=0
scripts/fetch_model.sh || status=$?
scripts/build.sh
case $status in
0) set -- models/SmolLM2-135M-Instruct.Q4_1.gguf -f scripts/prompt.txt --repeat-penalty 1.1 --temp 0.4 --seed 3 ;;
1)
	echo "run: no SmolLM2; this is the small model inside the program, which knows one book" >&2
	set -- builtin: --raw -p "Prince Andrew looked at the sky" --seed 1
	;;
*) exit "$status" ;; # setup has said what to do
esac
set -- "$@" --kv h2o --budget 20% --chunk 64 -n 160
{
	printf '$ ./vkdecode run'
	for word in "$@"; do
		case $word in *\ *) word="'$word'" ;; esac
		printf ' %s' "$word"
	done
	echo
} >&2
exec ./vkdecode run "$@"
