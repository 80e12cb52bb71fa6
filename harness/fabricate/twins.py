"""Twins: a fabricated container or pack with one thing changed, the weights shared. It does not know what fails on them.

A name is the original's with suffixes: "tiny+context=28", "mixed+tap=9". Suffixes may follow each other; a format ("tiny+gguf")
comes last and adds or replaces whole files. A twin is made on demand beside its original, and so is the small draft model of a
container ("tiny-draft"); files that do not change are hard links.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.fabricate.decoded import shape_of
from harness.fabricate.draft_model import make_draft_model
from harness.fabricate.gguf_twin import GGUF_FILE, gguf_bytes
from harness.fabricate.hf_twin import WEIGHTS_FILE, hf_config, weights_bytes
from harness.fabricate.pack import CONFIG_FILE
from harness.fabricate.q4nx import FILE_NAME
from harness.fabricate.store import make_once
from harness.fabricate.tokenizer import json_bytes
from harness.records.files import write_bytes
from harness.records.fixture import Fixture

_TOKENIZER_CONFIG = "tokenizer_config.json"


def twin(fixture: Fixture, name: str) -> Path:
    """Return the directory of the container or of a twin of it.

    Suffixes: context=N (positions), eos=A.B (end tokens, in every file that names them), vocab=N (config.json at odds with the
    weights), truncated (a model file that ends early); last, a format: gguf, hf. Raises UsageError on any other.
    """
    base = fixture.recipe.partition("@")[0]
    originals = {base: fixture.model, base + _DRAFT: str(_draft_model(fixture, base))}
    if name.partition("+")[0] == base + _DRAFT:
        _make_draft_once(fixture, Path(originals[base + _DRAFT]))
    return _twin(fixture, "models", name, originals, _MODEL_EDITS)


def is_draft_model(fixture: Fixture, name: str) -> bool:
    """Whether a name is that of the container's draft model, of the container itself, or of a twin of one of them."""
    base = fixture.recipe.partition("@")[0]
    return name.partition("+")[0] in (base, base + _DRAFT)


def without_format(name: str) -> str:
    """Return the name of the container that a twin in another format was made from."""
    base, *suffixes = name.split("+")
    return "+".join([base, *(suffix for suffix in suffixes if suffix not in _FORMATS)])


def pack_twin(fixture: Fixture, name: str) -> Path:
    """Return the directory of a pack or of a twin of it.

    Suffixes, all in config.json: hidden=N, mask=N, block=N, tap=N (the last tap), notaps. Raises UsageError on any other.
    """
    return _twin(fixture, "packs", name, fixture.packs, _PACK_EDITS)


class _Changes:
    """The files of a twin that differ from the original's."""

    def __init__(self, original: Path) -> None:
        self.original = original
        self.contents: dict[str, bytes] = {}
        self.dropped: set[str] = set()

    def read(self, file: str) -> bytes:
        return self.contents.get(file) or (self.original / file).read_bytes()

    def edit(self, file: str, edit: Callable[[dict[str, Any]], object]) -> None:
        content = json.loads(self.read(file))
        edit(content)
        self.contents[file] = json_bytes(content)

    def drop(self, file: str) -> None:
        self.dropped.add(file)

    def write(self, directory: Path) -> None:
        files = {path.name for path in self.original.iterdir()} - self.dropped
        for file in sorted(files | self.contents.keys()):
            if file in self.contents:
                write_bytes(directory / file, self.contents[file])
            else:
                _link(self.original / file, directory / file)


Numbers = Sequence[int]
Edit = Callable[[_Changes, Numbers], None]


def _twin(fixture: Fixture, kind: str, name: str, originals: Mapping[str, str], edits: Mapping[str, Edit]) -> Path:
    base, *suffixes = name.split("+")
    if base not in originals:
        raise UsageError(f"{name!r}: {base!r} was not fabricated; use {' or '.join(originals)}")
    planned = [_parse(name, suffix, edits) for suffix in suffixes]
    original = Path(originals[base])
    if not original.is_dir():
        raise UsageError(f"{name!r}: {original} is gone from the cache; fabricate the recipe again")
    if not planned:
        return original
    entry = Path(fixture.model).parent
    target = entry / "twins" / kind / name
    make_once(entry.parent, target, lambda directory: _make(original, directory, planned))
    return target


