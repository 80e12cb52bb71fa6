"""What is asked once replies have differed on a subject that is not certified: all that tells a near-tie from a fault.

Each difference gets starts of its own. Both arms are asked again, twice, by fresh servers; the arm that drafts also after another
request, after the same one and beside another; the plain arm for its scores, for a choice after each beginning of the other's reply, and
with its scores nudged. Plain replies of the same run, scored token by token as they came and again from whole prompts, tell how far a
batch's shape moves a score. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from harness.plans.build import Asked, Slice
from harness.records.difference import FOLLOWED, Compared, followed, ids_of
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Declared, Recording

CHECK = "near-ties"
# Roles, as the check spells them.
AGAIN, AFTER, RESUMED, BESIDE = "again", "after", "resumed", "beside"
SCORED, FORCED, NUDGED, SWEPT, CALIBRATES = "scored", "forced", "nudged", "swept", "calibrates"
MOST_CALIBRATING = 6  # plain replies that tell how far scores move
LONG_ENOUGH = 8  # tokens of such a reply
NUM_ALTERNATIVES = 10
MOST_SWEPT = 4096  # ids whose scores one request moves
NUDGES = tuple(2.0**power for power in range(-15, -2))  # what both scores are moved by, in logits: 3e-5 to 0.125
NOT_BARE = {  # fields of a request whose tokens are not those that its prompt alone gives, or whose scores come otherwise
    "stream",
    "stop",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "response_format",
    "structured_outputs",
}


def near_ties(_fixture: Fixture, _tier: Tier) -> Iterator[Asked]:
    """Ask nothing beforehand: what is asked hangs on what differs."""
    return iter(())


SLICES: dict[str, Slice] = {CHECK: near_ties}


def follow_up(plan: Plan, recordings: Sequence[Recording], declared: Declared) -> tuple[Start, ...]:
    """Return the further starts that a recorded plan calls for; none where no reply differs by a token."""
    differing = followed(plan, recordings, declared)
    starts: list[Start] = []
    for number, one in enumerate(differing):
        starts += _of_difference(number, one, plan.start(one.start.reference or ""), declared)
    models = dict.fromkeys(one.start.reference or "" for one in differing)
    return (*starts, *(_calibrating(plan.start(name), recordings) for name in models))


def _of_difference(number: int, one: Compared, plain: Start, declared: Declared) -> Iterator[Start]:
    for turn in (1, 2):
        yield _start(plain, f"{number}/plain-{turn}", _plain_requests(one, declared) if turn == 1 else (_probe(one, AGAIN),))
        yield _start(one.start, f"{number}/drafting-{turn}", tuple(_drafting_requests(one, declared, is_first=turn == 1)))


def _start(start: Start, name: str, requests: Sequence[Request]) -> Start:
    return msgspec.structs.replace(start, id=f"{FOLLOWED}-{name}", requests=tuple(requests), reference=None, host=None)


def _drafting_requests(one: Compared, declared: Declared, *, is_first: bool) -> Iterator[Request]:
    """Ask for the reply again: of a drafter that learns from earlier requests, behind those that it had seen."""
    if declared.facts_of(one.start).remembers:
        earlier = one.start.requests[: one.start.requests.index(one.request)]
        yield from (_bare(request, f"before-{request.id}", "") for request in earlier)
    yield _probe(one, AGAIN)
    if is_first:
        other = next((request for request in one.start.requests if request.prompt_ids != one.request.prompt_ids), one.request)
        yield _bare(other, f"other-{other.id}", "")
        yield _probe(one, AFTER)
        yield _probe(one, RESUMED)  # behind itself: from the cache, where there is one
        yield _bare(_probe(one, BESIDE), "beside", BESIDE, group="beside")
        yield _bare(other, f"neighbour-{other.id}", "", group="beside")


def _plain_requests(one: Compared, declared: Declared) -> tuple[Request, ...]:
    scored = _changed(one.request, SCORED, SCORED, logprobs=NUM_ALTERNATIVES)
    nudged = [_nudged(one, by) for by in NUDGES]
    draws_from_all = not one.request.is_greedy and not (one.request.body or {}).get("top_k")
    if draws_from_all and declared.vocab_bound <= MOST_SWEPT:
        nudged += [_swept(one, by, declared.vocab_bound) for by in NUDGES]
    forced = _one_more_each(one.request, one.got, FORCED) if one.request.prompt_ids else []
    return (_probe(one, AGAIN), scored, *nudged, *forced)


def _nudged(one: Compared, by: float) -> Request:
    """Ask with the score of the speculative token raised, and that of plain's own lowered."""
    want, got = _tokens(one)
    return _biased(one, f"{NUDGED}-{by:g}", NUDGED, {got: by, want: -by})


