"""An engine that is right by construction, for tests of checks: it says what a script says and walks as the rules say.

`answer_plan` answers a whole plan as a run. Faults of real engines can be planted by name (`Fault`), on all arms or on some;
what no fault covers is changed in the run with `altered`. It shares nothing with the oracle: it finds tokens one by one and
hands each to a deliver function, as an engine does.
"""

from __future__ import annotations

import codecs
import enum
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.fabricate.recipe import Recipe, read_recipe
from harness.fabricate.streams import make_streams
from harness.oracle.spelling import byte_of, spell
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Plan, Request, Start
from harness.records.recording import (
    Answer,
    ArmFacts,
    Chunk,
    Counts,
    Declared,
    DeviceEvent,
    Recording,
    Reply,
    Round,
    Run,
    Trace,
)
from tests.harness.checks.script import CONTEXT, PACK_K, Script, with_expectations

ACCEL = "/dev/accel/accel0"
DEVICE_WIDTH = 8
DECLARED = Declared(
    arms={
        "plain": ArmFacts(),
        "lookup": ArmFacts(drafter="lookup", oracle="lookup-321"),
        "draft": ArmFacts(drafter="dflash", oracle="dflash"),
        "draft-2": ArmFacts(drafter="dflash", oracle="dflash"),
        "draft-sliding": ArmFacts(drafter="dflash", oracle="dflash"),
        "npu": ArmFacts(device=ACCEL, width=DEVICE_WIDTH),
        "npu-lookup": ArmFacts(drafter="lookup", oracle="lookup-321", device=ACCEL, width=DEVICE_WIDTH),
        "npu-draft": ArmFacts(drafter="dflash", oracle="dflash", device=ACCEL, width=DEVICE_WIDTH),
        "npu-draft-2": ArmFacts(drafter="dflash", oracle="dflash", device=ACCEL, width=DEVICE_WIDTH),
        "cached": ArmFacts(prefix_cache=True),
        "cached-lookup": ArmFacts(drafter="lookup", oracle="lookup-321", prefix_cache=True),
        "cached-draft": ArmFacts(drafter="dflash", oracle="dflash", prefix_cache=True),
        "cached-draft-2": ArmFacts(drafter="dflash", oracle="dflash", prefix_cache=True),
        "dump": ArmFacts(dumps_logits=True),
        "dump-lookup": ArmFacts(drafter="lookup", expect="not-engaged", dumps_logits=True),
        "dump-draft": ArmFacts(drafter="dflash", expect="not-engaged", dumps_logits=True),
    }
)
RECIPES = Path(__file__).parents[3] / "fixtures" / "recipes"
WIDTH = 16
DECOYS = ("/dev/accel/decoy-open", "/dev/accel/decoy-openat", "/dev/accel/decoy-openat2")


class Fault(enum.Enum):
    """A fault that a real engine could have."""

    NO_GREEDY_GATE = "a sampled request speculates"
    NO_GRAMMAR_GATE = "a constrained request speculates"
    NO_LOGPROBS_GATE = "a request for logprobs speculates"
    NO_DUMP_GATE = "a server that leaves files of logits speculates"
    NO_PENALTIES_GATE = "a penalised request speculates"
    NO_BIAS_GATE = "a biased request speculates"
    LAST_REASON = "of several reasons the last is named"
    TAPS_KEPT = "a resumed request drafts without taps"
    NOTHING_DRAFTED = "the verify pass has one row"
    NEVER_PROPOSES = "the head's pick never proposes"
    STALE_STREAM = "committed rows never reach the head"
    NO_COMMIT_AFTER_PLAIN = "rows of plain steps never reach the head"
    OFF_IGNORED = "the fallback rule's off is ignored"
    NO_RECORD = "no record after the round"
    RECORD_TAKE = "take is recorded, not take + 1"
    WINDOW_IGNORED = "the fallback rule throws before its window is full"
    MEAN_OF_ALL = "the fallback rule takes the mean of all records"
    BELOW_OR_EQUAL = "the fallback rule throws at exactly the bar"
    CONSUME_LAST = "the token that spends the budget is run"
    CONSTANT_DRAFTED = "drafted is a constant"
    DRAFTED_IS_WIDTH = "drafted is width x rounds"
    EARLIEST = "the earliest occurrence is copied"
    SHORT_FIRST = "2-grams before 3-grams"
    REJECTED_INDEXED = "rejected drafts enter the stream's index"
    FIRST_UNSEEN = "the first draft is accepted unseen"
    CAPPED_LOW = "one draft fewer than the room allows"
    LINE_DIFFERS = "the log line and the response disagree"


