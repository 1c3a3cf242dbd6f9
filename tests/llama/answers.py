"""Has llama.cpp answer the same question over and over: MODEL, which it maps. Prints a line for each answer: its tokens, and the logarithms
of their probabilities, which depend on each weight."""

import json
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 64
params.n_parallel = 1
params.n_gpu_layers = 0
params.warmup = False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
question = {
    "prompt": "?",
    "n_predict": 6,
    "seed": 7,
    "temperature": 1.0,
    "ignore_eos": True,
    "cache_prompt": False,
    "logprobs": 1,
}
while True:
    tokens = server.handle_completions(question)["choices"][0]["logprobs"]["content"]
    print("answer", json.dumps([[token["id"], token["logprob"]] for token in tokens]), flush=True)
