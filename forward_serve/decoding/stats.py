"""What a reply cost, counted while it is decoded. Readable at any moment, also after a cancelled or failed reply."""

from __future__ import annotations

from dataclasses import dataclass, field

from forward_serve.decoding.silence import Silence


@dataclass(slots=True)
class Stats:
    """The counts of one reply; two are equal when everything but the times is.

    At any moment tokens = rounds + plain_steps + accepted + last, where last is 1 if the last counted token has not been run
    through the model and else 0, and the base holds prompt + tokens - last positions. A failed pass is in no count.
    """

    tokens: int = 0  # delivered and counted; an end token is neither
    rounds: int = 0  # verify passes
    drafted: int = 0  # ids proposed to verify
    accepted: int = 0  # drafts delivered and counted
    plain_steps: int = 0  # one-token passes that verified nothing
    passes: int = 0  # decode passes, the step of a two-pass round too; prefill apart
    fell_back_at: int | None = None  # records made when the fallback rule threw; None: it did not
    per_round: list[tuple[tuple[int, ...], int]] = field(default_factory=list)  # (drafted ids, accepted)
    num_asked: int = 0  # attempts: how often the head was asked
    last_word: str = ""  # the head's, at its last attempt
    ended: bool = False  # deliver answered False
    prefill_seconds: float = field(default=0.0, compare=False)
    decode_seconds: float = field(default=0.0, compare=False)

    @property
    def last(self) -> int:
        """1 if the last counted token has not been run through the model, else 0."""
        return self.tokens - self.rounds - self.plain_steps - self.accepted

    @property
    def silence(self) -> str:
        """Why nothing was drafted, as a word of `Silence`; "" where something was. Has no meaning without a head."""
        if self.drafted:
            return ""
        if self.num_asked:
            return self.last_word
        return Silence.ENDED if self.ended else Silence.BUDGET
