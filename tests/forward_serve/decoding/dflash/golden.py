"""What the published `dflash` package did with small packs, round by round, and the same rounds by the engine.

The vectors stand in tests/golden/dflash; its README says how they were made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forward_serve.decoding.dflash import DFlashHead, open_pack
from forward_serve.decoding.dflash.selector import best_ids
from forward_serve.decoding.dflash.trunk import DraftTrunk
from tests.forward_serve.decoding.dflash.session import NUM_TARGET_LAYERS
from tests.forward_serve.decoding.dflash.stand_ins import Sink, Target

GOLDEN = Path(__file__).parents[3] / "golden" / "dflash"
TOLERANCE = 1e-4  # of hidden rows of root mean square 1, float32 on both sides

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rounds:
    """R rounds of one reply. P prompt rows, T tapped layers, B slots, k candidates (0 in generation 1)."""

    prompt_taps: Array  # [P, T, H]
    starts: Array  # [R], position of the anchor
    anchors: Array  # [R]
    hidden: Array  # [R, B, H], final-normed rows of the block
    candidates: Array  # [R, B - 1, k], ascending
    drafts: Array  # [R, B - 1]
    accepted: Array  # [R]
    pass_taps: Array  # [R, B, T, H], of the anchor and all drafts; the first accepted + 1 rows stay

    @classmethod
    def load(cls, directory: Path) -> Rounds:
        with np.load(directory / "rounds.npz") as arrays:
            return cls(**{field.name: arrays[field.name] for field in fields(cls)})

    def save(self, directory: Path) -> None:
        arrays: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez_compressed(directory / "rounds.npz", allow_pickle=False, **arrays)


def tensors_of(path: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors of a safetensors file in bf16, as float32."""
    content = path.read_bytes()
    data = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:data])
    header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        bits = np.frombuffer(content[data + start : data + stop], "<u2").astype(np.uint32)
        tensors[name] = (bits << 16).view(np.float32).reshape(entry["shape"])
    return tensors


class GoldenTarget(Target):
    """The target of the golden packs; it has no padded rows."""

    def __init__(self, config: dict[str, Any], directory: Path = GOLDEN / "target") -> None:
        super().__init__(config)
        tensors = tensors_of(directory / "model.safetensors")
        self.table, self.lm_head = tensors["model.embed_tokens.weight"], tensors["lm_head.weight"]
        self.vocab_bound = len(self.lm_head)


def config_of(directory: Path) -> dict[str, Any]:
    """The configuration of a pack."""
    config: dict[str, Any] = json.loads((directory / "config.json").read_bytes())
    return config


def layers_of(taps: Array, config: dict[str, Any]) -> NDArray[np.float32]:
    """Tap rows [rows, T, H] put back in their layers [rows, target layers, H]; the others are zero."""
    layers = np.zeros((len(taps), NUM_TARGET_LAYERS, taps.shape[2]), np.float32)
    layers[:, config["dflash_config"]["target_layer_ids"]] = taps
    return layers


@dataclass(frozen=True, slots=True)
class EngineRounds:
    """What the engine makes of the same rounds, in the shapes of `Rounds`."""

    starts: list[int]
    hidden: Array
    candidates: list[Any]
    drafts: list[list[int]]


def by_engine(directory: Path, rounds: Rounds, target: GoldenTarget) -> EngineRounds:
    """Run the rounds with the engine's head and trunk, each with a context of its own."""
    pack, config = open_pack(directory), config_of(directory)
    sink, trunk = Sink(config), DraftTrunk(pack)
    head, context = DFlashHead(pack, target, sink), trunk.new_context()
    masks = [pack.config.mask_token_id] * (pack.block_size - 1)
    starts, hidden, candidates, drafts = [], [], [], []
    sink.append(layers_of(rounds.prompt_taps, config))
    for anchor, accepted, taps in zip(rounds.anchors.tolist(), rounds.accepted.tolist(), rounds.pass_taps, strict=True):
        starts.append(len(sink))
        trunk.extend(context, sink.rows(context.num_positions, len(sink)))
        rows = trunk.block(context, target.embed([anchor, *masks]))
        hidden.append(rows)
        num_candidates = pack.selector.top_k if pack.selector else 0
        candidates.append(best_ids(target.head(rows[1:]), num_candidates).tolist() if num_candidates else [[]] * len(masks))
        drafts.append(head.propose(anchor, len(sink), len(masks), None))
        sink.append(layers_of(taps, config))
        sink.truncate(starts[-1] + accepted + 1)
    return EngineRounds(starts, np.array(hidden), candidates, drafts)


def assert_equal(got: EngineRounds, want: Rounds) -> None:
    """Compare what the engine made of the rounds with what the package did in them."""
    assert got.starts == want.starts.tolist()
    np.testing.assert_allclose(got.hidden, want.hidden, atol=TOLERANCE, rtol=0)
    assert got.candidates == want.candidates.tolist()
    assert got.drafts == want.drafts.tolist()
