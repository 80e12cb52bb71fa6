"""The tables of a description, key by key: launch lines, arms, what is asked and read and where, what a machine needs.

They are values as they stand in the file. What goes with what is checked where the file is read (description.py).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from harness.records.recording import Declared
from harness.subjects.declarations import (
    AcceptedAtStop,
    BudgetCap,
    Dialect,
    DraftedMeans,
    FirstToken,
    IgnoreEos,
    LogStreams,
    NoDraft,
    Silent,
)

NonNegative = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: its keys are exactly these."""


class Launch(Strict, frozen=True):
    """The command line that all arms share. Options appear only when the start gives their parameter."""

    command: tuple[str, ...]
    bit_comparable: tuple[str, ...] = ()  # words that make equal requests equal to the bit, whatever the batch
    options: dict[str, tuple[str, ...]] = {}
    hands_over_socket: bool = False  # it takes a listening socket as descriptor 3 (LISTEN_FDS, LISTEN_PID)
    needs_port: bool = False  # it cannot pick one itself, or does not say which: {port} is a free one
    is_wrapper: bool = False  # the command only starts the engine, whose own process is its child


class Arm(Strict, frozen=True):
    """One way of starting the subject, and what is known of it."""

    least_k: NonNegative = 0  # a start that allows fewer drafts is none of this arm's
    role: str = ""  # which arm of a plan it plays: plain, lookup, draft, ...; "" = the one of its own name
    flags: tuple[str, ...] = ()
    options: dict[str, tuple[str, ...]] = {}
    drafter: str = "none"
    oracle: str = ""
    expect: str = "engaged"
    device: str = ""  # a device node that this arm opens; made for the subject alone
    real_device: bool = False  # it is the machine's own, and none is made
    width: NonNegative = 0  # rows of one pass on this arm; 0 = limits.width
    prefix_cache: bool = False  # it resumes from what the request before left
    dump: str = ""  # the file of logits that it leaves for each answer, in its scratch folder: "{id}.npy"
    remembers: bool = False  # its drafter learns from earlier requests
    samples_alike: bool = True  # a seeded sampled reply is the plain arm's


class Environment(Strict, frozen=True):
    """The subject's whole environment: these names as they stand in ours, then these values."""

    allow: tuple[str, ...] = ()  # passed where they are set
    values: dict[str, str] = {}


class Source(Strict, frozen=True):
    """The tree that a mutant may edit. `root` is relative to the description's file."""

    root: str
    packages: tuple[str, ...]


class Warm(Strict, frozen=True):
    """How a warm parent makes it: the module to run as `python -m` would, and what to import beforehand."""

    module: str
    preload: tuple[str, ...] = ()


class Ready(Strict, frozen=True):
    """How it says that it serves: a log line with a group `port` where it picks one, then a path that answers 200."""

    probe: str
    line: str = ""  # "": there is none, and the path is asked until it answers 200
    timeout_s: Seconds = 20.0
    log: LogStreams = LogStreams.STDERR


class Speech(Strict, frozen=True):
    """Endpoints and field names of the dialect. An empty field name: the surface has no such field."""

    name: Dialect = Dialect.OPENAI
    completions: str = "/v1/completions"
    chat: str = "/v1/chat/completions"
    ids_field: str = "token_ids"  # of a choice
    stop_reason_field: str = "stop_reason"  # of a choice
    cached_field: str = "cached_tokens"  # of usage.prompt_tokens_details
    closes_after_stream: bool = False  # it closes the connection behind a stream, without a word
    ignore_eos: IgnoreEos = IgnoreEos.GOES_ON
    names_refusals: bool = True  # a refusal names the field that is wrong (`param`)
    exact_scores: bool = True  # logprobs are equal bit for bit whatever the batch
    never_equal: tuple[str, ...] = ()  # keys of a body that differ each time, beside ids and times
    counts_end_token: bool = False  # an end token is the last of the ids, and in the count of tokens
    adds: dict[str, Any] = {}  # fields put into each body
    leaves_out: tuple[str, ...] = ()  # fields that it would refuse, where they ask for nothing
    most_stops: NonNegative = 0  # as many stop strings does it take; 0 = any number
    silent: tuple[Silent, ...] = ()  # what an answer does not say, or says without meaning it


class MetricsSource(Strict, frozen=True):
    """Counters of the whole process that grow with each request. An empty name: it has no such counter."""

    path: str
    drafted: str
    accepted: str
    tokens: str = ""
    rounds: str = ""
    cached: str = ""
    busy: str = ""  # a gauge: how many requests it works on, 0 when the counters stand still

    @property
    def names(self) -> tuple[str, ...]:
        """The counters that are read."""
        return tuple(name for name in (self.drafted, self.accepted, self.tokens, self.rounds, self.cached, self.busy) if name)


class AnswerCounts(Strict, frozen=True):
    """Where an answer's body, or the last event of its stream that has usage, says what was drafted: keys joined by dots.

    An empty name: it does not say it.
    """

    drafted: str
    accepted: str
    rounds: str = ""
    per_round: str = ""  # a list of [drafted ids, accepted]


class CountsSource(Strict, frozen=True):
    """Where a subject says which path a request took. An empty name: it does not say it there."""

    line_prefix: str = ""  # a log line "<prefix> id=... key=value ..."
    usage_field: str = ""  # an object under `usage`
    rounds_field: str = ""  # in that object: a list of [drafted ids, accepted]
    fields: AnswerCounts | None = None  # single counts of the answer, wherever they stand
    metrics: MetricsSource | None = None  # counters of the process; they speak for requests that are sent alone
    wait_s: Seconds = 0.2  # bound for a line that should be there already
    cancelled_wait_s: Seconds = 5.0  # bound for the line of a request whose client left


class Accounting(Strict, frozen=True):
    """The accounting variant: what each count means on this subject."""

    accepted_at_stop: AcceptedAtStop
    drafted: DraftedMeans
    no_draft: NoDraft
    budget_cap: BudgetCap
    first_token: FirstToken


class Tracing(Strict, frozen=True):
    """What the tracer watches: shell patterns over absolute paths."""

    watched_paths: tuple[str, ...] = Declared({}).watched_paths
    most_opens: int = 1  # how often it opens one file of weights


class Limits(Strict, frozen=True):
    """Sizes that judging needs."""

    vocab_bound: NonNegative = 256  # of the default fixture; ids from here on may never be chosen
    width: NonNegative = 16  # rows of one verify pass


class Requirements(Strict, frozen=True):
    """What must be on the machine before the subject can be started."""

    modules: tuple[str, ...] = ()  # importable by the harness's own Python
    programs: tuple[str, ...] = ()  # on PATH
    devices: tuple[str, ...] = ()  # paths that must be there; shell patterns
    memory_mib: NonNegative = 0  # free, of one arm
    disk_mib: NonNegative = 0  # free where fixtures are kept
    hint: str = ""  # what to do where one is missing


class Fixtures(Strict, frozen=True):
    """Which fabricated files it takes in place of containers and DFlash packs."""

    format: str = ""  # suffix of every model's name: "gguf"; "" = the container itself
    packs: dict[str, str] | None = None  # pack that a plan names -> what the subject is given; None = packs as they are
