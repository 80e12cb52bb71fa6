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
        """The reply as text; bytes that are no UTF-8 become U+FFFD, one for each maximal part."""
        return text_of_ids(self.reply_ids)


class Fixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fabricated recipe. Paths are absolute and lie in the cache, outside the tree."""

    recipe: str  # "tiny@<first 12 hex digits of the content hash>"
    model: str  # directory of the container
    packs: dict[str, str]  # pack name -> directory
    streams: tuple[Stream, ...]
    vocab_bound: int  # number of ids that the tokenizer knows
    block_sizes: dict[str, int]  # pack name -> slots of one block, the anchor included
    companions: tuple[Fixture, ...] = ()  # other recipes' containers that checks need beside this one

    @property
    def name(self) -> str:
        """The recipe's name without its hash."""
        return self.recipe.partition("@")[0]

    def companion(self, name: str) -> Fixture:
        """The companion of this name; KeyError if the recipe has none."""
        for companion in self.companions:
            if companion.name == name:
                return companion
        raise KeyError(name)

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


def bytes_of_ids(ids: tuple[int, ...]) -> bytes:
    """Return the byte of each id 0..255: bytes that print come first (33..126, 161..172, 174..255), then the others in order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = bytes(printable + sorted(set(range(256)) - set(printable)))
    return bytes(order[token] for token in ids)


def text_of_ids(ids: tuple[int, ...]) -> str:
    """Return the UTF-8 text of ids 0..255. An invalid maximal part, or an incomplete tail, becomes one U+FFFD."""
    return bytes_of_ids(ids).decode("utf-8", errors="replace")
