"""The starts that slices share. Knows arm names and parameters, not how a subject is launched."""

from __future__ import annotations

from types import MappingProxyType

from harness.records.plan import Start

MODEL = "tiny"
ALWAYS, NEVER = "always", "never"  # packs whose drafts all land, and land never
ARM_OF_PACK = MappingProxyType({"mixed2": "draft-2", "flip2": "draft-2", "twin2": "draft-2", "window1": "draft-sliding"})
IDENTITIES = MappingProxyType(
    {"twin2": "draft"}
)  # pack of generation 2 -> the start with the pack of generation 1 that it equals

PLAIN = Start(id="plain", arm="plain", model=MODEL, requests=())
LOOKUP = Start(id="lookup", arm="lookup", model=MODEL, requests=(), parameters={"k": 4}, reference="plain")
DRAFT = Start(id="draft", arm="draft", model=MODEL, requests=(), pack="mixed", reference="plain")
MAIN = (PLAIN, LOOKUP, DRAFT)

NPU_PLAIN = Start(id="npu/plain", arm="npu", model=MODEL, requests=(), host="plain")
NPU_LOOKUP = Start(
    id="npu/lookup",
    arm="npu-lookup",
    model=MODEL,
    requests=(),
    parameters={"k": 15},  # more than the rows of a device pass leave room for
    reference="npu/plain",
    host="plain",
)
NPU_DRAFT = Start(id="npu/draft", arm="npu-draft", model=MODEL, requests=(), pack="mixed", reference="npu/plain", host="plain")
NPU_DRAFT_2 = Start(
    id="npu/draft-2", arm="npu-draft-2", model=MODEL, requests=(), pack="mixed2", reference="npu/plain", host="plain"
)
DEVICE = (NPU_PLAIN, NPU_LOOKUP, NPU_DRAFT)

FAIL_PASS = 40  # beyond a probe of 16 prompt tokens and 24 of reply, whatever its path; within a reply of 400
CACHED_PLAIN = Start(
    id="cached/plain", arm="cached", model=MODEL, requests=(), parameters={"fail_pass": FAIL_PASS}, reference="plain"
)
CACHED_LOOKUP = Start(
    id="cached/lookup",
    arm="cached-lookup",
    model=MODEL,
    requests=(),
    parameters={"k": 4, "fail_pass": FAIL_PASS},
    reference="plain",
)
CACHED_DRAFT = Start(
    id="cached/draft",
    arm="cached-draft",
    model=MODEL,
    requests=(),
    pack="mixed",
    parameters={"fail_pass": FAIL_PASS},
    reference="plain",
)
CACHED_DRAFT_2 = Start(id="cached/draft-2", arm="cached-draft-2", model=MODEL, requests=(), pack="mixed2", reference="plain")
CACHED = (CACHED_PLAIN, CACHED_LOOKUP, CACHED_DRAFT)

DUMP_PLAIN = Start(id="dump/plain", arm="dump", model=MODEL, requests=(), reference="plain")
DUMP_LOOKUP = Start(id="dump/lookup", arm="dump-lookup", model=MODEL, requests=(), parameters={"k": 4}, reference="dump/plain")
DUMP_DRAFT = Start(id="dump/draft", arm="dump-draft", model=MODEL, requests=(), pack="mixed", reference="dump/plain")
DUMP = (DUMP_PLAIN, DUMP_LOOKUP, DUMP_DRAFT)


def plain(name: str, model: str = MODEL, **parameters: str | int | float) -> Start:
    """Return a plain start with a process of its own, `<name>/plain`."""
    return Start(id=f"{name}/plain", arm="plain", model=model, requests=(), parameters=parameters)


def lookup(name: str, k: int, model: str = MODEL, reference: str = "plain", **parameters: str | int | float) -> Start:
    """Return a lookup start with a process of its own, `<name>/lookup`, compared with `reference`."""
    return Start(
        id=f"{name}/lookup",
        arm="lookup",
        model=model,
        requests=(),
        parameters={"k": k, **parameters},
        reference=reference,
    )


def draft(name: str, pack: str = "mixed", model: str = MODEL, reference: str = "plain", **parameters: str | int | float) -> Start:
    """Return a draft start with a process of its own, `<name>/draft`, on the arm of its pack's kind.

    Parameter `draft_k` limits its drafts. One that an identity pack drafts for must draft as the pack that it equals.
    """
    return Start(
        id=f"{name}/draft",
        arm=ARM_OF_PACK.get(pack, "draft"),
        model=model,
        requests=(),
        pack=pack,
        parameters=parameters,
        reference=reference,
        drafts_as=None if parameters else IDENTITIES.get(pack),
    )


MIXED_2 = draft("mixed2", "mixed2")
FLIP_2 = draft("flip2", "flip2")
TWIN_2 = draft("twin2", "twin2")
WINDOW_1 = draft("window1", "window1")
OTHER_KINDS = (MIXED_2, FLIP_2, TWIN_2, WINDOW_1)  # of packs: generation 2, and sliding layers
ONE_OF_EACH_KIND = (MIXED_2, WINDOW_1)  # a start of each arm of theirs

FIVE_PLAIN = plain("five", "five")
FIVE_DRAFT = draft("five", "five:deep", "five", FIVE_PLAIN.id)
FIVE = (FIVE_PLAIN, FIVE_DRAFT)
TEXT_PLAIN = plain("text", "text")
TEXT_LOOKUP = lookup("text", 4, "text", TEXT_PLAIN.id)
TEXT = (TEXT_PLAIN, TEXT_LOOKUP)
TIE_PLAIN = plain("tie", "tie")
TIE_LOOKUP = lookup("tie", 4, "tie", TIE_PLAIN.id)
TIE = (TIE_PLAIN, TIE_LOOKUP)