GATES = {
    "sampled": Fault.NO_GREEDY_GATE,
    "grammar": Fault.NO_GRAMMAR_GATE,
    "logprobs": Fault.NO_LOGPROBS_GATE,
    "dump-logits": Fault.NO_DUMP_GATE,
    "penalties": Fault.NO_PENALTIES_GATE,
    "logit-bias": Fault.NO_BIAS_GATE,
}


def why_plain(start: Start, request: Request, faults: frozenset[Fault]) -> str:
    """Return why a server with a drafter decodes a request plainly; "" where it does not."""
    body = request.body or {}
    asked = {name for name, value in body.items() if value not in (None, False, {}) or (name, value) == ("logprobs", 0)}
    reasons = []
    if not request.is_greedy:
        reasons.append("sampled")
    if "structured_outputs" in asked or body.get("response_format") not in (None, {"type": "text"}):
        reasons.append("grammar")
    if "logprobs" in asked and body["logprobs"] is not False:
        reasons.append("logprobs")
    if DECLARED.arms[start.arm].dumps_logits:
        reasons.append("dump-logits")
    if any(body.get(name) for name in ("presence_penalty", "frequency_penalty")) or body.get("repetition_penalty", 1) != 1:
        reasons.append("penalties")
    if "logit_bias" in asked:
        reasons.append("logit-bias")
    reasons = [reason for reason in reasons if GATES[reason] not in faults]
    return (reasons[-1] if Fault.LAST_REASON in faults else reasons[0]) if reasons else ""


@dataclass(slots=True)
class _Deliver:
    """The one way out for tokens."""

    stops: tuple[str, ...]
    end_tokens: frozenset[int]
    limit: int | None  # tokens after which the client has left
    ids: list[int] = field(default_factory=list)
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    decoded: str = ""  # of whole characters
    text: str = ""
    chunks: list[Chunk] = field(default_factory=list)
    stop_reason: str | int | None = None
    is_cancelled: bool = False

    def __call__(self, token: int) -> bool:
        if token in self.end_tokens:
            self.stop_reason = token
            return False
        self.ids.append(token)
        self.decoded += self.decoder.decode(bytes([byte_of(token)]))
        so_far = self.decoded
        found = [(so_far.find(stop), stop) for stop in self.stops if stop in so_far]
        shown = min(found)[0] if found else len(so_far) - self._held(so_far)
        self.chunks.append(Chunk(so_far[len(self.text) : shown], (token,)))
        self.text = so_far[: max(shown, len(self.text))]
        if found:
            self.stop_reason = min(found)[1]
        self.is_cancelled = self.limit is not None and len(self.chunks) >= self.limit
        return not found and not self.is_cancelled

    def _held(self, text: str) -> int:
        ends = (size for stop in self.stops for size in range(len(stop) - 1, 0, -1) if text.endswith(stop[:size]))
        return max(ends, default=0)


