"""A reply held to a grammar: which tokens may come next. We write no grammar: llguidance masks the logits.

It knows ids and bytes of the tokenizer, no loop and no text. The library is imported at the first request that needs it.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forward_serve.errors import EngineError, RequestError
from forward_serve.serving.body import param_of
from forward_serve.serving.request import Grammar, GrammarKind

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

DEAD_END = "no token of this model goes on with it"
NO_EXTENSION = "NoExtensionBias"  # the library's word for that
LONGEST_REASON = 160  # characters of the library's word in a message

# The library would let text that only one reading allows come in its tokenizer's own cut, in which the literal of a special
# token is that token; here literals are text, and any cut of a text is as good.
NO_FORCING = '%llguidance {"no_forcing": true}\n'


class Grammars:
    """Compiles grammars for one tokenizer.

    `tokenizer_json` is the text of tokenizer.json, `special_ids` its special tokens, `vocab_bound` bounds what may be chosen.
    """

    def __init__(
        self, tokenizer_json: str, special_ids: AbstractSet[int], vocab_bound: int, end_tokens: AbstractSet[int]
    ) -> None:
        self._tokenizer_json = tokenizer_json
        self._special_ids = frozenset(special_ids)
        self._vocab_bound = vocab_bound
        self._end_tokens = frozenset(end_tokens)

    def check(self, grammar: Grammar, ignore_eos: bool) -> None:
        """Raise RequestError for a grammar that the library does not read or that no reply satisfies."""
        self.begin(grammar, ignore_eos)

    def begin(self, grammar: Grammar, ignore_eos: bool) -> Constraint:
        """Return the constraint of one reply. Raises RequestError as `check` does."""
        if not self._special_ids:
            rule = "the model's tokenizer has no special token to stand for a grammar's end"
            raise RequestError(f"{grammar.field}: {rule}; leave it out", param_of(grammar.field))
        end_tokens = frozenset[int]() if ignore_eos else self._end_tokens
        matcher = _matcher(self._tokenizer, grammar)
        constraint = Constraint(matcher, self._tokenizer, end_tokens, self._vocab_bound)
        if matcher.is_error():
            raise _refused(grammar, _reason(matcher))
        if not constraint.allowed.any():
            raise _refused(grammar, DEAD_END)
        return constraint

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        from llguidance import LLTokenizer  # noqa: PLC0415  (30 ms that a server without grammars never pays)

        return LLTokenizer(self._tokenizer_json, eos_token=min(self._special_ids))


class Constraint:
    """The state of one reply in its grammar. Reads only ids below the vocabulary bound.

    End tokens may come exactly where the grammar may end, whatever else their ids mean. The library's own end token stands for
    that place and is never chosen by its name.
    """

    def __init__(self, matcher: LLMatcher, tokenizer: LLTokenizer, end_tokens: AbstractSet[int], vocab_bound: int) -> None:
        self._matcher = matcher
        self._end_marker = tokenizer.eos_token
        self._vocab_size = tokenizer.vocab_size
        self._vocab_bound = vocab_bound
        self._end_tokens = [token for token in end_tokens if token < vocab_bound]
        self._may_end = False
        self.allowed: NDArray[np.bool_] = self._mask()  # [vocab_bound]: the ids that may come next

    def take(self, token: int) -> bool:
        """Go on behind `token`, which is no end token, and answer whether anything may follow.

        Raises EngineError for a token that was not allowed, where the grammar has become too large for the library, and where it
        goes on with bytes for which there is no token.
        """
        self._matcher.consume_token(token)
        if not self._matcher.is_error():
            self.allowed = self._mask()
        if self._matcher.is_error():
            raise EngineError(f"grammar: token {token}: {_reason(self._matcher)}")
        goes_on = bool(self.allowed.any())
        if not goes_on and not self._may_end:
            raise EngineError(f"grammar: token {token}: {DEAD_END}")
        return goes_on

    def _mask(self) -> NDArray[np.bool_]:
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask  # noqa: PLC0415  (as above)

        words = allocate_token_bitmask(1, self._vocab_size)
        fill_next_token_bitmask(self._matcher, words)
        bits = np.unpackbits(words.view(np.uint8)[0], bitorder="little").astype(np.bool_)
        self._may_end = bool(bits[self._end_marker])
        bits[self._end_marker] = False
        bits[self._end_tokens] = self._may_end
        return bits[: self._vocab_bound]


def _matcher(tokenizer: LLTokenizer, grammar: Grammar) -> LLMatcher:
    """Compile a grammar; raises RequestError where the library refuses it."""
    from llguidance import LLMatcher, regex_to_lark  # noqa: PLC0415  (as above)

    start = f"%json {grammar.source}"
    if grammar.kind is GrammarKind.REGEX:
        if (len(grammar.source) - len(grammar.source.rstrip("\\"))) % 2:  # the library would drop the last one
            raise _refused(grammar, "it ends inside an escape")
        start = f"/{regex_to_lark(grammar.source, '')}/"  # "": classes such as \d are Unicode's
    matcher = LLMatcher(tokenizer, f"{NO_FORCING}start: {start}", log_level=0)
    if matcher.is_error():
        raise _refused(grammar, _reason(matcher))
    return matcher


def _refused(grammar: Grammar, reason: str) -> RequestError:
    rule = f"not a {grammar.kind.value} that a reply can satisfy ({reason})"
    return RequestError(f"{grammar.field}: {rule}; correct it or leave it out", param_of(grammar.field))


def _reason(matcher: LLMatcher) -> str:
    """The library's word in one line: its first, without the place in our own grammar text, and what a parser adds to it."""
    first, *more = matcher.get_error().splitlines() or [""]
    if first == NO_EXTENSION:
        return DEAD_END
    first = re.sub(r"^at \d+\(\d+\): ", "", first)
    said = " ".join([first, *(line for line in more if line.startswith("error: "))])
    return said if len(said) <= LONGEST_REASON else f"{said[:60]}...{said[63 - LONGEST_REASON :]}"
