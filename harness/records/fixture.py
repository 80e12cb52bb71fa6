"""What fabrication leaves for the rest: directories of models and packs, and the streams that the model was made to say.

A stream is a prompt with the reply that the model's head was solved for. Plans are built from streams; checks never read
them, they compare recordings. The byte alphabet is Qwen's: for printable ASCII ids and text are one-to-one.
"""

from __future__ import annotations

import msgspec


class Stream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One prescribed prompt and reply."""

    name: str  # "main-1", "hit-2", ...
    role: str  # main, repeat, hit, miss, decoy, constant, burst
    prompt_ids: tuple[int, ...]
    reply_ids: tuple[int, ...]

    @property
    def prompt(self) -> str:
        """The prompt as text."""
        return ascii_text(self.prompt_ids)

    @property
    def reply(self) -> str:
        """The reply as text."""
        return ascii_text(self.reply_ids)


class Fixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fabricated recipe. Paths are absolute and lie in the cache, outside the tree."""

    recipe: str  # "tiny@<first 12 hex digits of the content hash>"
    model: str  # directory of the container
    packs: dict[str, str]  # pack name -> directory
    streams: tuple[Stream, ...]
    vocab_bound: int  # number of ids that the tokenizer knows
    block_sizes: dict[str, int]  # pack name -> slots of one block, the anchor included

    def of_role(self, role: str) -> tuple[Stream, ...]:
        """All streams of one role, in the recipe's order."""
        return tuple(stream for stream in self.streams if stream.role == role)

    def stream(self, name: str) -> Stream:
        """The stream of this name; KeyError if the recipe has none."""
        for stream in self.streams:
            if stream.name == name:
                return stream
        raise KeyError(name)


def ascii_text(ids: tuple[int, ...]) -> str:
    """Return the text of printable-ASCII ids (0..93 are bytes 33..126). Raises ValueError on any other id."""
    if any(not 0 <= token <= 93 for token in ids):
        raise ValueError(f"ids {[t for t in ids if not 0 <= t <= 93]} are not printable ASCII (0..93)")
    return "".join(chr(33 + token) for token in ids)
