"""Everything that one start of a subject answered: replies, chunks, counts, log lines, device events, how it ended.

JSON in and out; it can be judged again without the subject. Nothing here interprets an answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.records.expectation import Expectations
from harness.records.known import KnownFault
from harness.records.plan import Plan, Start

REAL_DEVICE = "the machine's own"  # how the fact of a device begins that is no stand-in


class Counts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a subject says of one request's path: its `[spec]` line, `usage.spec`, fields of the answer, differences of its metrics.

    None: this witness does not say it; which ones a subject has at all is fixed by its dialect, never by one answer.
    """

    path: str  # spec or plain; of a witness that does not name it: spec where something was drafted
    drafter: str | None  # none, lookup, dflash, ...
    rounds: int | None
    drafted: int
    accepted: int
    plain: int | None
    tokens: int
    cached: int | None
    fallback: int | None  # records made when the fallback rule threw; None = it did not, or there is no such rule
    reason: str | None  # "-" when there is nothing to say

    @property
    def num_passes(self) -> int | None:
        """Rounds and plain steps together; None where one of them is not told."""
        return None if self.rounds is None or self.plain is None else self.rounds + self.plain


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One verify round: the ids proposed, and how many of them were accepted and delivered."""

    drafted_ids: tuple[int, ...]
    num_accepted: int


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The generated choice of one answer, whatever the dialect it came in."""

    response_id: str
    text: str
    ids: tuple[int, ...] | None  # None: the surface does not return ids
    finish_reason: str | None
    stop_reason: str | int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None = None
    logprobs: Any = None


class Chunk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server-sent event of a streamed answer."""

    text: str
    ids: tuple[int, ...] = ()
    finish_reason: str | None = None
    has_usage: bool = False


class Dump(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of logits that a subject left for one answer: a row for each counted token, the one that chose it."""

    sha256: str  # of the whole file
    dtype: str  # as numpy spells it: "<f4"
    shape: tuple[int, ...]
    content: bytes  # the values in the file's order


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What came back for one request. `status` None = unanswered; `failure` then says why (deadline, reset, left)."""

    request_id: str
    status: int | None
    failure: str = ""
    body: Any = None  # the JSON as received, where it was not a stream
    reply: Reply | None = None
    chunks: tuple[Chunk, ...] = ()
    saw_done: bool = False  # a stream ended with its closing event
    counts: Counts | None = None  # first witness: the log line
    usage_counts: Counts | None = None  # second witness: the response
    rounds: tuple[Round, ...] | None = None
    dump: Dump | None = None  # where the arm leaves one
    seconds: float = 0.0


class DeviceEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One system call that named a watched path, or that could hide one; failed attempts count too."""

    call: str  # open, openat, openat2, open_by_handle_at, io_uring_setup, ioctl
    path: str
    tid: int
    result: str  # as strace prints it: "3", "-1 ENOENT"
    request_id: str = ""  # bracketed by this request, where that is known
    by_child: bool = False  # not by the subject's own process: by one that it started, or of unseen origin


class Trace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the tracer saw of one process tree, and whether it could see."""

    traced: bool  # False: tracing was switched off by hand
    blind: tuple[str, ...] = ()  # why nothing that it says can be believed
    events: tuple[DeviceEvent, ...] = ()
    opened: tuple[str, ...] = ()  # every path opened with success that holds a model, a pack or a device (no libraries)
    num_opens: int = 0  # all opens seen: proof that it looked


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One start, answered."""

    subject: str
    start: Start
    answers: tuple[Answer, ...]
    trace: Trace
    log: tuple[str, ...]  # the subject's stderr, line by line
    exit_status: int | None  # None: ended by us after it was asked all; negative: the signal that killed it before
    failure: str = ""  # never ready, died, ...: one message with its last lines
    ready_line: str = ""
    device: str = ""  # the path that the subject was told to open; "" on a host arm
    facts: dict[str, str] = {}  # versions and settings worth keeping beside the figures
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss_mib: float = 0.0

    def answer(self, request_id: str) -> Answer | None:
        """Return the answer to this request, or None if it was never asked."""
        for answer in self.answers:
            if answer.request_id == request_id:
                return answer
        return None


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole run: the plan, what the subject's description declares, and a recording per start."""

    plan: Plan
    subject: str
    declared: Declared
    recordings: tuple[Recording, ...]
    tracer_control: Trace | None = None  # what the tracer saw of the decoys
    decoys: tuple[str, ...] = ()  # the watched paths that the decoys open, one for each way of opening
    losses: tuple[str, ...] = ()  # protections that this machine does not allow
    expectations: Expectations | None = None  # what the oracle computed from the files of this plan's models and packs
    remembers: bool = False  # all of them had been computed from these files before
    seconds: float = 0.0


class ArmFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a description says of one arm."""

    drafter: str = "none"  # none, lookup, dflash, ...: as it stands in the subject's own counts
    oracle: str = ""  # which predictor knows its path: "lookup-321", "dflash"; "" = counts not predicted
    expect: str = "engaged"  # or "not-engaged"
    device: str = ""  # the node that the arm opens and submits to; "" = it runs on the host
    width: int = 0  # rows of one pass on this arm; 0 = the subject's
    prefix_cache: bool = False  # it resumes from what the request before left
    dumps_logits: bool = False  # it leaves the rows that chose each token in a file, and so decodes plainly
    remembers: bool = False  # its drafter learns from earlier requests, so that paths depend on what came before
    samples_alike: bool = True  # a seeded sampled reply is the plain arm's; else drafting takes other random numbers

    @property
    def has_memory(self) -> bool:
        """Whether a request's path depends on the requests before it."""
        return self.prefix_cache or self.remembers


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The part of a subject's description that judging needs; it travels with the recordings."""

    arms: dict[str, ArmFacts]
    vocab_bound: int = 256  # ids from here on may never be chosen
    width: int = 16  # rows of one verify pass
    reports_rounds: bool = True
    returns_ids: bool = True
    watched_paths: tuple[str, ...] = ("/dev/accel*", "*amdxdna*")
    reports_path: bool = True  # it names path, reason, rounds and plain steps of each request; else drafted and accepted alone
    reports_counts: bool = True  # it says what each request drafted and accepted
    seconds_counts: bool = True  # a second witness of these counts says so too
    drafted: str = "proposed"  # what its count of drafts holds: proposed, width-times-rounds, padded, grammar-valid
    silent: tuple[str, ...] = ()  # fields of a reply that its answers do not say, or without meaning them: finish_reason, ...
    first_token_outside: bool = False  # the first token of a reply comes from prefill, before any round
    names_refusals: bool = True  # a refusal names the field that is wrong (`param`), and a refused start exits 2 with one line
    reserves_token: bool = (
        False  # a draft leaves room for one token of the base's own: no reply ends by its budget inside a block
    )
    caps_at_budget: bool = True  # no draft runs over the budget; else accepted drafts behind it are counted
    trims_at_stop: bool = True  # accepted drafts behind a stop or an end token are not counted
    exact_scores: bool = True  # logprobs are equal bit for bit whatever the batch; else within a band
    most_opens: int = 1  # how often one file of weights is opened
    never_equal: tuple[str, ...] = ()  # keys of an answer's body that differ each time, beside ids and times
    capabilities: dict[str, dict[str, str]] = {}  # drafter -> capability -> behaviour
    known_faults: tuple[KnownFault, ...] = ()
    certified: bool = True  # replies that differ are faults; else the classifier tells near-ties from them
    near_tie_budget: int = 0  # how many near-ties a run may have

    def facts_of(self, start: Start) -> ArmFacts:
        """Return the facts of a start: its arm's, without a drafter where it may draft 0 tokens. KeyError as `width_of`."""
        facts = self.arms[start.arm]
        return facts if start.parameters.get("k") != 0 else msgspec.structs.replace(facts, drafter="none", oracle="")

    def width_of(self, arm: str) -> int:
        """Rows of one pass on an arm. KeyError for an arm that is not declared."""
        return self.arms[arm].width or self.width