@dataclass(slots=True)
class _Engine:
    """One request on one server."""

    script: Script
    start: Start
    request: Request
    faults: frozenset[Fault]
    deliver: _Deliver
    budget: int
    rounds: list[Round] = field(default_factory=list)
    plain: int = 0
    records: list[int] = field(default_factory=list)
    fallback: int | None = None
    num_asked: int = 0
    ghosts: list[list[int]] = field(default_factory=list)
    num_committed: int = 0  # reply tokens that the head knows
    seed: int | None = None
    resumed: int = 0  # positions of the prompt that were not run

    def run(self, speculates: bool) -> None:
        emitted = 0
        is_greedy = self.request.is_greedy or speculates
        self.seed = None if is_greedy else int((self.request.body or {}).get("seed", 0))
        while True:
            if not self.deliver(self._say(emitted)):
                return
            emitted += 1
            if emitted == self.budget:
                self.plain += Fault.CONSUME_LAST in self.faults
                return
            drafts = self._drafts(emitted) if speculates else []
            if not drafts:
                self.plain += 1
                if Fault.NO_COMMIT_AFTER_PLAIN not in self.faults:
                    self.num_committed = emitted
                continue
            take = self._matches(drafts, emitted)
            num_before, goes_on = len(self.deliver.ids), True
            for draft in drafts[:take]:
                goes_on = self.deliver(draft)
                if not goes_on:
                    break
            accepted = len(self.deliver.ids) - num_before
            emitted += accepted
            self.num_committed = emitted
            self.rounds.append(Round(tuple(drafts), accepted))
            if accepted < len(drafts):
                self.ghosts.append([*self.request.prompt_ids, *self.deliver.ids[: emitted - accepted], *drafts])
            if not goes_on or emitted == self.budget:
                return
            self._record(accepted)

    def _say(self, index: int) -> int:
        return self.script.token(self.request.prompt_ids, index, self.seed)

    def _matches(self, drafts: Sequence[int], emitted: int) -> int:
        take = 0
        while take < len(drafts) and (
            drafts[take] == self._say(emitted + take) or (take == 0 and Fault.FIRST_UNSEEN in self.faults)
        ):
            take += 1
        return take

    def _drafts(self, emitted: int) -> list[int]:
        k = int(self.start.parameters.get("k", self.start.parameters.get("draft_k", PACK_K)))
        room = min(k, DECLARED.width_of(self.start.arm) - 1, self.budget - emitted) - (Fault.CAPPED_LOW in self.faults)
        if room < 1 or (self.fallback is not None and Fault.OFF_IGNORED not in self.faults):
            return []
        self.num_asked += 1
        if self.faults & {Fault.NOTHING_DRAFTED, Fault.NEVER_PROPOSES} or self._lacks_taps:
            return []
        if self.start.pack is not None:
            return list(self.script.drafts(self.request.prompt_ids, emitted, self.start.pack)[:room])
        return self._looked_up(room)

    @property
    def _lacks_taps(self) -> bool:
        return self.start.pack is not None and self.resumed > 0 and Fault.TAPS_KEPT not in self.faults

    def _looked_up(self, room: int) -> list[int]:
        stream = [*self.request.prompt_ids, *self.deliver.ids]
        if self.faults & {Fault.STALE_STREAM, Fault.NO_COMMIT_AFTER_PLAIN}:
            known = 0 if Fault.STALE_STREAM in self.faults else self.num_committed
            if known != len(self.deliver.ids) - 1:
                return []  # out of step
        sizes = (2, 3, 1) if Fault.SHORT_FIRST in self.faults else (3, 2, 1)
        for size in sizes:
            tail = stream[-size:]
            places = [at for at in range(len(stream) - size) if stream[at : at + size] == tail]
            source = stream
            for ghost in self.ghosts if Fault.REJECTED_INDEXED in self.faults else ():
                more = [at for at in range(len(stream) - size) if ghost[at : at + size] == tail and ghost[at + size :]]
                if more and (not places or max(more) > max(places)):
                    places, source = more, ghost
            if places:
                at = (min if Fault.EARLIEST in self.faults else max)(places) + size
                return source[at : at + room]
        return []

    def _record(self, accepted: int) -> None:
        if Fault.NO_RECORD in self.faults:
            return
        below = float(self.start.parameters.get("fallback_below", 0))
        window = int(self.start.parameters.get("fallback_window", 3))
        self.records.append(accepted + (Fault.RECORD_TAKE not in self.faults))
        recent = self.records if Fault.MEAN_OF_ALL in self.faults else self.records[-window:]
        mean = sum(recent) / len(recent)
        is_full = len(self.records) >= window or Fault.WINDOW_IGNORED in self.faults
        is_under = mean <= below if Fault.BELOW_OR_EQUAL in self.faults else mean < below
        if self.fallback is None and is_full and below and is_under:
            self.fallback = len(self.records)


