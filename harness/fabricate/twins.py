"""Twins of containers: one thing changed, the rest shared. It does not know what fails on them.

A name is the original's with suffixes: "tiny+context=28". Suffixes may follow each other; a format ("tiny+gguf") comes last and adds
or replaces whole files. What a companion recipe made is named like the recipe's own: "five", "five+context=40". The small draft
model of a container ("tiny-draft") is made on demand as well.
"""

from __future__ import annotations

import json
from pathlib import Path

from harness.errors import UsageError
from harness.fabricate.decoded import shape_of
from harness.fabricate.draft_model import make_draft_model
from harness.fabricate.gguf_twin import GGUF_FILE, gguf_bytes
from harness.fabricate.hf_twin import WEIGHTS_FILE, hf_config, weights_bytes
from harness.fabricate.pack import CONFIG_FILE
from harness.fabricate.q4nx import FILE_NAME
from harness.fabricate.store import make_once
from harness.fabricate.tokenizer import json_bytes
from harness.fabricate.twin_files import Changes, Edit, Edits, Numbers, make_twin
from harness.records.fixture import Fixture

_TOKENIZER_CONFIG = "tokenizer_config.json"


def twin(fixture: Fixture, name: str) -> Path:
    """Return the directory of a container or of a twin of it, the recipe's own or a companion's.

    Suffixes: context=N (positions), eos=A.B (end tokens, in every file that names them), vocab=N (config.json at odds with the
    weights), truncated (a model file that ends early); last, a format: gguf, hf. Raises UsageError on any other.
    """
    owner = _owners(fixture).get(name.partition("+")[0])
    if owner is None:
        containers = (one.name for one in (fixture, *fixture.companions))
        raise UsageError(f"{name!r}: {name.partition('+')[0]!r} was not fabricated; use {' or '.join(containers)}")
    originals = {owner.name: owner.model, owner.name + _DRAFT: str(_draft_model(owner))}
    if name.partition("+")[0] != owner.name:
        _make_draft_once(owner)
    return make_twin(owner, name, originals, _EDITS)


def is_container(fixture: Fixture, name: str) -> bool:
    """Whether a name is that of a container, of the draft model of one, or of a twin of one of them."""
    return name.partition("+")[0] in _owners(fixture)


def without_format(name: str) -> str:
    """Return the name of the container that a twin in another format was made from."""
    base, *suffixes = name.split("+")
    return "+".join([base, *(suffix for suffix in suffixes if suffix not in _FORMATS)])


def _owners(fixture: Fixture) -> dict[str, Fixture]:
    """Return whose container, or draft model of a container, each name is."""
    return {name: one for one in (fixture, *fixture.companions) for name in (one.name, one.name + _DRAFT)}


def _context(changes: Changes, numbers: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config.update(max_position_embeddings=numbers[0]))
    changes.edit(_TOKENIZER_CONFIG, lambda config: config.update(model_max_length=numbers[0]))


def _eos(changes: Changes, numbers: Numbers) -> None:
    for file in (CONFIG_FILE, _TOKENIZER_CONFIG):
        changes.edit(file, lambda config: config.update(eos_token_id=list(numbers)))


def _vocab(changes: Changes, numbers: Numbers) -> None:
    changes.edit(CONFIG_FILE, lambda config: config.update(vocab_size=numbers[0]))


def _truncated(changes: Changes, _: Numbers) -> None:
    content = changes.read(FILE_NAME)
    changes.contents[FILE_NAME] = content[: len(content) * 3 // 4]


def _gguf(changes: Changes, _: Numbers) -> None:
    changes.contents[GGUF_FILE] = gguf_bytes(changes.original, json.loads(changes.read(CONFIG_FILE)))


def _hf(changes: Changes, _: Numbers) -> None:
    config = json.loads(changes.read(CONFIG_FILE))
    changes.contents[WEIGHTS_FILE] = weights_bytes(changes.original, config)
    changes.contents[CONFIG_FILE] = json_bytes(hf_config(config))
    changes.drop(FILE_NAME)


def _draft_model(fixture: Fixture) -> Path:
    return Path(fixture.model).parent / "twins" / "models" / (fixture.name + _DRAFT)


def _make_draft_once(fixture: Fixture) -> None:
    original = Path(fixture.model)
    if not original.is_dir():
        return
    config = json.loads((original / CONFIG_FILE).read_bytes())
    context, shape = config["max_position_embeddings"], shape_of(config)

    def make(directory: Path) -> None:
        make_draft_model(shape, context, fixture.streams, directory)

    make_once(original.parent.parent, _draft_model(fixture), make)


_EOS = "eos="
_DRAFT = "-draft"  # of the name of a container's draft model
_FORMATS: dict[str, Edit] = {"gguf": _gguf, "hf": _hf}
_EDITS = Edits(
    kind="models",
    by_suffix={"context=": _context, _EOS: _eos, "vocab=": _vocab, "truncated": _truncated, **_FORMATS},
    lists=(_EOS,),
    last=tuple(_FORMATS),
)
