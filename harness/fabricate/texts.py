"""Replies as bytes: characters of several bytes, and sequences that are no UTF-8. It knows no prompt and no model.

A token is a byte, so that every character of two bytes or more is said by several tokens.
"""

from __future__ import annotations

import numpy as np

from harness.fabricate.errors import FabricationError
from harness.fabricate.tokenizer import byte_order

_CHARACTERS = ("a", "é", "è", "ñ", "ж", "я", "日", "旧", "本", "€", "😀", "😁", "𝄞")  # some share all bytes but the last
_INVALID = (
    b"\x80",  # nothing to continue
    b"\xc3",  # half of two
    b"\xe2\x82",  # two of three
    b"\xf0\x9f\x98",  # three of four
    b"\xed\xa0\x80",  # a surrogate
    b"\xc0\xaf",  # longer than need be
    b"\xf4\x90\x80",  # beyond the last character
)
_TAIL = b"\xf0\x9f\x98"  # three of four, and nothing more
_CHANGE = 0.2  # of a character, when a phrase is said again


def ids_of(content: bytes) -> list[int]:
    """Return the ids of bytes."""
    tokens = {byte: token for token, byte in enumerate(byte_order())}
    return [tokens[byte] for byte in content]


def is_continuation(byte: int) -> bool:
    """Whether a byte of UTF-8 continues a character."""
    return byte & 0xC0 == 0x80


def utf8_reply(rng: np.random.Generator, length: int) -> bytes:
    """Return so many bytes of whole characters: a phrase, said again and again with a character changed here and there."""
    phrase = [str(one) for one in rng.choice(_CHARACTERS, int(rng.integers(3, 7)))]
    said = b""
    while len(said) < length:
        for character in phrase:
            said += (str(rng.choice(_CHARACTERS)) if rng.random() < _CHANGE else character).encode()
    whole = said[:length].decode(errors="ignore").encode()
    return whole + b"a" * (length - len(whole))


def invalid_reply(rng: np.random.Generator, length: int) -> bytes:
    """Return so many bytes with every kind of invalid sequence, in pieces said twice, and half a character at the end."""
    pieces = [_INVALID[at] + bytes(rng.integers(ord("a"), ord("z") + 1, 1, np.uint8)) for at in rng.permutation(len(_INVALID))]
    said = b"".join(pieces) * 2
    shortest = len(said) + len(_TAIL)
    if length < shortest:
        raise FabricationError(f"invalid stream: {length} bytes do not hold every kind twice; use {shortest} or more")
    filler = bytes(rng.integers(ord("A"), ord("Z") + 1, length - shortest, np.uint8))
    return said + filler + _TAIL
