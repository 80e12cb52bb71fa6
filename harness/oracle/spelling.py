"""The text that ids of a fabricated tokenizer spell: 256 bytes in Qwen's order, without merges. Written from the format alone.

It does not know any tokenizer file, and it shares nothing with the writer of tokenizers.
"""

from __future__ import annotations

from collections.abc import Sequence

SPECIALS = {185: "<|im_end|>", 186: "<|im_start|>", 187: "<|endoftext|>"}  # on bytes that UTF-8 never uses
BYTES: tuple[int, ...] = (*range(33, 127), *range(161, 173), *range(174, 256), *range(33), *range(127, 161), 173)  # of ids 0..255
NUM_IDS = len(BYTES)


def byte_of(token: int) -> int:
    """Return the byte of an id. Raises ValueError for an id that the tokenizer does not have."""
    if not 0 <= token < NUM_IDS:
        raise ValueError(f"id {token} spells nothing; the tokenizer has ids 0..{NUM_IDS - 1}")
    return BYTES[token]


def spell(ids: Sequence[int]) -> str:
    """Return the text of a whole reply: bytes as UTF-8, each invalid maximal subpart U+FFFD, specials by their literal text."""
    return b"".join(_bytes_of(token) for token in ids).decode("utf-8", errors="replace")


def _bytes_of(token: int) -> bytes:
    return SPECIALS[token].encode() if token in SPECIALS else bytes([byte_of(token)])