def _swept(one: Compared, by: float, num_ids: int) -> Request:
    """Ask with all scores moved, so that a draw from all ids in their order goes from plain's token towards the other one."""
    want, got = _tokens(one)
    low, sign = (want, -1) if want < got else (got, 1)
    return _biased(one, f"{SWEPT}-{by:g}", SWEPT, {token: by * (sign if token <= low else -sign) for token in range(num_ids)})


def _tokens(one: Compared) -> tuple[int, int]:
    assert one.index is not None, "what is equal is not followed up"
    return one.want[one.index], one.got[one.index]


def _biased(one: Compared, name: str, role: str, moves: Mapping[int, float]) -> Request:
    biases = dict((one.request.body or {}).get("logit_bias") or {})
    for token, by in moves.items():
        biases[str(token)] = biases.get(str(token), 0.0) + by
    return _changed(one.request, name, role, logit_bias=biases, logprobs=NUM_ALTERNATIVES)


def _one_more_each(request: Request, ids: Sequence[int], role: str) -> list[Request]:
    """Ask for one greedy token after each beginning of a reply, with scores."""
    made = []
    for size in range(len(ids)):
        prompt = (*request.prompt_ids, *ids[:size])
        body = {"prompt": list(prompt), "max_tokens": 1, "temperature": 0, "return_token_ids": True, "logprobs": NUM_ALTERNATIVES}
        made.append(Request(f"{role}/{request.id}/{size}", (), body, role=role, prompt_ids=prompt))
    return made


def _calibrating(plain: Start, recordings: Sequence[Recording]) -> Start:
    """Return a plain start that scores replies as they come, and each of their tokens again behind a whole prompt."""
    answers = {one.request_id: one for recording in recordings if recording.start.id == plain.id for one in recording.answers}
    requests: list[Request] = []
    prompts: set[tuple[int, ...]] = set()
    for request in plain.requests:
        ids = ids_of(answers.get(request.id)) or ()
        is_bare = request.is_greedy and request.prompt_ids and not NOT_BARE & (request.body or {}).keys()
        is_new = request.prompt_ids not in prompts and len(prompts) < MOST_CALIBRATING
        if is_bare and is_new and len(ids) >= LONG_ENOUGH:
            prompts.add(request.prompt_ids)
            requests.append(_changed(request, f"{CALIBRATES}-{request.id}", CALIBRATES, logprobs=NUM_ALTERNATIVES))
            requests += _one_more_each(request, ids, CALIBRATES)
    return _start(plain, f"band/{plain.id}", requests)


def _probe(one: Compared, role: str) -> Request:
    return _bare(one.request, f"{role}-{one.request.id}", role)


def _bare(request: Request, name: str, role: str, group: str = "") -> Request:
    """Return a request that no check of its own reads."""
    return msgspec.structs.replace(request, id=name, checks=(), role=role, group=group)


def _changed(request: Request, name: str, role: str, **fields: Any) -> Request:
    """Return a request, unstreamed, with some fields changed."""
    body = {key: value for key, value in (request.body or {}).items() if key not in ("stream", "stream_options")}
    return msgspec.structs.replace(_bare(request, name, role), body={**body, **fields})
