"""What one whole reply says, whatever the dialect: what faults of replies change. Pure values."""

from __future__ import annotations

from dataclasses import dataclass

LENGTH, WORD, END = "length", "word", "end"  # why a reply ended: its budget, a stop, an end token


@dataclass(frozen=True, slots=True)
class Said:
    """One reply. Texts of fixtures are one character per token, so a token's place is its character's."""

    ids: tuple[int, ...] | None  # without an end token; None: the reply holds none
    text: str
    finish: str  # LENGTH, WORD or END
    stop: str | int | None  # the stop that was completed, or the end token

    @property
    def num_tokens(self) -> int:
        """How many tokens it has, by its ids where it holds some."""
        return len(self.text) if self.ids is None else len(self.ids)

    @property
    def is_aligned(self) -> bool:
        """Whether tokens and characters go together one to one, but for tokens that a stop cut from the text."""
        return self.ids is None or len(self.text) <= len(self.ids)
