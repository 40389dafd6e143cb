"""Writes a tiny Qwen3-VL of random weights: real tokens, real picture token counts, no sense.

    python make_models.py QWEN_TIKTOKEN TEMPLATE FOLDER

It needs numpy and gguf. FOLDER gets three models and `eyes.gguf`, the vision part of all of them:
`noise.gguf` says random tokens up to its limit. `parrot.gguf` makes one tool call that the server's
grammar forces into shape, with the text "escape" and the number 5 everywhere; without tools it says
little. `mute.gguf` ends its reply at once, so that a request costs its prompt and nothing else; it
calls a tool only where the server lets no reply end without one.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np

Ranks = dict[bytes, int]  # a token's bytes -> its number, which is also its rank among the merges

# The smallest sizes that the architecture takes; the patch and the merge size are the real ones,
# as they decide how many tokens a picture has.
WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_WIDTH, INNER = 64, 2, 2, 1, 64, 128
EYE_WIDTH, EYE_INNER, PATCH, MERGE, IMAGE = 16, 16, 16, 2, 768
VOCABULARY = 151936  # the real size: the rest after the special tokens is padding
SPECIAL = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
    "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
    "<|image_pad|> <|video_pad|> <tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> "
    "<|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> </tool_response> "
    "<think> </think>"
).split()
DRAW = np.random.default_rng(1)

# What parrot and mute like to say whatever came before; under a grammar the first that is allowed
# wins. The end of the message is above all, so that they end as soon as they may.
LIKES = {
    "<|im_end|>": 13.0,
    "<tool_call>": 11.5,
    '"': 10.0,
    "</tool_call>": 9.6,
    "}": 9.0,
    "{": 8.5,
    "]": 8.0,
    ",": 7.0,
    ":": 7.0,
    "[": 6.5,
    "5": 6.0,
}
# What they say right after a token. The server's grammar begins with a call's line break; two of
# them are another token than the one that ends every prompt, so that without tools it ends there.
FOLLOWS = {"<tool_call>": "\n\n", '"': "escape", "escape": '"'}
PARROT_FOLLOWS = {**FOLLOWS, "\n": "<tool_call>"}


def read_ranks(path: Path) -> Ranks:
    """The tokens of a tiktoken file."""
    ranks = {}
    for line in path.read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    return ranks


def byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(printable))
    return letters


def halves(ranks: Ranks, token: bytes) -> list[bytes]:
    """The two parts whose merge is the token: what all merges before it leave of its bytes."""
    parts = [token[n : n + 1] for n in range(len(token))]
    while len(parts) > 2:
        pairs = [parts[n] + parts[n + 1] for n in range(len(parts) - 1)]
        best = min(range(len(pairs)), key=lambda n: ranks.get(pairs[n], VOCABULARY))
        if ranks.get(pairs[best], VOCABULARY) >= ranks[token]:
            break
        parts[best : best + 2] = [pairs[best]]
    return parts


class Tokenizer(NamedTuple):
    """What a model file says of its tokens."""

    tokens: list[str]
    types: list[int]
    merges: list[str]
    template: str


def tokenizer_of(ranks: Ranks, template: str) -> Tokenizer:
    """Tokens, their kinds and the merges; this takes longer than all the rest together."""
    letters = byte_letters()

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    ordered = sorted(ranks, key=ranks.__getitem__)
    tokens = [spelled(token) for token in ordered] + SPECIAL
    types = [gguf.TokenType.NORMAL] * len(ordered)
    for special in SPECIAL:  # those without | are ordinary text that is one token
        kind = gguf.TokenType.CONTROL if "|" in special else gguf.TokenType.USER_DEFINED
        types.append(kind)
    for number in range(len(tokens), VOCABULARY):
        tokens.append(f"[PAD{number}]")
        types.append(gguf.TokenType.UNUSED)
    pairs = [halves(ranks, token) for token in ordered if len(token) > 1]
    merges = [" ".join(map(spelled, pair)) for pair in pairs if len(pair) == 2]
    return Tokenizer(tokens, types, merges, template)


def add_tokenizer(writer: Any, tokenizer: Tokenizer) -> None:
    """Writes them."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(tokenizer.types)
    writer.add_token_merges(tokenizer.merges)
    writer.add_eos_token_id(tokenizer.tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokenizer.tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer.template)


def full(*shape: int, scale: float = 0.05) -> Any:
    """Random weights of 32 bits."""
    return (DRAW.standard_normal(shape) * scale).astype(np.float32)


def half(*shape: int, scale: float = 0.05) -> Any:
    """Random weights of 16 bits."""
    return full(*shape, scale=scale).astype(np.float16)


def bigrams(ranks: Ranks, follows: dict[str, str]) -> tuple[Any, Any]:
    """Embedding and output of a model that looks at nothing but the last token.

    Dimension 0 is the same for every token, so its output weights say what is always liked. Each
    token that something follows has one more dimension for itself.
    """
    numbers = {token.decode(): rank for token, rank in ranks.items() if token.isascii()}
    for number, special in enumerate(SPECIAL, len(ranks)):
        numbers[special] = number
    embedding = half(VOCABULARY, WIDTH, scale=0.3)
    output = half(VOCABULARY, WIDTH, scale=0.005)
    own = slice(0, 1 + len(follows))
    embedding[:, own] = 0
    output[:, own] = 0
    embedding[:, 0] = 1
    for token, strength in LIKES.items():
        output[numbers[token], 0] = strength
    for dimension, (before, after) in enumerate(follows.items(), 1):
        embedding[numbers[before], 1:] = 0
        embedding[numbers[before], dimension] = 2.5
        output[numbers[after], dimension] = 8
    return embedding, output


