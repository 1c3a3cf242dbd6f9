"""Writes a language model of random weights, the same each time: FILE MIB. Each of its tokens is a byte."""

import sys

import gguf
import numpy

WIDTH, HEADS, FORWARD = 512, 8, 2048
LAYER_BYTES = 4 * (4 * WIDTH * WIDTH + 3 * WIDTH * FORWARD)
TOKENS = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)]
TYPES = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256

path, layers = sys.argv[1], max(1, (int(sys.argv[2]) << 20) // LAYER_BYTES)
random = numpy.random.default_rng(1)
writer = gguf.GGUFWriter(path, "llama")
writer.add_context_length(512)
writer.add_embedding_length(WIDTH)
writer.add_block_count(layers)
writer.add_feed_forward_length(FORWARD)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_vocab_size(len(TOKENS))
writer.add_tokenizer_model("llama")
writer.add_token_list(TOKENS)
writer.add_token_scores([0.0] * len(TOKENS))
writer.add_token_types(TYPES)
writer.add_unk_token_id(0)
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)


def weights(name, rows, columns):
    values = random.standard_normal((rows, columns), dtype=numpy.float32)
    writer.add_tensor(f"{name}.weight", values * numpy.float32(columns**-0.5))


def norm(name):
    writer.add_tensor(f"{name}.weight", numpy.ones(WIDTH, dtype=numpy.float32))


weights("token_embd", len(TOKENS), WIDTH)
weights("output", len(TOKENS), WIDTH)
norm("output_norm")
for layer in range(layers):
    block = f"blk.{layer}"
    norm(f"{block}.attn_norm")
    norm(f"{block}.ffn_norm")
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        weights(f"{block}.{name}", WIDTH, WIDTH)
    weights(f"{block}.ffn_gate", FORWARD, WIDTH)
    weights(f"{block}.ffn_up", FORWARD, WIDTH)
    weights(f"{block}.ffn_down", WIDTH, FORWARD)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
