"""How a token of a plain reply is chosen from its row of logits, where that is more than the row's argmax. Knows no loop.

Bias and penalties change a copy of the row, the grammar masks it, then the token is its argmax or is drawn from it. Logprobs and
dumps are of the row as the model gave it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from forward_serve.decoding.greedy import bounded_argmax
from forward_serve.decoding.options import Row
from forward_serve.serving.request import Request
from forward_serve.serving.sampling import Sampler

if TYPE_CHECKING:
    from forward_serve.serving.constraint import Constraint
    from forward_serve.serving.dump import LogitDump
    from forward_serve.serving.logprobs import Scorer, TokenLogprobs
    from forward_serve.serving.penalties import LogitRules


class Choice:
    """Chooses the tokens of one reply, in order; each row is given once.

    `logprobs` holds one entry for each token that was chosen, an end token's last.
    """

    def __init__(
        self,
        request: Request,
        vocab_bound: int,
        token_bytes: Callable[[int], bytes],
        constraint: Constraint | None = None,
        dump: LogitDump | None = None,
    ) -> None:
        """Take the request's part in it; `constraint` is that of its grammar, and goes on as tokens are delivered."""
        self.logprobs: list[TokenLogprobs] | None = None if request.num_logprobs is None else []
        self._vocab_bound = vocab_bound
        self._sampler = None if request.sampling.is_greedy else Sampler(request.sampling, vocab_bound)
        self._constraint = constraint
        self._dump = dump
        self._scorer = _scorer(request, vocab_bound, token_bytes)
        self._rules = _rules(request, vocab_bound)

    def __call__(self, logits: Row) -> int:
        """Choose an id below the vocabulary bound from one row [V], which stays as it is."""
        scores = self._scores(logits)
        token = int(bounded_argmax(scores, self._vocab_bound)) if self._sampler is None else self._sampler(scores)
        if self._rules is not None:
            self._rules.count(token)
        if self.logprobs is not None and self._scorer is not None:
            self.logprobs.append(self._scorer(logits, token))
        if self._dump is not None:
            self._dump.add(logits)
        return token

    def _scores(self, logits: Row) -> Row:
        if self._rules is None and self._constraint is None:
            return logits
        scores = logits.copy()
        if self._rules is not None:
            self._rules.apply(scores)
        if self._constraint is not None:
            scores[: self._vocab_bound][~self._constraint.allowed] = -np.inf
        return scores


def _scorer(request: Request, vocab_bound: int, token_bytes: Callable[[int], bytes]) -> Scorer | None:
    if request.num_logprobs is None:
        return None
    from forward_serve.serving.logprobs import Scorer  # noqa: PLC0415  (start-up waits for nothing that few requests need)

    return Scorer(token_bytes, vocab_bound, request.num_logprobs)


def _rules(request: Request, vocab_bound: int) -> LogitRules | None:
    if not request.logit_bias and request.penalties.is_neutral:
        return None
    from forward_serve.serving.penalties import LogitRules  # noqa: PLC0415  (as above)

    return LogitRules(request.penalties, request.logit_bias, request.prompt_ids, vocab_bound)