def write_words(path: Path, tokenizer: Tokenizer, words: tuple[Any, Any], silent: bool) -> None:
    """The text part of a model; silent layers add nothing to what the tokens are."""
    embedding, output = words
    writer = gguf.GGUFWriter(path, "qwen3vl")
    writer.add_name(f"tiny qwen3-vl, {path.stem}")
    writer.add_block_count(LAYERS)
    writer.add_context_length(262144)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_rope_freq_base(5000000.0)
    writer.add_rope_dimension_sections([12, 10, 10, 0])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_uint32("qwen3vl.n_deepstack_layers", 0)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(VOCABULARY)
    add_tokenizer(writer, tokenizer)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        add_layer(writer, f"blk.{layer}.", silent)
    finish(writer)


def add_layer(writer: Any, prefix: str, silent: bool) -> None:
    """One layer of the text part; a silent one adds zero."""
    voice = 0 if silent else 1
    writer.add_tensor(prefix + "attn_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor(prefix + "attn_q.weight", half(HEADS * HEAD_WIDTH, WIDTH))
    writer.add_tensor(prefix + "attn_k.weight", half(KV_HEADS * HEAD_WIDTH, WIDTH))
    writer.add_tensor(prefix + "attn_v.weight", half(KV_HEADS * HEAD_WIDTH, WIDTH))
    writer.add_tensor(prefix + "attn_output.weight", half(WIDTH, HEADS * HEAD_WIDTH) * voice)
    writer.add_tensor(prefix + "attn_q_norm.weight", np.ones(HEAD_WIDTH, np.float32))
    writer.add_tensor(prefix + "attn_k_norm.weight", np.ones(HEAD_WIDTH, np.float32))
    writer.add_tensor(prefix + "ffn_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor(prefix + "ffn_gate.weight", half(INNER, WIDTH))
    writer.add_tensor(prefix + "ffn_up.weight", half(INNER, WIDTH))
    writer.add_tensor(prefix + "ffn_down.weight", half(WIDTH, INNER) * voice)


def write_eyes(path: Path) -> None:
    """The vision part, of one layer."""
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_name("tiny qwen3-vl, eyes")
    writer.add_type(gguf.GGUFType.MMPROJ)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "qwen3vl_merger")
    writer.add_bool("clip.use_gelu", True)
    sizes = {
        "image_size": IMAGE,
        "patch_size": PATCH,
        "embedding_length": EYE_WIDTH,
        "feed_forward_length": EYE_INNER,
        "projection_dim": WIDTH,
        "block_count": 1,
        "attention.head_count": 1,
        "spatial_merge_size": MERGE,
    }
    for name, size in sizes.items():
        writer.add_uint32(f"clip.vision.{name}", size)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.is_deepstack_layers", [False])
    for name, weights in eye_weights().items():
        writer.add_tensor(name, weights)
    finish(writer)


def eye_weights() -> dict[str, Any]:
    """The tensors of the vision part by name."""
    joined = MERGE * MERGE * EYE_WIDTH
    weights = {
        "v.patch_embd.weight": full(EYE_WIDTH, 3, PATCH, PATCH),
        "v.patch_embd.weight.1": full(EYE_WIDTH, 3, PATCH, PATCH),
        "v.position_embd.weight": full((IMAGE // PATCH) ** 2, EYE_WIDTH),
        "v.blk.0.attn_qkv.weight": half(3 * EYE_WIDTH, EYE_WIDTH),
        "v.blk.0.attn_out.weight": half(EYE_WIDTH, EYE_WIDTH),
        "v.blk.0.ffn_up.weight": half(EYE_INNER, EYE_WIDTH),
        "v.blk.0.ffn_down.weight": half(EYE_WIDTH, EYE_INNER),
        "mm.0.weight": half(joined, joined),
        "mm.2.weight": half(WIDTH, joined, scale=0.3),
    }
    biases = {
        "v.patch_embd.bias": EYE_WIDTH,
        "v.blk.0.attn_qkv.bias": 3 * EYE_WIDTH,
        "v.blk.0.attn_out.bias": EYE_WIDTH,
        "v.blk.0.ffn_up.bias": EYE_INNER,
        "v.blk.0.ffn_down.bias": EYE_WIDTH,
        "mm.0.bias": joined,
        "mm.2.bias": WIDTH,
    }
    for name, size in biases.items():
        weights[name] = np.zeros(size, np.float32)
    for norm in ("v.blk.0.ln1", "v.blk.0.ln2", "v.post_ln"):
        weights[norm + ".weight"] = np.ones(EYE_WIDTH, np.float32)
        weights[norm + ".bias"] = np.zeros(EYE_WIDTH, np.float32)
    return weights


def finish(writer: Any) -> None:
    """Writes what was added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Writes the four files."""
    ranks, template = read_ranks(Path(sys.argv[1])), Path(sys.argv[2]).read_text("utf-8")
    folder = Path(sys.argv[3])
    tokenizer = tokenizer_of(ranks, template)
    random_words = half(VOCABULARY, WIDTH, scale=0.3), half(VOCABULARY, WIDTH, scale=0.3)
    write_words(folder / "noise.gguf", tokenizer, random_words, silent=False)
    write_words(folder / "parrot.gguf", tokenizer, bigrams(ranks, PARROT_FOLLOWS), silent=True)
    write_words(folder / "mute.gguf", tokenizer, bigrams(ranks, FOLLOWS), silent=True)
    write_eyes(folder / "eyes.gguf")


if __name__ == "__main__":
    main()
