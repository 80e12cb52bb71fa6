"""The ideal engine as a server: requests one after another with a prefix cache between them. For tests only.

To `ideal`, which answers one completion, it adds what a request says beyond its prompt, and what the requests before it left:
grammars, penalties, scores, files of logits, refusals and failures.
"""

from __future__ import annotations

import hashlib
import math
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harness.oracle.constraints import JSON_OBJECT, constraint_of
from harness.oracle.spelling import spell
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Answer, Dump, Recording, Reply, Run, Trace
from tests.harness.checks.ideal import DECLARED, DECOYS, WIDTH, Fault, answer, seen_of, trace_of
from tests.harness.checks.script import Script, with_expectations

END = 185  # <|im_end|>
VOCABULARY, PADDED = 256, 288
FAILS_AFTER = 15  # tokens
CHARACTERS = [chr(33 + token) for token in range(94)]
JSON_CHARACTERS = list('{}[]":,0a')


@dataclass(frozen=True)
class Fixed(Script):
    """A script of one reply, wherever it is asked for."""

    ids: tuple[int, ...] = ()

    def token(self, prompt: tuple[int, ...], index: int, seed: int | None = None) -> int:
        del prompt, seed
        return self.ids[min(index, len(self.ids) - 1)]


@dataclass(slots=True)
class Server:
    """One start of the ideal engine."""

    start: Start
    script: Script
    faults: frozenset[Fault] = frozenset()
    _left: tuple[int, ...] = field(default=(), init=False)  # tokens that were run

    def answer(self, request: Request, number: int) -> Answer:
        """Answer the next request."""
        if request.expect not in (200, 500):
            return refusal(request)
        resumed = self._resumed(request.prompt_ids) if request.prompt_ids else 0
        asked = request if request.prompt_ids else msgspec.structs.replace(request, prompt_ids=_chat_ids(request))
        if request.expect == 500:
            asked = msgspec.structs.replace(asked, leave_after_chunks=FAILS_AFTER)
        script, ends = self._script(asked), frozenset({END} if constraint_of(asked.body or {}) else ())
        one = answer(script, self.start, asked, number, self.faults, resumed=resumed, ends=ends)
        self._left = asked.prompt_ids + _run_of(one)
        return self._failed(request, one) if request.expect == 500 else self._scored(asked, one)

    def _failed(self, request: Request, one: Answer) -> Answer:
        """Answer a request that fails: inside its prefill on a start whose first passes do, else after some tokens."""
        assert one.counts is not None
        counts = msgspec.structs.replace(one.counts, reason="failed")
        num_rows = (int(self.start.parameters["fail_pass"]) - 1) * WIDTH
        if num_rows < len(request.prompt_ids):
            self._left = request.prompt_ids[:num_rows]
            counts = msgspec.structs.replace(counts, rounds=0, drafted=0, accepted=0, plain=0, tokens=0)
        error = {"message": "the request failed", "type": "server_error", "param": None}
        return Answer(request.id, 500, body={"error": error}, counts=counts)

    def _resumed(self, prompt: tuple[int, ...]) -> int:
        if not DECLARED.arms[self.start.arm].prefix_cache:
            return 0
        common = 0
        while common < min(len(prompt) - 1, len(self._left)) and prompt[common] == self._left[common]:
            common += 1
        return common

    def _script(self, request: Request) -> Script:
        """Return what is said after this request: the script's own tokens, or what its fields make of them."""
        body = request.body or {}
        constraint = constraint_of(body)
        biases = {int(token): float(value) for token, value in (body.get("logit_bias") or {}).items()}
        is_penalised = any(body.get(name) for name in ("presence_penalty", "frequency_penalty"))
        if not (constraint or biases or is_penalised or body.get("repetition_penalty", 1) != 1):
            return self.script
        seed = None if request.is_greedy else int(body.get("seed", 0))
        wanted = [self.script.token(request.prompt_ids, index, seed) for index in range(request.max_tokens)]
        if is_penalised or body.get("repetition_penalty", 1) != 1:
            wanted = [(token + 7) % 90 for token in wanted]
        if biases:
            forced = [token for token, value in biases.items() if value > 50]
            banned = [token for token, value in biases.items() if value < -50]
            wanted = [forced[0] if forced else (token + 1) % 90 if token in banned else token for token in wanted]
        if constraint is None:
            return Fixed(ids=tuple(wanted))
        characters = JSON_CHARACTERS if constraint is JSON_OBJECT else CHARACTERS
        return Fixed(ids=_constrained(wanted, constraint.is_whole, constraint.may_become_whole, characters))

    def _scored(self, request: Request, one: Answer) -> Answer:
        """Add logprobs and the file of logits, where they are asked for."""
        reply, dumps = one.reply, DECLARED.arms[self.start.arm].dumps_logits
        asked = (request.body or {}).get("logprobs")
        if reply is None or reply.ids is None or not (dumps or _asks(asked)):
            return one
        rows = [
            logits(request.prompt_ids + reply.ids[:index], token if request.is_greedy else None)
            for index, token in enumerate(reply.ids)
        ]
        if dumps:
            one = msgspec.structs.replace(one, dump=dump_of(rows))
        if not _asks(asked):
            return one
        is_chat = asked is True
        num_top = int((request.body or {}).get("top_logprobs", 0)) if is_chat else int(asked)
        scores = _chat_scores(reply, rows, num_top) if is_chat else _scores(reply, rows, num_top)
        return msgspec.structs.replace(one, reply=msgspec.structs.replace(reply, logprobs=scores))


