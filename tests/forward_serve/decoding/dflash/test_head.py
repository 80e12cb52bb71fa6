"""The draft head's contract with the loop: what it drafts from, when it refuses, and what a request starts with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forward_serve.decoding.dflash import DFlashHead, DFlashPack, open_pack
from forward_serve.decoding.dflash.trunk import visible_keys
from forward_serve.decoding.interfaces import Rows
from forward_serve.decoding.loop import Options, run
from forward_serve.decoding.silence import Silence
from forward_serve.errors import Refusal
from tests.forward_serve.decoding.dflash.conftest import SECOND
from tests.forward_serve.decoding.dflash.session import PROMPT
from tests.forward_serve.decoding.dflash.stand_ins import Sink, TappedBase, Target


@pytest.fixture(params=[{}, SECOND], ids=["first", "second"])
def plain_pack(request: pytest.FixtureRequest, write_pack: Any) -> tuple[DFlashPack, Target, Sink]:
    directory, config, _ = write_pack(request.param)
    return open_pack(directory), Target(config), Sink(config)


def begun(pack: DFlashPack, target: Target, sink: Sink, num_rows: int = len(PROMPT)) -> DFlashHead:
    head = DFlashHead(pack, target, sink)
    head.begin(PROMPT)
    sink.run([*PROMPT, PROMPT[0]][:num_rows])
    return head


def test_drafts_do_not_depend_on_how_many_are_asked_for(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    head = begun(pack, target, sink)
    most = head.propose(7, len(PROMPT), 5, None)
    assert [head.propose(7, len(PROMPT), num, None) for num in (1, 2, 3, 4, 5)] == [most[:num] for num in (1, 2, 3, 4, 5)]
    assert target.embedded == [[7, 29, 29, 29, 29, 29]] * 6
    assert len(most) == 5


@pytest.mark.parametrize("num_rows", [0, len(PROMPT) - 1, len(PROMPT) + 1])
def test_taps_that_do_not_account_for_every_position_are_no_taps_and_cost_nothing(
    plain_pack: tuple[DFlashPack, Target, Sink], num_rows: int
) -> None:
    pack, target, sink = plain_pack
    head = begun(pack, target, sink, num_rows)
    assert (head.propose(7, len(PROMPT), 5, None), head.last_word) == ([], Silence.NO_TAPS)
    assert (head.pays, target.embedded) == (False, [])


def test_position_that_went_back_behind_the_context_is_no_taps(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    head = begun(pack, target, sink)
    head.propose(7, len(PROMPT), 5, None)
    sink.truncate(4)
    assert (head.propose(7, 4, 5, None), head.last_word) == ([], Silence.NO_TAPS)


def test_a_proposal_pays_and_has_no_last_word(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    head = begun(pack, target, sink)
    head.propose(7, 3, 5, None)
    head.propose(7, len(PROMPT), 5, None)
    assert (head.pays, head.last_word) == (True, "")


def test_beginning_forgets_the_context_and_the_taps_of_whatever_ran_before(
    plain_pack: tuple[DFlashPack, Target, Sink],
) -> None:
    pack, target, sink = plain_pack
    want = begun(pack, target, sink).propose(7, len(PROMPT), 5, None)
    sink.clear()
    sink.run([1, 1, 2])  # a warm-up
    head = DFlashHead(pack, target, sink)
    head.propose(9, 3, 5, None)
    head.begin(PROMPT)
    assert len(sink) == 0
    sink.run(PROMPT)
    assert head.propose(7, len(PROMPT), 5, None) == want


def test_head_refuses_a_target_that_the_pack_was_not_made_for(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    target.config.vocab_size = 33
    with pytest.raises(Refusal, match="vocab_size=32 is not the target's 33"):
        DFlashHead(pack, target, sink)


def test_request_without_taps_for_its_first_positions_decodes_with_plain_steps(
    plain_pack: tuple[DFlashPack, Target, Sink],
) -> None:
    pack, target, sink = plain_pack
    reply = [10, 11, 12, 13, 14]

    class ForgetfulHead(DFlashHead):
        def propose(self, t1: int, position: int, max_drafts: int, hidden: Rows | None) -> list[int]:
            return super().propose(t1, position + 2, max_drafts, hidden)

    options = Options(k=5, max_tokens=5, fallback_below=2.0, fallback_window=1)
    stats = run(TappedBase(list(PROMPT), reply, sink), ForgetfulHead(pack, target, sink), PROMPT, options)
    assert (stats.plain_steps, stats.drafted, stats.silence, stats.fell_back_at) == (5, 0, Silence.NO_TAPS, None)


@pytest.mark.parametrize("window", [None, 1, 3, 9])
@pytest.mark.parametrize("causal", [False, True])
def test_visible_keys_follow_the_rule_of_window_and_causality(window: int | None, causal: bool) -> None:
    start, first, stop = 5, 2, 9
    visible = visible_keys(start, first, stop, window, causal)
    want = [
        [(not causal or key <= slot) and (window is None or abs(slot - key) < window) for key in range(first, stop)]
        for slot in range(start, stop)
    ]
    got = np.ones((4, 7), np.bool_) if visible is None else visible
    assert got.tolist() == want
