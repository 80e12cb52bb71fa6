"""What a run is going to do: which subjects it starts, and what it asks each of them, in order.

A plan is data. It is built once (harness/runs/plan.py), travels inside every recording, and is judged with it. It does not
know how a subject is launched (subjects/) nor what the answers mean (checks/).
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec


class Tier(enum.StrEnum):
    """How much of each check's slice is run."""

    MUTATION = "mutation"  # the smallest slice on which the check can fail
    GATE = "gate"  # before each merge, under 30 s
    DEEP = "deep"  # nightly


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One HTTP request. `id` is the same on every arm that is asked the same thing: answers are compared by it."""

    id: str
    checks: tuple[str, ...]  # the checks that read the answer
    body: dict[str, Any] | None = None  # JSON body; None for GET, or when `raw` is sent
    path: str = "/v1/completions"
    method: str = "POST"
    raw: str | None = None  # sent as it is (latin-1), for bodies that no JSON writer would write
    headers: dict[str, str] = {}
    role: str = ""  # what slices want of it, one word each: hit, miss, decoy, probe, cancel, fail, refused ...
    prompt_ids: tuple[int, ...] = ()  # the prompt after tokenization, for predictions; () when nothing is generated
    leave_after_chunks: int | None = None  # the client closes its connection after so many chunks
    deadline_s: float = 20.0
    expect: int = 200  # the status that it must be answered with
    refusal: str = ""  # what the answer to a refused one must name: its error's `param`; "" = the body as a whole
    group: str = ""  # requests of one group that follow each other are sent at once; "" = sent alone

    @property
    def roles(self) -> tuple[str, ...]:
        """The words of `role`: a request that several slices ask has the roles of all."""
        return tuple(self.role.split())

    @property
    def streams(self) -> bool:
        """Whether the answer is asked for as server-sent events."""
        return bool(self.body and self.body.get("stream"))

    @property
    def max_tokens(self) -> int:
        """The budget asked for; 16 where the body names none (the dialect's default), or none that is a number."""
        body = self.body or {}
        asked = body.get("max_tokens", body.get("max_completion_tokens"))
        return asked if isinstance(asked, int) else 16

    @property
    def is_greedy(self) -> bool:
        """Whether the body asks for greedy decoding; an absent temperature is 1.0."""
        return bool(self.body) and self.body.get("temperature", 1.0) == 0  # type: ignore[union-attr]


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One process of the subject and everything that it is asked, in order.

    `arm` names the launch line in the subject's description; `parameters` fill its placeholders (k, fallback_below,
    fallback_window, fail_pass); `model` and `pack` name fabricated directories.
    """

    id: str  # e.g. "lookup", "context-12/lookup"
    arm: str  # e.g. "plain", "lookup", "draft"
    model: str
    requests: tuple[Request, ...]
    pack: str | None = None
    parameters: dict[str, str | int | float] = {}
    reference: str | None = None  # the start whose answers this one must equal (a plain arm of the same model)
    host: str | None = None  # of a start on a device: the plain start on the host whose greedy ids it must equal
    drafts_as: str | None = None  # the start whose drafts this one's must equal: its pack says the same in other words
    expect: str = "ready"  # or "refused": the process must exit 2 and say why
    refusal: str = ""  # what a refused start must name in its one line (a regular expression)


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All starts of one run, in the order in which a single column would make them."""

    tier: Tier
    recipe: str  # name of the recipe and its content hash: "tiny@3f2a…"
    starts: tuple[Start, ...]
    checks: tuple[str, ...]  # what this plan lets be judged
    not_tested: dict[str, str] = {}  # what this subject cannot show, and why
    shuffle: int | None = None  # the seed of its requests' order and of its fresh cases; None: as the slices ask

    def start(self, start_id: str) -> Start:
        """Return the start of this name; KeyError if the plan has none."""
        for start in self.starts:
            if start.id == start_id:
                return start
        raise KeyError(start_id)