def _parse(name: str, suffix: str, edits: Mapping[str, Edit]) -> tuple[Edit, Numbers]:
    key, equals, text = suffix.partition("=")
    wanted = key + equals
    if wanted not in edits:
        raise UsageError(f"{name!r}: no twin has the suffix {suffix!r}; use {', '.join(sorted(edits))}")
    if suffix in _FORMATS and not name.endswith(f"+{suffix}"):
        raise UsageError(f"{name!r}: {suffix!r} is a format; write it last")
    numbers = text.split(".") if equals else []
    if not all(number.isdecimal() for number in numbers) or (len(numbers) > 1 and wanted != _EOS):
        example = "5.17" if wanted == _EOS else "28"
        raise UsageError(f"{name!r}: {text!r} does not fit; write {wanted}{example}")
    return edits[wanted], [int(number) for number in numbers]


def _make(original: Path, directory: Path, planned: Sequence[tuple[Edit, Numbers]]) -> None:
    changes = _Changes(original)
    for edit, numbers in planned:
        edit(changes, numbers)
    changes.write(directory)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def _context(changes: _Changes, numbers: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config.update(max_position_embeddings=numbers[0]))
    changes.edit(_TOKENIZER_CONFIG, lambda config: config.update(model_max_length=numbers[0]))


def _eos(changes: _Changes, numbers: Numbers) -> None:
    for file in (CONFIG_FILE, _TOKENIZER_CONFIG):
        changes.edit(file, lambda config: config.update(eos_token_id=list(numbers)))


def _vocab(changes: _Changes, numbers: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config.update(vocab_size=numbers[0]))


def _truncated(changes: _Changes, _: Numbers) -> None:
    content = changes.read(FILE_NAME)
    changes.contents[FILE_NAME] = content[: len(content) * 3 // 4]


def _gguf(changes: _Changes, _: Numbers) -> None:
    changes.contents[GGUF_FILE] = gguf_bytes(changes.original, json.loads(changes.read(CONFIG_FILE)))


def _hf(changes: _Changes, _: Numbers) -> None:
    config = json.loads(changes.read(CONFIG_FILE))
    changes.contents[WEIGHTS_FILE] = weights_bytes(changes.original, config)
    changes.contents[CONFIG_FILE] = json_bytes(hf_config(config))
    changes.drop(FILE_NAME)


def _draft_model(fixture: Fixture, base: str) -> Path:
    return Path(fixture.model).parent / "twins" / "models" / (base + _DRAFT)


def _make_draft_once(fixture: Fixture, target: Path) -> None:
    original = Path(fixture.model)
    if not original.is_dir():
        return
    config = json.loads((original / CONFIG_FILE).read_bytes())
    context, shape = config["max_position_embeddings"], shape_of(config)

    def make(directory: Path) -> None:
        make_draft_model(shape, context, fixture.streams, directory)

    make_once(original.parent.parent, target, make)


def _hidden(changes: _Changes, numbers: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config.update(hidden_size=numbers[0]))


def _block(changes: _Changes, numbers: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config.update(block_size=numbers[0]))


def _mask(changes: _Changes, numbers: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config["dflash_config"].update(mask_token_id=numbers[0]))


def _tap(changes: _Changes, numbers: Numbers) -> None:
    taps = slice(-1, None)
    changes.edit(CONFIG_FILE, lambda config: config["dflash_config"]["target_layer_ids"].__setitem__(taps, numbers))


def _no_taps(changes: _Changes, _: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config["dflash_config"].pop("target_layer_ids"))


_EOS = "eos="
_DRAFT = "-draft"  # of the name of a container's draft model
_FORMATS: dict[str, Edit] = {"gguf": _gguf, "hf": _hf}
_MODEL_EDITS: dict[str, Edit] = {"context=": _context, _EOS: _eos, "vocab=": _vocab, "truncated": _truncated, **_FORMATS}
_PACK_EDITS: dict[str, Edit] = {
    "hidden=": _hidden,
    "block=": _block,
    "mask=": _mask,
    "tap=": _tap,
    "notaps": _no_taps,
}
