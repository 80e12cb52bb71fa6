"""The starts that slices share. Knows arm names and parameters, not how a subject is launched."""

from __future__ import annotations

from harness.records.plan import Start

MODEL = "tiny"

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
DEVICE = (NPU_PLAIN, NPU_LOOKUP, NPU_DRAFT)


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
    """Return a draft start with a process of its own, `<name>/draft`; parameter `draft_k` limits its drafts."""
    return Start(
        id=f"{name}/draft",
        arm="draft",
        model=model,
        requests=(),
        pack=pack,
        parameters=parameters,
        reference=reference,
    )
