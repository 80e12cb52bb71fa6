"""What a draft model is asked by itself, so that it is known what it drafts: after every beginning of each reply that a law predicts.

Only replies that streams prescribe are known beforehand; whatever else is asked of an arm that drafts with a model is not predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from harness.oracle.draft_model import ALONE
from harness.oracle.streamwise import DRAFT_MODEL, most_drafts
from harness.plans.requests import completion
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Request, Start
from harness.records.recording import Declared

HELPED = ("drafts-made", "stop-cut", "end-token")  # laws that see more of a path that is predicted, and demand none


def with_draft_model(
    starts: Sequence[Start], declared: Declared, fixture: Fixture, predicted: Sequence[str]
) -> tuple[list[Start], Mapping[str, str]]:
    """Return the starts with one that serves the draft model by itself, and what of the `predicted` laws is not tested, and why.

    An arm takes part whose oracle is a draft model; a request that cannot be predicted loses those laws. Without such an arm, or
    without an arm that serves the draft model, nothing changes.
    """
    drafting = [start for start in starts if declared.facts_of(start).oracle.startswith(DRAFT_MODEL)]
    if not drafting or ALONE not in declared.arms:
        return list(starts), {}
    laws = predicted or HELPED
    k = max(most_drafts(declared.facts_of(start).oracle, _k_of(start)) for start in drafting)
    asked: dict[str, Request] = {}
    left: dict[str, int] = {}
    first = int(declared.first_token_outside)
    changed = [_predictable(start, fixture, predicted, left, first) if start in drafting else start for start in starts]
    for start in changed:
        if declared.facts_of(start).oracle.startswith(DRAFT_MODEL):
            asked |= {one.id: one for request in start.requests for one in _drafts_of(request, fixture, laws, k, first)}
    alone = Start(id=ALONE, arm=ALONE, model=drafting[0].pack or "", requests=tuple(asked.values()))
    why = "the draft model cannot be asked beforehand behind replies that no stream prescribes"
    not_tested = {f"{check} of {count} requests with a draft model": why for check, count in left.items()}
    return ([*changed, alone] if asked else changed), not_tested


def _drafts_of(request: Request, fixture: Fixture, laws: Sequence[str], k: int, first: int) -> Iterator[Request]:
    """Yield what the draft model is asked for one request that one of the laws reads."""
    law = next((check for check in laws if check in request.checks), None)
    if law is not None:
        for stream in _beginnings(request, fixture, first):
            yield completion(stream, k, law)


def _predictable(start: Start, fixture: Fixture, predicted: Sequence[str], left: dict[str, int], first: int) -> Start:
    """Return a start whose requests keep the predicted laws only where the draft model can be asked."""
    requests = []
    for request in start.requests:
        laws = [check for check in request.checks if check in predicted]
        is_known = request.max_tokens == 1 or any(True for _ in _beginnings(request, fixture, first))
        for check in () if is_known else laws:
            left[check] = left.get(check, 0) + 1
        kept = tuple(check for check in request.checks if is_known or check not in laws)
        requests.append(msgspec.structs.replace(request, checks=kept))
    return msgspec.structs.replace(start, requests=tuple(requests))


def _beginnings(request: Request, fixture: Fixture, first: int) -> Iterator[Stream]:
    """Yield prompts that end after each token of the request's reply; none where no stream prescribes all of it.

    `first` is the number of tokens that are there when drafts are asked for first: 1, or 0 where that is on the bare prompt.
    """
    if not request.is_greedy:
        return
    for stream in fixture.streams:
        whole = stream.prompt_ids + stream.reply_ids
        size = len(request.prompt_ids)
        is_prescribed = len(stream.prompt_ids) <= size and whole[:size] == request.prompt_ids
        if is_prescribed and size + request.max_tokens <= len(whole) and _sets_no_token(request):
            for end in range(size + first, size + request.max_tokens - 1 + first):
                yield Stream(f"{stream.name}:{end}", stream.role, whole[:end], ())
            return


def _sets_no_token(request: Request) -> bool:
    """Whether nothing in the body makes the reply another one than the stream's, but for where it ends."""
    changing = {
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "response_format",
        "structured_outputs",
    }
    return not any((request.body or {}).get(name) for name in changing)


def _k_of(start: Start) -> int | None:
    k = start.parameters.get("draft_k", start.parameters.get("k"))
    return None if k is None else int(k)
