"""The files beside the weights: tokenizer.json, tokenizer_config.json, config.json. It does not know the weights.

The alphabet is Qwen's: 256 one-byte tokens and no merges, so that for printable ASCII ids and text are one-to-one. The
three specials sit on bytes that UTF-8 never uses. End tokens are written the same to every file that names them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.fabricate.shape import ModelShape
from harness.records.files import write_bytes

NUM_IDS = 256
IM_END, IM_START, END_OF_TEXT = 185, 186, 187
SPECIALS = {IM_END: "<|im_end|>", IM_START: "<|im_start|>", END_OF_TEXT: "<|endoftext|>"}  # bytes 0xFD, 0xFE, 0xFF
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def byte_order() -> list[int]:
    """Return the byte of each id 0..255: bytes that print first, then the rest."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [byte for byte in range(256) if byte not in printable]


def vocabulary() -> dict[str, int]:
    """Return token -> id: bytes that print stand for themselves, the rest for the characters from U+0100 on."""
    order = byte_order()
    first_hidden = next(token for token, byte in enumerate(order) if byte == 0)
    tokens = [chr(byte) if token < first_hidden else chr(256 + token - first_hidden) for token, byte in enumerate(order)]
    return {SPECIALS.get(token, text): token for token, text in enumerate(tokens)}


def tokenizer_json() -> dict[str, Any]:
    """Return the content of tokenizer.json; the specials are in the vocabulary and in added_tokens, else they move."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": token, "content": text, **flags} for token, text in SPECIALS.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": _BYTE_LEVEL,
        "post_processor": _BYTE_LEVEL,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary(),
            "merges": [],
        },
    }


def tokenizer_config(eos: Sequence[int], context: int) -> dict[str, Any]:
    """Return the content of tokenizer_config.json; `context` is the number of positions."""
    return {
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": SPECIALS[IM_END],
        "pad_token": SPECIALS[END_OF_TEXT],
        "unk_token": None,
        "eos_token_id": list(eos),
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "tokenizer_class": "Qwen2Tokenizer",
    }


def model_config(shape: ModelShape, eos: Sequence[int], context: int) -> dict[str, Any]:
    """Return the content of config.json, with the keys that published containers carry, in their order."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": shape.padded_vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rope_theta,
        "rope_scaling": None,
        "max_position_embeddings": context,
        "max_window_layers": shape.layers,
        "use_sliding_window": False,
        "sliding_window": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": END_OF_TEXT,
        "eos_token_id": list(eos),
        "addr_qk": 0,
        "addr_kv": 0,
        "addr_l_begin_mha": 0,
        "addr_l_end_mha": 0,
        "addr_kk": 0,
        "flm_version": "0.9.22",
    }


def json_bytes(content: dict[str, Any]) -> bytes:
    """Return JSON as model repositories write it: two spaces, UTF-8 unescaped, keys in their order."""
    return json.dumps(content, indent=2, ensure_ascii=False).encode()


def write_tokenizer(directory: Path, shape: ModelShape, eos: Sequence[int], context: int) -> None:
    """Write the three files into the directory of a container."""
    write_bytes(directory / "tokenizer.json", json_bytes(tokenizer_json()))
    write_bytes(directory / "tokenizer_config.json", json_bytes(tokenizer_config(eos, context)))
    write_bytes(directory / "config.json", json_bytes(model_config(shape, eos, context)))