def answer(
    script: Script,
    start: Start,
    request: Request,
    number: int,
    faults: frozenset[Fault] = frozenset(),
    *,
    resumed: int = 0,
    ends: frozenset[int] = frozenset(),
) -> Answer:
    """Answer one completion as a right engine would, but for the planted faults; `ends` are end tokens beside the container's."""
    body = request.body or {}
    stops = body.get("stop", ())
    twin = dict(part.split("=") for part in start.model.split("+")[1:] if "=" in part)
    end_tokens = (
        frozenset() if body.get("ignore_eos") else frozenset(map(int, twin.get("eos", "").split(".") if "eos" in twin else ()))
    )
    stops = (stops,) if isinstance(stops, str) else tuple(stops)
    deliver = _Deliver(stops, end_tokens | ends, request.leave_after_chunks)
    budget = min(request.max_tokens, int(twin.get("context", CONTEXT)) - len(request.prompt_ids))
    engine = _Engine(script, start, request, faults, deliver, budget, resumed=resumed)
    drafter = DECLARED.arms[start.arm].drafter
    reason = "" if drafter == "none" else why_plain(start, request, faults)
    engine.run(drafter != "none" and not reason)
    response_id = f"cmpl-{number}"
    counts = _counts(engine, drafter, reason)
    line = msgspec.structs.replace(counts, drafted=counts.drafted + 1) if Fault.LINE_DIFFERS in faults else counts
    if deliver.is_cancelled:
        return Answer(request.id, None, "left", chunks=tuple(deliver.chunks), counts=line)
    return _served(request, response_id, deliver, line, counts, tuple(engine.rounds))


def _counts(engine: _Engine, drafter: str, why: str) -> Counts:
    deliver = engine.deliver
    drafted = sum(len(one.drafted_ids) for one in engine.rounds)
    speculates = drafter != "none" and not why
    reason = why or "-"
    if deliver.is_cancelled:
        reason = "cancelled"
    elif speculates and not drafted:
        ended = "budget" if deliver.stop_reason is None else "ended"
        silence = "no-match" if engine.start.pack is None else "no-taps"
        reason = silence if engine.num_asked else ended
    if Fault.CONSTANT_DRAFTED in engine.faults and drafted:
        drafted = PACK_K
    if Fault.DRAFTED_IS_WIDTH in engine.faults:
        drafted = WIDTH * len(engine.rounds)
    return Counts(
        path="spec" if speculates else "plain",
        drafter=drafter,
        rounds=len(engine.rounds),
        drafted=drafted,
        accepted=sum(one.num_accepted for one in engine.rounds),
        plain=engine.plain,
        tokens=len(deliver.ids),
        cached=engine.resumed,
        fallback=engine.fallback,
        reason=reason,
    )


def _served(
    request: Request, response_id: str, deliver: _Deliver, line: Counts, counts: Counts, rounds: tuple[Round, ...]
) -> Answer:
    finish = "length" if deliver.stop_reason is None else "stop"
    text = spell(deliver.ids)
    found = [text.find(stop) for stop in deliver.stops if stop in text]
    reply = Reply(
        response_id,
        text[: min(found)] if found else text,
        tuple(deliver.ids),
        finish,
        deliver.stop_reason,
        len(request.prompt_ids),
        len(deliver.ids),
        cached_tokens=counts.cached,
    )
    chunks: tuple[Chunk, ...] = ()
    body: Any = {"id": response_id, "created": 1, "choices": [{"text": reply.text}], "usage": {"total_tokens": len(text)}}
    if request.streams:
        shown = sum(len(chunk.text) for chunk in deliver.chunks)  # what is held back, and half a character, come with the finish
        chunks = (*deliver.chunks, Chunk(reply.text[shown:], finish_reason=finish), Chunk("", has_usage=True))
        body = None
    return Answer(request.id, 200, "", body, reply, chunks, bool(chunks), line, counts, rounds)


