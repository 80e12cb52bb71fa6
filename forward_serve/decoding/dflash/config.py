"""The config.json of a DFlash pack: read, checked, and refused by name where this engine would drop something.

It knows keys and rules, no tensors and no target; `check_against` compares what it read with a target.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from forward_serve.decoding.dflash.fields import Fields
from forward_serve.decoding.dflash.generation2 import Generation2, read_generation_2
from forward_serve.decoding.dflash.keys import (
    GENERATION_1,
    GENERATION_2,
    GENERATION_2_ONLY,
    INERT,
    NEUTRAL,
    READ_AT_TOP,
    SPECIFIC,
)
from forward_serve.errors import Refusal

MAX_LAYERS = 1024


class TargetConfig(Protocol):
    """What a pack must agree with."""

    @property
    def hidden_size(self) -> int:
        """Numbers in one hidden row."""

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding table, padding included."""

    @property
    def num_hidden_layers(self) -> int:
        """Layers that can be tapped."""


@dataclass(frozen=True, slots=True)
class DFlashConfig:
    """What a pack says of itself, in the words of its config.json."""

    path: Path
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    vocab_size: int
    num_target_layers: int | None
    block_size: int  # slots of one block, the anchor included
    mask_token_id: int
    target_layer_ids: tuple[int, ...]  # in the order in which their rows are joined
    output_multiplier: float  # of the logits; > 0, so that it keeps their order
    final_logit_softcapping: float | None  # after the multiplier: cap * tanh(logit / cap), which keeps it too
    input_embedding_scale: float
    windows: tuple[int | None, ...]  # of each layer, in positions; None = full attention
    causal: tuple[bool, ...]  # whether each layer's slots see backwards only
    generation_2: Generation2 | None  # None = a pack of generation 1

    def check_against(self, target: TargetConfig) -> None:
        """Raise Refusal where the pack was not made for a target of this shape."""
        for key, want in (("hidden_size", target.hidden_size), ("vocab_size", target.vocab_size)):
            if getattr(self, key) != want:
                raise Refusal(
                    f"{self.path}: {key}={getattr(self, key)} is not the target's {want}; give a pack made for this target"
                )
        if self.num_target_layers not in (None, target.num_hidden_layers):
            raise Refusal(
                f"{self.path}: num_target_layers={self.num_target_layers} is not the target's {target.num_hidden_layers}; "
                "give a pack made for this target"
            )
        if max(self.target_layer_ids) >= target.num_hidden_layers:
            raise Refusal(
                f"{self.path}: target_layer_ids={list(self.target_layer_ids)} has an id that is not a layer of the target "
                f"(0..{target.num_hidden_layers - 1}); give a pack made for this target"
            )


def read_config(path: Path) -> DFlashConfig:
    """Read and check a pack's config.json. Raises Refusal naming file, key, value, rule and fix."""
    fields = Fields(path, _load(path))
    is_generation_2 = _is_generation_2(fields)
    inner = fields.section("dflash_config")
    _refuse_what_would_be_dropped(fields, inner, is_generation_2)
    hidden_size, vocab_size = fields.integer("hidden_size", 1), fields.integer("vocab_size", 1)
    specific = fields.with_first(inner)
    config = DFlashConfig(
        path=path,
        hidden_size=hidden_size,
        intermediate_size=fields.integer("intermediate_size", 1),
        num_hidden_layers=fields.integer("num_hidden_layers", 1),
        num_attention_heads=fields.integer("num_attention_heads", 1),
        num_key_value_heads=fields.integer("num_key_value_heads", 1),
        head_dim=fields.integer("head_dim", 2),
        rms_norm_eps=fields.positive("rms_norm_eps"),
        rope_theta=_rope_theta(fields),
        vocab_size=vocab_size,
        num_target_layers=None if fields.is_absent("num_target_layers") else fields.integer("num_target_layers", 1),
        block_size=specific.integer("block_size", 2, default=16),
        mask_token_id=specific.integer("mask_token_id", 0),
        target_layer_ids=_target_layer_ids(specific),
        output_multiplier=specific.positive("output_multiplier", default=1.0),
        final_logit_softcapping=_softcap(specific),
        input_embedding_scale=specific.number("input_embedding_scale", default=1.0),
        windows=_windows(fields),
        causal=_causal(fields),
        generation_2=read_generation_2(specific, hidden_size, vocab_size) if is_generation_2 else None,
    )
    _refuse_inconsistent(fields, specific, config)
    return config


