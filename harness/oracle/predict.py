"""What the path of a request must have been, from its prompt and the plain reply alone. Shares nothing with the engine."""

from __future__ import annotations

import msgspec

from harness.records.plan import Request, Start
from harness.records.recording import Answer, Counts, Declared, Round


class Prediction(msgspec.Struct, frozen=True):
    """The predicted path of one request."""

    counts: Counts
    rounds: tuple[Round, ...]
    last: int  # 1 if the last counted token was not run through the model


def predict(start: Start, request: Request, plain: Answer, declared: Declared) -> Prediction | None:
    """Predict the path of `request` on `start` from the plain arm's answer to it; None where no oracle knows the arm."""
    raise NotImplementedError
