"""The rows of a pass are the arm's: a device with fewer rows than the host drafts less."""

from __future__ import annotations

import msgspec
import pytest

from harness.oracle.predict import predict
from harness.records.plan import Request, Start
from harness.records.recording import Answer, ArmFacts, Declared, Reply

PROMPT = tuple(range(12)) * 2
SAID = tuple(range(12)) * 2
DECLARED = Declared({"npu-lookup": ArmFacts("lookup", "lookup-321", device="/dev/accel/accel0", width=8)}, width=16)
START = Start(id="npu/lookup", arm="npu-lookup", model="tiny", requests=(), parameters={"k": 15})
REQUEST = Request(id="r", checks=(), body={"prompt": "x", "max_tokens": 24, "temperature": 0}, prompt_ids=PROMPT)
PLAIN = Answer("r", 200, reply=Reply("cmpl-1", "", SAID, "length", None, len(PROMPT), len(SAID)))


@pytest.mark.parametrize(("width", "widest"), [(8, 7), (4, 3), (0, 12)])  # 12: what there is to copy
def test_a_lookup_round_on_an_arm_has_one_draft_less_than_its_rows(width: int, widest: int) -> None:
    arms = {name: msgspec.structs.replace(facts, width=width) for name, facts in DECLARED.arms.items()}
    got = predict(START, REQUEST, PLAIN, msgspec.structs.replace(DECLARED, arms=arms))
    assert got is not None
    assert got.rounds is not None
    assert max(len(one.drafted_ids) for one in got.rounds) == widest


def test_a_width_of_0_is_the_subject_s_own() -> None:
    assert msgspec.structs.replace(DECLARED, arms={"npu-lookup": ArmFacts()}).width_of("npu-lookup") == 16
    assert DECLARED.width_of("npu-lookup") == 8
