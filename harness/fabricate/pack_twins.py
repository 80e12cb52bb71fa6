"""Twins of draft packs: one thing changed, the rest shared. It does not know what fails on them.

A name is the pack's with suffixes, which may follow each other: "mixed+tap=9". Packs of a companion recipe are named after it:
"five:deep", "five:deep+tap=9".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.fabricate import envelope
from harness.fabricate.draft_shape import PREDECESSORS
from harness.fabricate.pack import CONFIG_FILE, TENSORS_FILE
from harness.fabricate.twin_files import Changes, Edit, Edits, Numbers, make_twin
from harness.records.fixture import Fixture


def pack_twin(fixture: Fixture, name: str) -> Path:
    """Return the directory of a pack or of a twin of it: a name of the recipe's own, or `companion:name`.

    Suffixes in config.json: hidden=N, mask=N, block=N, tap=N (the last tap), notaps, sink; of generation 2 also notopk, topk=N,
    group=N, rank=N, gen1 (the other generation's name). Suffixes in the tensors of generation 2: codebook (named with
    .weight), gen1tensors (only those that generation 1 has). Raises UsageError on any other, or on one of another generation.
    """
    companion, colon, local = name.rpartition(":")
    owners = {one.name: one for one in fixture.companions}
    if colon and companion not in owners:
        raise UsageError(f"{name!r}: {companion!r} is no companion of {fixture.name}; use {' or '.join(owners) or 'no prefix'}")
    owner = owners[companion] if colon else fixture
    if not owner.packs:
        raise UsageError(f"{name!r}: {local.partition('+')[0]!r} was not fabricated; {owner.name} has no packs")
    return make_twin(owner, local, owner.packs, _EDITS)


def _hidden(changes: Changes, numbers: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config.update(hidden_size=numbers[0]))


def _block(changes: Changes, numbers: Numbers) -> None:
    def edit(config: dict[str, Any]) -> None:
        inner = config["dflash_config"]
        (inner if "block_size" in inner else config)["block_size"] = numbers[0]

    changes.edit(CONFIG_FILE, edit)


def _sink(changes: Changes, _: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config.update(attention_sink_bias=True))


def _generation_1_name(changes: Changes, _: Numbers) -> None:
    _require_generation_2(changes, "gen1")
    changes.edit(CONFIG_FILE, lambda config: config.update(architectures=["DFlashDraftModel"]))


def _inner(key: str, suffix: str = "") -> Edit:
    """Return the edit that sets a key of dflash_config; with a suffix it is one of generation 2."""

    def edit(changes: Changes, numbers: Numbers) -> None:
        if suffix:
            _require_generation_2(changes, suffix)
        changes.edit(CONFIG_FILE, lambda config: config["dflash_config"].update({key: numbers[0]}))

    return edit


def _tap(changes: Changes, numbers: Numbers) -> None:
    taps = slice(-1, None)
    changes.edit(CONFIG_FILE, lambda config: config["dflash_config"]["target_layer_ids"].__setitem__(taps, numbers))


def _no_taps(changes: Changes, _: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config["dflash_config"].pop("target_layer_ids"))


def _no_top_k(changes: Changes, _: Numbers) -> None:
    _require_generation_2(changes, "notopk")
    changes.edit(CONFIG_FILE, lambda config: config["dflash_config"].pop("selector_top_k"))


def _codebook(changes: Changes, _: Numbers) -> None:
    _require_generation_2(changes, "codebook")
    _rename_tensors(changes, lambda name: f"{name}.weight" if name == PREDECESSORS else name)


def _generation_1_tensors(changes: Changes, _: Numbers) -> None:
    _require_generation_2(changes, "gen1tensors")
    _rename_tensors(changes, lambda name: None if "_conv." in name or name.startswith("candidate_selector.") else name)


def _require_generation_2(changes: Changes, suffix: str) -> None:
    if json.loads(changes.read(CONFIG_FILE))["architectures"] != ["DFlash2DraftModel"]:
        raise UsageError(f"suffix {suffix!r} changes what only generation 2 has; {changes.original.name!r} is not of it")


def _rename_tensors(changes: Changes, rename: Callable[[str], str | None]) -> None:
    """Give the tensors of a pack other names, or leave out those that get none."""
    entries = envelope.read(changes.original / TENSORS_FILE)
    named = {rename(name): entry for name, entry in entries.items()}
    kept = {name: entry for name, entry in named.items() if name is not None}
    changes.contents[TENSORS_FILE] = envelope.encode(kept, {"format": "pt"})


_EDITS = Edits(
    kind="packs",
    by_suffix={
        "hidden=": _hidden,
        "block=": _block,
        "mask=": _inner("mask_token_id"),
        "tap=": _tap,
        "notaps": _no_taps,
        "sink": _sink,
        "notopk": _no_top_k,
        "topk=": _inner("selector_top_k", "topk"),
        "group=": _inner("conv_group_size", "group"),
        "rank=": _inner("selector_rank", "rank"),
        "gen1": _generation_1_name,
        "codebook": _codebook,
        "gen1tensors": _generation_1_tensors,
    },
)
