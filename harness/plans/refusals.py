"""What the law on refusals is asked: starts that must refuse by name, bodies that must get a 4xx, and probes between them.

A refused start carries one request, with which one would notice that something listens after all: it must stay unanswered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from harness.plans.bad_bodies import CHATS, COMBINATIONS, FEW, FEW_TEXTS, MORE, MORE_CHATS, ROWS, TEXTS, Beside, of_wrong_type
from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion
from harness.plans.starts import LOOKUP, MAIN, MODEL, PLAIN
from harness.records.fixture import Fixture
from harness.records.plan import Request, Start, Tier

CHECK = "refusals"
BODY_LIMIT_BYTES = 1 << 20
CONTEXT = 1024
LONGEST_NAME = 100  # characters of a value in a request's name
PROBE_DEADLINE_S = 5.0


def refusals(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Refused starts; on served ones a probe, then each bad body with the probe behind it."""
    for start in _refused_starts(tier):
        yield Asked(start, _never_served(start))
    starts = {Tier.MUTATION: (PLAIN, LOOKUP), Tier.GATE: (PLAIN, LOOKUP), Tier.DEEP: MAIN}[tier]
    probe = fixture.stream("hit-1")
    yield from ask(_probe(completion(probe, 5, CHECK, role="alone", label="before-refused")), *starts)
    asked = starts[1:]
    for bad in _bad_requests(fixture, tier):
        yield from ask(bad, *asked)
        yield from ask(_probe(completion(probe, 5, CHECK, role="probe", label=f"after-{bad.id}")), *asked)


def _refused_starts(tier: Tier) -> Iterator[Start]:
    """Yield starts that must refuse, each with what its one line must name: place and value seen."""
    yield _refused("two-drafters", "two-drafters", r"--spec-(lookup|draft)\b.*--spec-(lookup|draft)\b", pack="mixed", k=4)
    if tier is Tier.MUTATION:
        return
    yield _refused("unknown-flag", "plain", r"--no-such-flag\b", flag="--no-such-flag")
    yield _refused("fallback-alone", "plain", r"--spec-fallback\b", fallback_below=2.5)
    yield _refused("pack-hidden", "draft", r"config\.json\b.*\b512\b", pack="mixed+hidden=512")
    yield _refused("model-truncated", "plain", r"model\.q4nx\b", model=f"{MODEL}+truncated")
    yield _refused("npu-missing-device", "npu-missing-device", r"--device\b.*/no-such-device\b")
    yield _refused("pack-no-candidates", "draft-2", r"selector_top_k\b", pack="mixed2+notopk")
    if tier is Tier.DEEP:
        yield from _more_refused_starts()
        yield from _refused_starts_of_generation_2()


def _more_refused_starts() -> Iterator[Start]:
    yield _refused("pack-mask", "draft", r"mask_token_id\b.*\b288\b", pack="mixed+mask=288")
    yield _refused("pack-tap", "draft", r"target_layer_ids\b.*\b9\b", pack="mixed+tap=9")
    yield _refused("pack-block", "draft", r"block_size\b.*\b1\b", pack="mixed+block=1")
    yield _refused("pack-no-taps", "draft", r"target_layer_ids\b", pack="mixed+notaps")
    yield _refused("model-vocabulary", "plain", r"vocab_size\b.*\b320\b|\b320\b.*vocab_size\b", model=f"{MODEL}+vocab=320")
    yield _refused("draft-k-above-block", "draft", r"--spec-draft-k\b.*\b8\b", pack="mixed", draft_k=8)
    yield _refused("draft-k-zero", "draft", r"--spec-draft-k\b.*\b0\b", pack="mixed", draft_k=0)
    yield _refused("draft-k-alone", "plain", r"--spec-draft-k\b", draft_k=3)
    yield _refused("lookup-negative", "lookup", r"--spec-lookup\b.*-1\b", k=-1)
    yield _refused("lookup-no-number", "lookup", r"--spec-lookup\b.*\bmany\b", k="many")
    yield _refused("fallback-negative", "lookup", r"--spec-fallback\b.*-2\b", k=4, fallback_below=-2)
    yield _refused("fallback-no-window", "lookup", r"--spec-fallback-window\b.*\b0\b", k=4, fallback_below=2, fallback_window=0)
    yield _refused("fail-pass-zero", "plain", r"--fail-pass\b.*\b0\b", fail_pass=0)
    yield _refused("device-on-host", "device-on-host", r"--device\b.*/dev/null\b")
    yield _refused("npu-without-device", "npu-without-device", r"--backend\b.*\bnpu\b.*--device\b")


