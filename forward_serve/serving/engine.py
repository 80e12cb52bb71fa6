"""One model, one KV cache, one request at a time: from a valid request to a finished reply. Knows no HTTP and no fields.

Requests wait in order of arrival. Each that takes the engine leaves one `[spec]` line, written before its answer ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from forward_serve.decoding.interfaces import Base, Head
from forward_serve.decoding.loop import Options, Stats, run_from
from forward_serve.decoding.options import Row
from forward_serve.serving.choice import Choice
from forward_serve.serving.constraint import Constraint, Grammars
from forward_serve.serving.deliver import Deliver
from forward_serve.serving.eligibility import PlainReason, plain_reason
from forward_serve.serving.log import described
from forward_serve.serving.outlet import Audience, ClientLeftError, Outlet, ServerEndingError
from forward_serve.serving.prefix import PrefixCache, ResumableBase
from forward_serve.serving.request import Request
from forward_serve.serving.speclog import NOTHING, DecodingPath, Ending, SpecRecord
from forward_serve.serving.turnstile import Turnstile

if TYPE_CHECKING:
    from forward_serve.serving.dump import LogitDump

NO_DRAFTER = "none"


class ServedBase(Base, ResumableBase, Protocol):
    """A base that can start a new request and run a whole prompt."""

    def prefill(self, ids: Sequence[int]) -> Row:
        """Run a prompt in passes of its width and return the logits after it."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the engine serves, and how it drafts."""

    base: ServedBase
    head: Head | None
    token_bytes: Callable[[int], bytes]
    end_tokens: frozenset[int]
    grammars: Grammars
    k: int = 0  # most drafts of one round
    fallback_below: float = 0.0  # tokens a round; 0 = no rule
    fallback_window: int = 3  # rounds
    caches_prefixes: bool = False
    dump_directory: Path | None = None  # where the logits of each reply go; None: nowhere

    @property
    def drafter(self) -> str:
        """The drafter as it stands in the ready line and the `[spec]` lines."""
        return NO_DRAFTER if self.head is None else self.head.name


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request."""

    ending: Ending
    deliver: Deliver
    record: SpecRecord
    failure: str = ""  # what a client is told of a failed request


class Engine:
    """Serves requests one after the other."""

    def __init__(self, served: Served, log: Callable[[str], None], is_ending: Callable[[], bool]) -> None:
        self.served = served
        self._log = log
        self._is_ending = is_ending
        self._turnstile = Turnstile()
        self._prefix_cache = PrefixCache(served.base, is_on=served.caches_prefixes)

    @property
    def num_waiting(self) -> int:
        """How many requests wait for the engine."""
        return self._turnstile.num_waiting

    def answer(self, request: Request, response_id: str, audience: Audience) -> Outcome:
        """Wait for the engine and generate the reply.

        A request that does not reach the engine leaves no line: raises RequestError for a grammar that no reply satisfies,
        ClientLeftError where the client left while it waited, and ServerEndingError where the server was told to end. What breaks
        a reply off later is in the outcome.
        """
        constraint = None
        if request.grammar is not None:
            constraint = self.served.grammars.begin(request.grammar, request.ignore_eos)
        with self._turnstile.turn():
            if self._is_ending():
                raise ServerEndingError("the server is ending; ask it again when it is back")
            if audience.has_left():
                raise ClientLeftError("the client has closed its connection")
            reply = _Reply(self.served, request, response_id, constraint, audience, self._is_ending)
            ending, failure = self._run(reply, response_id)
            record = reply.record(response_id, ending)
            self._log(record.line())
        return Outcome(ending, reply.deliver, record, failure)

    def _run(self, reply: _Reply, response_id: str) -> tuple[Ending, str]:
        try:
            reply.generate(self._prefix_cache)
        except ClientLeftError:
            return Ending.CANCELLED, ""
        except Exception as error:  # whatever a pass raises, the engine lives on
            self._log(f"[error] id={response_id} {described(error)}")
            return Ending.FAILED, f"the request failed: {type(error).__name__}: {error}"
        return (Ending.CANCELLED if reply.outlet.client_left else Ending.REPLY), ""


class _Reply:
    """One request in the engine."""

    def __init__(
        self,
        served: Served,
        request: Request,
        response_id: str,
        constraint: Constraint | None,
        audience: Audience,
        is_ending: Callable[[], bool],
    ) -> None:
        self._served = served
        self._request = request
        self._dump = _dump(served.dump_directory, response_id)
        self._why_plain = None if served.head is None else plain_reason(request, dumps_logits=self._dump is not None)
        self._head = served.head if self._why_plain is None else None
        self._end_tokens = frozenset() if request.ignore_eos else served.end_tokens
        self._stats = Stats()
        self._num_cached = 0
        self._choice = Choice(request, served.base.vocab_bound, served.token_bytes, constraint, self._dump)
        self.deliver = Deliver(served.token_bytes, self._end_tokens, request.stops, constraint, self._choice.logprobs)
        self.outlet = Outlet(self.deliver, audience, is_ending)

    def generate(self, prefix_cache: PrefixCache) -> None:
        """Run what the cache lacks of the prompt, and decode the reply; its dump is kept if it came to its end."""
        prompt_ids = self._request.prompt_ids
        try:
            self._num_cached = prefix_cache.resume(prompt_ids)
            with self._dump or nullcontext():
                self._decode()
                if self._dump is not None and not self.outlet.client_left:
                    self._dump.keep(self.deliver.num_tokens)
        finally:
            prefix_cache.remember([*prompt_ids, *self.deliver.ids])

    def _decode(self) -> None:
        base, request = self._served.base, self._request
        if self._head is not None:
            self._head.begin(request.prompt_ids)
        logits = base.prefill(request.prompt_ids[self._num_cached :])
        run_from(base, self._head, len(request.prompt_ids), logits, self._options(), self._stats)
        self.deliver.finish()

    def _options(self) -> Options:
        is_greedy = self._request.wants_argmax_alone and self._dump is None
        return Options(
            k=self._served.k,
            max_tokens=self._request.max_tokens,
            fallback_below=self._served.fallback_below,
            fallback_window=self._served.fallback_window,
            consume_last=False,
            deliver=self.outlet,
            end_tokens=self._end_tokens,
            choose=None if is_greedy else self._choice,
        )

    def record(self, response_id: str, ending: Ending) -> SpecRecord:
        """What this request says of its path, at whatever point it ended."""
        stats = self._stats
        return SpecRecord(
            id=response_id,
            path=DecodingPath.PLAIN if self._head is None else DecodingPath.SPEC,
            drafter=self._served.drafter,
            rounds=stats.rounds,
            drafted=stats.drafted,
            accepted=stats.accepted,
            plain=stats.plain_steps,
            tokens=stats.tokens,
            cached=self._num_cached,
            fallback=stats.fell_back_at,
            reason=self._reason(ending),
            per_round=tuple(stats.per_round),
        )

    def _reason(self, ending: Ending) -> str:
        if ending is not Ending.REPLY:
            return ending
        word: PlainReason | str | None = self._why_plain
        if self._head is not None:
            word = self._stats.silence
        return str(word or NOTHING)


def _dump(directory: Path | None, response_id: str) -> LogitDump | None:
    if directory is None:
        return None
    from forward_serve.serving.dump import LogitDump  # noqa: PLC0415  (no other server needs it)

    return LogitDump(directory, response_id)