def _load(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise Refusal(f"{path}: cannot be read ({error.strerror}); give a directory with a DFlash pack") from error
    except ValueError as error:
        raise Refusal(f"{path}: is not JSON ({error}); give the config.json of a DFlash pack") from error
    if not isinstance(value, dict):
        raise Refusal(f"{path}: holds a {type(value).__name__}, not an object; give the config.json of a DFlash pack")
    return value


def _is_generation_2(fields: Fields) -> bool:
    architectures = fields.get("architectures")
    if architectures not in ([GENERATION_1], [GENERATION_2]):
        raise fields.refusal("architectures", f"is neither {[GENERATION_1]} nor {[GENERATION_2]}", "give a DFlash pack")
    return bool(architectures == [GENERATION_2])


def _refuse_what_would_be_dropped(fields: Fields, inner: Fields, is_generation_2: bool) -> None:
    specific = SPECIFIC | GENERATION_2_ONLY if is_generation_2 else SPECIFIC
    for part, known in ((fields, READ_AT_TOP | specific | INERT), (inner, specific)):
        for key in sorted(part.keys()):
            if part.is_absent(key):
                continue
            if key in NEUTRAL:
                if part.get(key) not in NEUTRAL[key]:
                    raise part.refusal(key, "changes drafts and is not implemented", "give a pack without it")
            elif key in GENERATION_2_ONLY - known:
                raise part.refusal(key, "belongs to generation 2, the pack says generation 1", "give a pack of one generation")
            elif key not in known and not key.startswith("_"):
                raise part.refusal(key, "is a key that this reader does not know", "give a pack without it")


def _rope_theta(fields: Fields) -> float:
    scaling = fields.get("rope_scaling")
    if scaling is not None:
        raise fields.refusal("rope_scaling", "is not implemented", "give a pack with plain rotary embedding")
    if fields.is_absent("rope_parameters"):
        return fields.positive("rope_theta")
    rope = fields.section("rope_parameters")
    if rope.get("rope_type") not in (None, "default"):
        raise rope.refusal("rope_type", "is not implemented", "give a pack with the default rotary embedding")
    for key in rope.keys() - {"rope_type", "rope_theta"}:
        if not rope.is_absent(key) and rope.get(key) not in NEUTRAL.get(key, ()):
            raise rope.refusal(key, "is not implemented", "give a pack with the default rotary embedding")
    theta = rope.positive("rope_theta")
    if not fields.is_absent("rope_theta") and fields.positive("rope_theta") != theta:
        raise fields.refusal("rope_theta", f"differs from rope_parameters.rope_theta={theta}", "let both say the same")
    return theta


def _target_layer_ids(specific: Fields) -> tuple[int, ...]:
    key = "target_layer_ids"
    if specific.is_absent(key):
        raise specific.refusal(key, "is required, a guessed default taps wrong layers", "name the tapped layers in the pack")
    ids = specific.get(key)
    if not isinstance(ids, list) or not ids or any(type(layer) is not int for layer in ids):
        raise specific.refusal(key, "is not a list of layer ids", "name the tapped layers in the pack")
    if min(ids) < 0:
        raise specific.refusal(key, "has a negative id", "count the target's layers from 0")
    return tuple(ids)


def _softcap(specific: Fields) -> float | None:
    cap = specific.number("final_logit_softcapping", default=0.0)
    return cap if cap > 0 else None


def _layer_types(fields: Fields) -> list[str]:
    num_layers = fields.integer("num_hidden_layers", 1)
    if num_layers > MAX_LAYERS:
        raise fields.refusal("num_hidden_layers", f"is above {MAX_LAYERS}, more than any drafter has", "correct the pack")
    if fields.is_absent("layer_types"):
        return ["full_attention"] * num_layers
    types = fields.get("layer_types")
    if not isinstance(types, list) or any(kind not in ("full_attention", "sliding_attention") for kind in types):
        raise fields.refusal("layer_types", "is not a list of full_attention and sliding_attention", "correct the pack")
    if len(types) != num_layers:
        raise fields.refusal("layer_types", f"has {len(types)} entries for {num_layers} layers", "name each layer once")
    return types


def _windows(fields: Fields) -> tuple[int | None, ...]:
    types = _layer_types(fields)
    window = fields.integer("sliding_window", 1) if "sliding_attention" in types else None
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _causal(fields: Fields) -> tuple[bool, ...]:
    """Return each layer's rule: `is_causal` where it is set, else a layer is causal exactly if it slides."""
    is_causal = fields.get("is_causal")
    if is_causal is not None and not isinstance(is_causal, bool):
        raise fields.refusal("is_causal", "is neither true, false nor null", "correct the pack")
    return tuple(kind == "sliding_attention" if is_causal is None else is_causal for kind in _layer_types(fields))


def _refuse_inconsistent(fields: Fields, specific: Fields, config: DFlashConfig) -> None:
    if config.head_dim % 2:
        raise fields.refusal("head_dim", "is odd; rotary embedding turns pairs", "give a pack with an even head_dim")
    if config.num_attention_heads % config.num_key_value_heads:
        raise fields.refusal(
            "num_key_value_heads", f"does not divide num_attention_heads={config.num_attention_heads}", "correct the pack"
        )
    if config.mask_token_id >= config.vocab_size:
        raise specific.refusal(
            "mask_token_id", f"is not below vocab_size={config.vocab_size}", "name a row of the target's table"
        )
    for key, want in (("draft_vocab_size", config.vocab_size), ("target_hidden_size", config.hidden_size)):
        if fields.get(key) not in (None, want):
            raise fields.refusal(key, f"is not {want}; a table between the two is not implemented", "give a pack without it")
