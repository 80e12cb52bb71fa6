"""Where a reply left the one that it must be: the place, what led there, and how close the choice was. Data for reports."""

from __future__ import annotations

import enum

import msgspec

from harness.records.expectation import Ids
from harness.records.recording import Round


class Unit(enum.StrEnum):
    """What two replies are counted in."""

    TOKENS = "tokens"
    CHARACTERS = "characters"  # of a surface without ids, or of texts that differ though the ids do not


class GapSource(enum.StrEnum):
    """Where a gap was read."""

    FORWARD = "the oracle's float64 forward"
    LOGPROBS = "the plain arm's logprobs"


class Gap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plain choice at one place: the best two scores of the row that decides there, in logits (equally, in nats)."""

    source: GapSource
    first: str  # an id, or its text where the source names texts
    second: str
    size: float  # how far the first leads
    got_behind: float | None = None  # how far what was got is behind the first; None: its score is not known


class Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one of the two replies says from the place on, its next few tokens."""

    ids: Ids  # (): it had ended there, or has no ids
    text: str
    length: int  # of the whole reply, in the divergence's unit


class Spot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where in its path a reply's token was committed."""

    round: int | None  # counted from 0; None: by a plain step, or as the last token, which no pass ran
    slot: int = 0  # 0 = the base's own choice, which begins a pass; j = the j-th draft


class Divergence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The first place at which a reply differs from the one that it must be, and the path that led there."""

    unit: Unit
    index: int
    want: Side
    got: Side
    shared_ids: Ids
    shared_text: str
    gap: Gap | None = None
    gap_unknown: str = ""  # why there is no gap
    spot: Spot | None = None
    spot_unknown: str = ""  # why there is no spot
    taken: Round | None = None  # the round of the spot, as the subject told it
    predicted_spot: Spot | None = None  # where the token that was wanted had to be committed
    predicted: Round | None = None  # the round of that spot
    predicted_unknown: str = ""  # why there is no predicted spot
