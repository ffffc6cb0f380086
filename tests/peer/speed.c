// Times llama.cpp on one prompt, greedily, and prints what tests/speed reads: {"prompt_ms": …, "decode_ms": …}.
// Usage: speed BACKENDS MODEL PROMPT DECODE gpu|cpu|cpu-plain — the folder of the ggml backends, a GGUF file, numbers of
// tokens, and where weights and cache are: on the first GPU, or on the CPU, whose plain form is without flash attention.
// The prompt's ids come from standard input, separated by white space.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "ggml-backend.h"
#include "llama.h"

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fail(const char *what) {
    fprintf(stderr, "speed: %s failed\n", what);
    exit(1);
}

static void decode(struct llama_context *context, llama_token *tokens, int n) {
    if (llama_decode(context, llama_batch_get_one(tokens, n))) fail("llama_decode");
    llama_synchronize(context);
}

static llama_token likeliest(struct llama_context *context, int vocabulary) {
    const float *logits = llama_get_logits_ith(context, -1);
    llama_token best = 0;
    for (llama_token i = 1; i < vocabulary; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

static void quiet(enum ggml_log_level level, const char *text, void *unused) {
    (void)unused;
    if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv) {
    if (argc != 6) fail("reading the command line");
    int gpu = !strcmp(argv[5], "gpu"), plain = !strcmp(argv[5], "cpu-plain");
    if (!gpu && !plain && strcmp(argv[5], "cpu")) fail("reading where to run");
    int prompt = atoi(argv[3]), decoded = atoi(argv[4]);
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    if (gpu && !ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU)) fail("finding a GPU (is GGML_VK_VISIBLE_DEVICES set?)");

    struct llama_model_params mp = llama_model_default_params();
    ggml_backend_dev_t none[] = {NULL};
    if (gpu) {
        mp.n_gpu_layers = 999; // all
    } else {
        mp.n_gpu_layers = 0;
        mp.devices = none;
    }
    struct llama_model *model = llama_model_load_from_file(argv[2], mp);
    if (!model) fail("loading the model");
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = prompt + decoded + 1;
    cp.n_batch = cp.n_ubatch = prompt < 512 ? prompt : 512;
    cp.n_threads = cp.n_threads_batch = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (plain) cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *context = llama_init_from_model(model, cp);
    if (!context) fail("making a context");

    llama_token *tokens = calloc(prompt, sizeof *tokens);
    for (int i = 0; i < prompt; i++) {
        if (scanf("%d", &tokens[i]) != 1) fail("reading the prompt");
    }
    int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    // Pipelines are made at their first use: that is loading, not work.
    decode(context, tokens, prompt < 512 ? prompt : 512);
    decode(context, tokens, 1);
    llama_memory_clear(llama_get_memory(context), true);

    double begin = milliseconds();
    for (int done = 0; done < prompt; done += 512) {
        decode(context, tokens + done, prompt - done < 512 ? prompt - done : 512);
    }
    double read = milliseconds();
    for (int i = 0; i < decoded; i++) {
        llama_token next = likeliest(context, vocabulary);
        decode(context, &next, 1);
    }
    printf("{\"prompt_ms\": %.1f, \"decode_ms\": %.1f}\n", read - begin, milliseconds() - read);
    llama_free(context);
    llama_model_free(model);
}
