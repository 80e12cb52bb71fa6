"""What the law on capabilities asks: for each field that a request may carry, the same request without it and with it, on each main arm.

A request's role names the capability that it asks for ("asks-stop"); what is asked beside it, to see a difference, has the role
"beside". Requests of
capabilities that a subject's surface does not have are left out where the plan is fitted to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from harness.oracle.constraints import FIXED
from harness.plans.build import Asked, Slice, ask
from harness.plans.cuts import end_starts
from harness.plans.requests import completion, streamed
from harness.plans.seed import SEED, TEMPERATURE
from harness.plans.starts import LOOKUP, MAIN, PLAIN
from harness.plans.streams import joined
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Request, Start, Tier

CHECK = "capabilities"
BESIDE = "beside"
BUDGET = 24
CONTEXT = 1024  # positions of the main container
OTHER_SEED = SEED + 1


def capabilities(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Each capability on the main arms; end tokens on the twin that has them."""
    starts: tuple[Start, ...] = (PLAIN, LOOKUP) if tier is Tier.MUTATION else MAIN
    source = fixture.stream("repeat-1")
    yield from ask(completion(source, BUDGET, CHECK, role=BESIDE), *starts)
    for request in _asking(source):
        yield from ask(request, *starts)
    if tier is not Tier.MUTATION:
        ending: tuple[tuple[str, dict[str, Any]], ...] = ((BESIDE, {}), ("asks-ignore_eos", {"ignore_eos": True}))
        for role, fields in ending:
            yield from ask(completion(source, BUDGET, CHECK, role=role, **fields), *end_starts(fixture))


def _asking(source: Stream) -> Iterator[Request]:
    """Yield a request for each capability; its id holds what tells it apart from the one beside it."""
    yield completion(source, BUDGET, CHECK, role="asks-stop", stop=[source.reply[9:11]])
    hot: dict[str, Any] = {"temperature": TEMPERATURE}
    yield completion(source, BUDGET, CHECK, role="asks-temperature asks-seed", seed=SEED, **hot)
    yield completion(source, BUDGET, CHECK, role="asks-seed", label="again", seed=SEED, **hot)
    yield completion(source, BUDGET, CHECK, role="asks-seed", seed=OTHER_SEED, **hot)
    yield completion(source, BUDGET, CHECK, role="asks-logprobs", logprobs=2)
    yield completion(source, BUDGET, CHECK, role="asks-grammar", label=FIXED.name, **FIXED.fields)
    yield completion(source, BUDGET, CHECK, role="asks-penalties", frequency_penalty=2.0)
    yield completion(source, BUDGET, CHECK, role="asks-logit_bias", logit_bias={str(source.reply_ids[0]): -100})
    by_ids = completion(source, BUDGET, CHECK, role="asks-ids_in", label="ids")
    yield msgspec.structs.replace(by_ids, body={**(by_ids.body or {}), "prompt": list(source.prompt_ids)})
    silent = completion(source, BUDGET, CHECK, role="asks-ids_out", label="no-ids")
    yield msgspec.structs.replace(silent, body={**(silent.body or {}), "return_token_ids": False})
    yield streamed(source, BUDGET, CHECK, role="asks-stream")
    too_long = joined("over-long", (source,) * (CONTEXT // (len(source.prompt_ids) + len(source.reply_ids)) + 1))
    over_long = completion(too_long, BUDGET, CHECK, role="asks-over_long_prompt")
    yield msgspec.structs.replace(over_long, expect=400, refusal="prompt")


SLICES: dict[str, Slice] = {CHECK: capabilities}