def _refused_starts_of_generation_2() -> Iterator[Start]:
    yield _refused("pack-candidates", "draft-2", r"selector_top_k\b.*\b289\b", pack="mixed2+topk=289")
    yield _refused("pack-group", "draft-2", r"conv_group_size\b.*\b7\b", pack="mixed2+group=7")
    yield _refused("pack-rank", "draft-2", r"codebook\b.*\b3\b", pack="mixed2+rank=3")
    yield _refused("pack-sink", "draft-2", r"attention_sink_bias\b", pack="mixed2+sink")
    yield _refused("pack-codebook", "draft-2", r"predecessor_codebook\b", pack="mixed2+codebook")
    yield _refused("pack-of-two-generations", "draft-2", r"generation|architectures", pack="mixed2+gen1")
    yield _refused(
        "pack-lacks-tensors", "draft-2", r"\b(candidate_selector|attention_conv|mlp_conv)\b", pack="mixed2+gen1tensors"
    )


def _refused(
    name: str, arm: str, names: str, *, model: str = MODEL, pack: str | None = None, **parameters: str | int | float
) -> Start:
    return Start(
        id=f"refused/{name}",
        arm=arm,
        model=model,
        requests=(),
        pack=pack,
        parameters=parameters,
        expect="refused",
        refusal=names,
    )


def _never_served(start: Start) -> Request:
    return Request(id=f"{start.id}/health", checks=(CHECK,), path="/health", method="GET", role="never-served")


def _probe(request: Request) -> Request:
    return msgspec.structs.replace(request, deadline_s=PROBE_DEADLINE_S)


def _bad_requests(fixture: Fixture, tier: Tier) -> Iterator[Request]:
    """Yield requests that must be refused, each with its status and the field that the answer must name."""
    good = completion(fixture.stream("main-1"), 4, CHECK).body
    assert good is not None
    is_small = tier is Tier.MUTATION
    for field, value in FEW if is_small else ROWS:
        yield _bad(f"{field}={_brief(value)}", field, body={**good, field: value})
    for text, param in FEW_TEXTS if is_small else TEXTS:
        yield _bad(f"body={_brief(text)}", param, raw=text)
    yield _bad("prompt-over-long", "prompt", body={**good, "prompt": [1] * CONTEXT})
    if is_small:
        return
    yield from _bad_beside(good, CHATS)
    yield _bad("prompt-missing", "prompt", body={name: value for name, value in good.items() if name != "prompt"})
    large = json.dumps({**good, "prompt": "a" * BODY_LIMIT_BYTES})
    yield _bad("body-too-large", "", raw=large, expect=413)
    yield _bad("other-host", "", body=good, headers={"Host": "model.example"}, expect=403)
    yield _bad("other-path", "", body=good, path="/v1/no-such-path", expect=404)
    yield _bad("other-method", "", method="PUT", body=good, expect=405)
    if tier is Tier.DEEP:
        yield from _more_bad_requests(good)


def _more_bad_requests(good: dict[str, Any]) -> Iterator[Request]:
    asked = {(field, _brief(value)) for field, value in ROWS}
    for field, value in (*MORE, *of_wrong_type()):
        if (field, _brief(value)) not in asked:
            yield _bad(f"{field}={_brief(value)}", field, body={**good, field: value})
    yield from _bad_beside(good, MORE_CHATS)
    yield _bad("prompt-longer-yet", "prompt", body={**good, "prompt": [1] * (CONTEXT + 1)})


def _bad_beside(good: dict[str, Any], chats: Iterable[Beside]) -> Iterator[Request]:
    """Yield fields that do not go together, and what a chat may not say."""
    for param, fields in COMBINATIONS:
        yield _bad(f"beside/{_brief(fields)}", param, body={**good, **fields})
    chat = {name: value for name, value in good.items() if name != "prompt"}
    chat |= {"messages": [{"role": "user", "content": "a"}]}
    for param, fields in chats:
        body = {name: value for name, value in {**chat, **fields}.items() if value is not None}
        yield _bad(f"chat/{_brief(fields)}", param, body=body, path="/v1/chat/completions")


def _bad(name: str, param: str, *, expect: int = 400, **how: Any) -> Request:
    return Request(id=f"bad/{name}", checks=(CHECK,), role="refused", expect=expect, refusal=param, **how)


def _brief(value: Any) -> str:
    written = json.dumps(value)
    return written if len(written) <= LONGEST_NAME else f"{written[:LONGEST_NAME]}..."


SLICES: dict[str, Slice] = {CHECK: refusals}
