"""Writes a tiny Qwen3-VL of random weights: real tokens, real picture token counts, no sense.

    python make_models.py QWEN_TIKTOKEN TEMPLATE FOLDER

It needs numpy and gguf. FOLDER gets two models and `eyes.gguf`, the vision part of both: `noise.gguf` says random
tokens up to its limit. `mute.gguf` ends its reply at once, so that a request costs its prompt and nothing else; where
the server lets no reply end without a call it makes one that its grammar forces into shape, with the text "escape" and
the number 5 everywhere.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

# The smallest sizes that the architecture takes; the patch and the merge size are the real ones,
# as they decide how many tokens a picture has.
WIDTH, LAYERS, HEADS, HEAD_WIDTH, INNER = 64, 2, 2, 64, 128
EYE, PATCH, MERGE, IMAGE = 16, 16, 2, 768
VOCABULARY = 151936  # the real size: the rest after the special tokens is padding
SPECIAL = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
    "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
    "<|image_pad|> <|video_pad|> <tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> "
    "<|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> </tool_response> "
    "<think> </think>"
).split()
# What mute likes to say whatever came before; under a grammar the first that is allowed wins. The
# end of the message is above all, so that it ends as soon as it may.
LIKES = {"<|im_end|>": 13.0, "<tool_call>": 11.5, '"': 10.0, "</tool_call>": 9.6, "}": 9.0}
LIKES |= {"{": 8.5, "]": 8.0, ",": 7.0, ":": 7.0, "[": 6.5, "5": 6.0}
# What it says right after a token. The server's grammar begins with a call's line break; two of
# them are another token than the one that ends every prompt, so that without tools it ends there.
FOLLOWS = {"<tool_call>": "\n\n", '"': "escape", "escape": '"'}
DRAW = np.random.default_rng(1)


def merged(ranks: dict[bytes, int], token: bytes) -> list[bytes]:
    """The two parts whose merge is the token: what all merges before it leave of its bytes."""
    parts = [token[n : n + 1] for n in range(len(token))]
    while len(parts) > 2:
        pairs = [parts[n] + parts[n + 1] for n in range(len(parts) - 1)]
        best = min(range(len(pairs)), key=lambda n: ranks.get(pairs[n], VOCABULARY))
        if ranks.get(pairs[best], VOCABULARY) >= ranks[token]:
            break
        parts[best : best + 2] = [pairs[best]]
    return parts


def add_tokenizer(writer: Any, ranks: dict[bytes, int], template: str) -> None:
    """Tokens, their kinds and the merges; this takes longer than all the rest together."""
    # GPT-2's printable letter for each byte.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + number) for number, byte in enumerate(others)}

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    ordered = sorted(ranks, key=ranks.__getitem__)
    padding = [f"[PAD{number}]" for number in range(len(ordered) + len(SPECIAL), VOCABULARY)]
    types = [gguf.TokenType.NORMAL] * len(ordered)
    for special in SPECIAL:  # those without | are ordinary text that is one token
        kind = gguf.TokenType.CONTROL if "|" in special else gguf.TokenType.USER_DEFINED
        types.append(kind)
    pairs = [merged(ranks, token) for token in ordered if len(token) > 1]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*map(spelled, ordered), *SPECIAL, *padding])
    writer.add_token_types(types + [gguf.TokenType.UNUSED] * len(padding))
    writer.add_token_merges([" ".join(map(spelled, pair)) for pair in pairs if len(pair) == 2])
    writer.add_eos_token_id(len(ranks) + SPECIAL.index("<|im_end|>"))
    writer.add_pad_token_id(len(ranks) + SPECIAL.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)


def drawn(*shape: int, scale: float = 0.05) -> Any:
    """Random weights of 16 bits."""
    return (DRAW.standard_normal(shape) * scale).astype(np.float16)


def bigrams(ranks: dict[bytes, int]) -> tuple[Any, Any]:
    """Embedding and output of a model that looks at nothing but the last token.

    Dimension 0 is the same for every token, so its output weights say what is always liked. Each
    token that something follows has one more dimension for itself.
    """
    numbers = {token.decode(): rank for token, rank in ranks.items() if token.isascii()}
    numbers |= {special: number for number, special in enumerate(SPECIAL, len(ranks))}
    embedding, output = drawn(VOCABULARY, WIDTH, scale=0.3), drawn(VOCABULARY, WIDTH, scale=0.005)
    own = slice(0, 1 + len(FOLLOWS))
    embedding[:, own] = output[:, own] = 0
    embedding[:, 0] = 1
    for token, strength in LIKES.items():
        output[numbers[token], 0] = strength
    for dimension, (before, after) in enumerate(FOLLOWS.items(), 1):
        embedding[numbers[before], 1:] = 0
        embedding[numbers[before], dimension] = 2.5
        output[numbers[after], dimension] = 8
    return embedding, output


def words(embedding: Any, output: Any, voice: int) -> dict[str, Any]:
    """The tensors of the text part; layers without a voice add nothing to what the tokens are."""
    tensors = {"token_embd": embedding, "output": output, "output_norm": np.ones(WIDTH, np.float32)}
    for layer in range(LAYERS):
        of_layer = {
            "attn_q": drawn(HEADS * HEAD_WIDTH, WIDTH),
            "attn_k": drawn(HEAD_WIDTH, WIDTH),
            "attn_v": drawn(HEAD_WIDTH, WIDTH),
            "attn_output": drawn(WIDTH, HEADS * HEAD_WIDTH) * voice,
            "ffn_gate": drawn(INNER, WIDTH),
            "ffn_up": drawn(INNER, WIDTH),
            "ffn_down": drawn(WIDTH, INNER) * voice,
        }
        norms = {"attn_norm": WIDTH, "attn_q_norm": HEAD_WIDTH, "attn_k_norm": HEAD_WIDTH}
        for name, size in {**norms, "ffn_norm": WIDTH}.items():
            of_layer[name] = np.ones(size, np.float32)
        tensors |= {f"blk.{layer}.{name}": weights for name, weights in of_layer.items()}
    return {f"{name}.weight": weights for name, weights in tensors.items()}


def eyes() -> dict[str, Any]:
    """The tensors of the vision part, which has one layer."""
    joined = MERGE * MERGE * EYE
    whole = {
        "v.patch_embd.weight": drawn(EYE, 3, PATCH, PATCH),
        "v.patch_embd.weight.1": drawn(EYE, 3, PATCH, PATCH),
        "v.position_embd.weight": drawn((IMAGE // PATCH) ** 2, EYE),
    }
    tensors = {name: weights.astype(np.float32) for name, weights in whole.items()}
    tensors["v.patch_embd.bias"] = np.zeros(EYE, np.float32)
    layers = {"attn_qkv": (3 * EYE, EYE), "attn_out": (EYE, EYE)}
    layers |= {"ffn_up": (EYE, EYE), "ffn_down": (EYE, EYE)}
    places = {f"v.blk.0.{name}": shape for name, shape in layers.items()}
    for name, shape in {**places, "mm.0": (joined, joined), "mm.2": (WIDTH, joined)}.items():
        tensors[f"{name}.weight"] = drawn(*shape, scale=0.3 if name == "mm.2" else 0.05)
        tensors[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    for norm in ("v.blk.0.ln1", "v.blk.0.ln2", "v.post_ln"):
        tensors[f"{norm}.weight"] = np.ones(EYE, np.float32)
        tensors[f"{norm}.bias"] = np.zeros(EYE, np.float32)
    return tensors


def begun(path: Path, architecture: str, sizes: Mapping[str, Any]) -> Any:
    """A writer that knows the sizes."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"tiny qwen3-vl, {path.stem}")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for name, size in sizes.items():
        add = {int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
        add[type(size)](name, size)
    return writer


def finish(writer: Any, tensors: dict[str, Any]) -> None:
    for name, weights in tensors.items():
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


WORDS = {
    "block_count": LAYERS,
    "context_length": 262144,
    "embedding_length": WIDTH,
    "feed_forward_length": INNER,
    "attention.head_count": HEADS,
    "attention.head_count_kv": 1,
    "attention.key_length": HEAD_WIDTH,
    "attention.value_length": HEAD_WIDTH,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 5000000.0,
    "rope.dimension_sections": [12, 10, 10, 0],
    "n_deepstack_layers": 0,
    "vocab_size": VOCABULARY,
}
EYES = {
    "image_size": IMAGE,
    "patch_size": PATCH,
    "embedding_length": EYE,
    "feed_forward_length": EYE,
    "projection_dim": WIDTH,
    "block_count": 1,
    "attention.head_count": 1,
    "attention.layer_norm_epsilon": 1e-6,
    "spatial_merge_size": MERGE,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "is_deepstack_layers": [False],
}


def main() -> None:
    """Writes the three files."""
    lines = map(bytes.split, Path(sys.argv[1]).read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    template, folder = Path(sys.argv[2]).read_text("utf-8"), Path(sys.argv[3])
    noise = drawn(VOCABULARY, WIDTH, scale=0.3), drawn(VOCABULARY, WIDTH, scale=0.3)
    for name, pair, voice in (("noise", noise, 1), ("mute", bigrams(ranks), 0)):
        sizes = {f"qwen3vl.{size}": value for size, value in WORDS.items()}
        writer = begun(folder / f"{name}.gguf", "qwen3vl", sizes)
        add_tokenizer(writer, ranks, template)
        finish(writer, words(*pair, voice))
    sizes = {f"clip.vision.{name}": value for name, value in EYES.items()}
    writer = begun(folder / "eyes.gguf", "clip", sizes)
    writer.add_type(gguf.GGUFType.MMPROJ)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "qwen3vl_merger")
    writer.add_bool("clip.use_gelu", True)
    finish(writer, eyes())


if __name__ == "__main__":
    main()