def _asks(logprobs: Any) -> bool:
    return logprobs is not None and logprobs is not False


def serve_plan(plan: Plan, script: Script, faults: Iterable[Fault] = (), *, arms: Sequence[str] = ()) -> Run:
    """Answer a whole plan; faults are planted on the named arms, on all where none is named."""
    recordings = []
    for start in plan.starts:
        server = Server(start, script, frozenset(faults) if not arms or start.arm in arms else frozenset())
        answers = tuple(server.answer(request, number) for number, request in enumerate(start.requests, 1))
        device = DECLARED.arms[start.arm].device
        recordings.append(Recording("ideal", start, answers, trace_of(start, answers), ("[ready] port=1",), None, device=device))
    control = Trace(traced=True, events=tuple(seen_of(path) for path in DECOYS), num_opens=9)
    return with_expectations(Run(plan, "ideal", DECLARED, tuple(recordings), control, DECOYS), script)


def refusal(request: Request) -> Answer:
    """Answer a request that must be refused, by the field that it says is wrong."""
    message = f"{request.refusal or 'body'}: is not what it should be; correct it"
    error = {"message": message, "type": "invalid_request_error", "param": request.refusal or None}
    return Answer(request.id, request.expect, body={"error": error})


def logits(context: Sequence[int], chosen: int | None) -> tuple[float, ...]:
    """Return the row of float32 logits after a context: a greedy choice leads, and padding leads all."""
    noise = random.Random(repr(tuple(context)))
    row = [noise.gauss(0, 1) - 10 * (token >= 94) for token in range(PADDED)]
    row[VOCABULARY] = 50.0
    if chosen is not None:
        row[chosen] = max(row[:VOCABULARY]) + 20  # it leads whatever a request wants changed
    return struct.unpack(f"<{PADDED}f", struct.pack(f"<{PADDED}f", *row))


def dump_of(rows: Sequence[Sequence[float]]) -> Dump:
    """Return the file of logits of these rows."""
    content = b"".join(struct.pack(f"<{PADDED}f", *row) for row in rows)
    return Dump(hashlib.sha256(content).hexdigest(), "<f4", (len(rows), PADDED), content)


def _run_of(one: Answer) -> tuple[int, ...]:
    """Return the reply tokens that were run."""
    assert one.counts is not None
    ids = one.reply.ids if one.reply is not None else tuple(token for chunk in one.chunks for token in chunk.ids)
    assert ids is not None
    return ids[: one.counts.rounds + one.counts.plain + one.counts.accepted]


def _chat_ids(request: Request) -> tuple[int, ...]:
    (message,) = (request.body or {})["messages"]
    return tuple(ord(character) - 33 for character in f"<user>{message['content']}")


def _constrained(
    wanted: Sequence[int], is_whole: Callable[[str], bool], may_become: Callable[[str], bool], characters: Sequence[str]
) -> tuple[int, ...]:
    """Return tokens near the wanted ones that keep to a grammar, with the end token where it may end."""
    text, ids = "", list[int]()
    for token in wanted:
        allowed = [character for character in characters if may_become(text + character)]
        if is_whole(text) and not allowed:
            return (*ids, END)
        text += allowed[token % len(allowed)]
        ids.append(ord(text[-1]) - 33)
    return (*ids, END)


def _logprobs(row: Sequence[float]) -> list[float]:
    top = max(row[:VOCABULARY])
    total = top + math.log(math.fsum(math.exp(score - top) for score in row[:VOCABULARY]))
    return [score - total for score in row[:VOCABULARY]]


def _best(scores: Sequence[float], token: int, num_top: int) -> list[int]:
    best = sorted(range(VOCABULARY), key=lambda one: (-scores[one], one))[:num_top]
    return best if token in best else [token, *best]


def _scores(reply: Reply, rows: Sequence[Sequence[float]], num_top: int) -> dict[str, Any]:
    assert reply.ids is not None
    scored = [_logprobs(row) for row in rows]
    tokens = [spell((token,)) for token in reply.ids]
    best = [_best(scores, token, num_top) for scores, token in zip(scored, reply.ids, strict=True)]
    return {
        "tokens": tokens,
        "token_logprobs": [scores[token] for scores, token in zip(scored, reply.ids, strict=True)],
        "top_logprobs": [{spell((one,)): scores[one] for one in places} for scores, places in zip(scored, best, strict=True)],
        "text_offset": [len("".join(tokens[:index])) for index in range(len(tokens))],
    }


def _chat_scores(reply: Reply, rows: Sequence[Sequence[float]], num_top: int) -> dict[str, Any]:
    columns = _scores(reply, rows, num_top)
    content = [
        {"token": token, "logprob": logprob, "top_logprobs": [{"token": text, "logprob": one} for text, one in top.items()]}
        for token, logprob, top in zip(columns["tokens"], columns["token_logprobs"], columns["top_logprobs"], strict=True)
    ]
    return {"content": content}