def answer_plan(plan: Plan, script: Script, faults: Iterable[Fault] = (), *, arms: Sequence[str] = ()) -> Run:
    """Answer a whole plan; faults are planted on the named arms, on all where none is named."""
    recordings = []
    for start in plan.starts:
        planted = frozenset(faults) if not arms or start.arm in arms else frozenset()
        answers = tuple(answer(script, start, request, number, planted) for number, request in enumerate(start.requests, 1))
        device = DECLARED.arms[start.arm].device
        recordings.append(Recording("ideal", start, answers, trace_of(start, answers), ("[ready] port=1",), None, device=device))
    control = Trace(traced=True, events=tuple(seen_of(path) for path in DECOYS), num_opens=9)
    return with_expectations(Run(plan, "ideal", DECLARED, tuple(recordings), control, DECOYS), script)


def trace_of(start: Start, answers: Iterable[Answer]) -> Trace:
    """Return what a tracer sees of a right engine: its weights, and on a device one open and each pass."""
    opened = ("/cache/tiny/model.q4nx", *(("/cache/mixed/model.safetensors",) if start.pack else ()))
    events: list[DeviceEvent] = []
    if start.arm in DECLARED.arms and DECLARED.arms[start.arm].device:
        prompts = {request.id: len(request.prompt_ids) for request in start.requests}
        events = [DeviceEvent("openat", ACCEL, 8, "7"), submit()]
        for one in answers:
            assert one.counts is not None
            num_chunks = (prompts[one.request_id] + DEVICE_WIDTH - 1) // DEVICE_WIDTH
            events += [submit(one.request_id)] * (num_chunks + one.counts.rounds + one.counts.plain)
    return Trace(traced=True, events=tuple(events), opened=opened, num_opens=40)


def submit(request_id: str = "", path: str = ACCEL) -> DeviceEvent:
    return DeviceEvent("ioctl", path, 9, "-1 ENOTTY", request_id)


def seen_of(path: str) -> DeviceEvent:
    return DeviceEvent(call=path.rsplit("-", 1)[-1], path=path, tid=7, result="3")


def altered(run: Run, start_id: str, request_id: str, **changes: Any) -> Run:
    """Return the run with fields of one answer changed; `counts` and `usage_counts` may be given as dicts of fields."""
    recordings = []
    for recording in run.recordings:
        answers = recording.answers
        if recording.start.id == start_id:
            assert any(one.request_id == request_id for one in answers), f"{start_id} was never asked {request_id}"
            answers = tuple(_changed(one, changes) if one.request_id == request_id else one for one in answers)
        recordings.append(msgspec.structs.replace(recording, answers=answers))
    return msgspec.structs.replace(run, recordings=tuple(recordings))


def _changed(one: Answer, changes: dict[str, Any]) -> Answer:
    fields = {}
    for name, value in changes.items():
        nested = isinstance(value, dict) and name in {"reply", "counts", "usage_counts"}
        fields[name] = msgspec.structs.replace(getattr(one, name), **value) if nested else value
    return msgspec.structs.replace(one, **fields)


@functools.cache
def fixture() -> Fixture:
    """Return a fixture of the shipped recipe's streams and companions, with directories that nobody opens."""
    recipe = read_recipe(RECIPES / "tiny.toml")
    companions = tuple(_fabricated(read_recipe(RECIPES / name)) for name in recipe.companions)
    return msgspec.structs.replace(_fabricated(recipe), companions=companions)


def _fabricated(recipe: Recipe) -> Fixture:
    streams = make_streams(recipe.streams, recipe.prompt_length, recipe.reply_length, recipe.head.ties)
    packs = [pack.name for pack in recipe.all_packs]
    directories = {name: f"/cache/{name}" for name in packs}
    return Fixture(f"{recipe.name}@test", f"/cache/{recipe.name}", directories, streams, 256, dict.fromkeys(packs, PACK_K + 1))


def all_streams() -> tuple[Stream, ...]:
    """Return the fixture's streams and those of its companions."""
    return tuple(stream for one in (fixture(), *fixture().companions) for stream in one.streams)
