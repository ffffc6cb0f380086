# What can be done here; the work is in scripts/.
.DEFAULT_GOAL := help
.PHONY: help setup build run test test-gpu gen gen-check golden eval bench bench-peer clean

help: ## list everything
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what building, running and testing need (as root with apt-get), or print how to
	@scripts/setup.sh build run model test

build: ## build ./vkdecode
	@scripts/build.sh

run: ## fetch a model, build, and decode a prompt with a fifth of the KV cache
	@scripts/run.sh

test: ## fetch what tests need, check the sources, run every test on SwiftShader and lavapipe
	@scripts/test.sh

test-gpu: ## run the same tests on this machine's device (VKDECODE_TEST_DEVICE chooses another)
	@VKDECODE_TEST_DEVICE="$${VKDECODE_TEST_DEVICE:-auto}" scripts/test.sh

gen: ## compile the shaders and write their Go bindings
	@scripts/setup.sh build gen
	@cd shaders && go generate

gen-check: ## fail if the shaders' committed SPIR-V and bindings are not what gen makes
	@scripts/setup.sh build gen
	@scripts/gen_check.sh

golden: ## rewrite the reference data of the tests with PyTorch (several GB of Python packages); read the diff
	@scripts/golden.sh

eval: ## print what each policy costs SmolLM2 in perplexity on three texts, as Markdown (half an hour)
	@scripts/eval.sh

bench: ## print a table of speeds on the software drivers, ready to paste
	@scripts/bench.sh

bench-peer: ## print a table of speeds beside llama.cpp's on Vulkan and on the CPU
	@scripts/bench_peer.sh

clean: ## remove what was built or fetched
	rm -rf vkdecode models swiftshader/lib .cache
