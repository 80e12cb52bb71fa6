"""The certified model as GGUF, for llama.cpp and all that is built on it. It does not know how an engine runs it.

Weights are the decoded ones in float32, embedding and head cut to the tokenizer's 256 ids: every row of the file is an id that may
be chosen. llama.cpp refuses a tokenizer without merges, so there is one, of two bytes that UTF-8 never uses. End tokens keep their
order: the first is `eos`, the second `eot`, the third `eom`.

Source: gguf-py 0.19.0 of llama.cpp, and the names in its constants for architecture qwen3.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.errors import UsageError
from harness.fabricate.decoded import Weights32, decoded, shape_of
from harness.fabricate.shape import EMBEDDING, LM_HEAD, ModelShape
from harness.fabricate.tokenizer import END_OF_TEXT, SPECIALS, vocabulary

if TYPE_CHECKING:
    from gguf import GGUFWriter

GGUF_FILE = "model.gguf"
ARCHITECTURE = "qwen3"
MERGED_IDS = (180, 181)  # bytes 0xF8 and 0xF9: in no UTF-8 text, so the one merge is never made
_OUTER = {EMBEDDING: "token_embd", "model.norm.weight": "output_norm", LM_HEAD: "output"}
_INNER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_bytes(container: Path, config: Mapping[str, Any]) -> bytes:
    """Return model.gguf of the container in a directory, with context and end tokens as `config` says.

    Raises UsageError without the gguf package, and for end tokens that the format cannot hold.
    """
    shape = shape_of(config)
    weights = decoded(container, shape)
    with tempfile.TemporaryDirectory(prefix="draftproof-gguf-") as scratch:  # the writer wants a path
        path = Path(scratch) / GGUF_FILE
        writer = _writer(path)
        _describe(writer, shape, config)
        _tokenize(writer, config["eos_token_id"])
        _fill(writer, weights)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def tensor_name(name: str) -> str:
    """Return what GGUF calls a tensor of the container."""
    if name in _OUTER:
        return f"{_OUTER[name]}.weight"
    _, _, layer, *part, _ = name.split(".")
    return f"blk.{layer}.{_INNER['.'.join(part)]}.weight"


def _writer(path: Path) -> GGUFWriter:
    try:
        from gguf import GGUFWriter  # noqa: PLC0415 - an extra: only twins for llama.cpp need it
    except ImportError as error:
        raise UsageError(f"{GGUF_FILE}: the gguf package is missing ({error}); pip install 'draftproof[llama]'") from error
    return GGUFWriter(path, ARCHITECTURE)


def _describe(writer: GGUFWriter, shape: ModelShape, config: Mapping[str, Any]) -> None:
    writer.add_name("draftproof fixture")
    writer.add_file_type(0)  # all float32
    writer.add_vocab_size(shape.vocab)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_block_count(shape.layers)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_freq_base(float(shape.rope_theta))
    writer.add_layer_norm_rms_eps(shape.rms_norm_eps)


def _tokenize(writer: GGUFWriter, end_tokens: Sequence[int]) -> None:
    from gguf import TokenType  # noqa: PLC0415 - as the writer

    names = list(vocabulary())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(names)
    kinds = dict.fromkeys(range(len(names)), TokenType.NORMAL)
    kinds |= dict.fromkeys(SPECIALS, TokenType.USER_DEFINED)  # shown as their literal text
    kinds |= dict.fromkeys(end_tokens, TokenType.CONTROL)  # shown as nothing
    writer.add_token_types([int(kind) for kind in kinds.values()])
    writer.add_token_merges([" ".join(names[token] for token in MERGED_IDS)])
    writer.add_bos_token_id(END_OF_TEXT)
    writer.add_add_bos_token(False)
    setters = (writer.add_eos_token_id, writer.add_eot_token_id, writer.add_eom_token_id)
    if len(end_tokens) > len(setters):
        raise UsageError(f"eos_token_id={list(end_tokens)}: GGUF names {len(setters)} end tokens at most; name fewer")
    for add, token in zip(setters, end_tokens, strict=False):
        add(token)


def _fill(writer: GGUFWriter, weights: Weights32) -> None:
    for name, tensor in weights.items():
        writer.add_tensor(tensor_name(name), np.ascontiguousarray(tensor))
