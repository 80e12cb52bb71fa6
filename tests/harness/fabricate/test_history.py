"""Faults in the cache against a decode loop that really keeps one, row by row and step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.fabricate.errors import FabricationError
from harness.fabricate.history import Cache, Fault, certify_history, positions_of
from harness.fabricate.recipe import read_recipe
from harness.fabricate.shape import EMBEDDING, LM_HEAD
from harness.fabricate.teacher import Teacher
from harness.records.fixture import Fixture

PROMPT, REPLY = 16, 16
TOTAL = PROMPT + REPLY - 1
Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def teacher(small: Fixture, small_path: Path) -> Teacher:
    return Teacher.read(Path(small.model), read_recipe(small_path).model, small.streams)


@pytest.fixture(scope="module")
def cache(teacher: Teacher) -> Cache:
    return Cache(teacher)


def norm(x: Array, weight: Array) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * weight)


def turn(x: Array, position: int) -> Array:
    pairs = (x[:64] + 1j * x[64:]) * np.exp(1j * position / 1e6 ** (np.arange(64) / 64))
    return np.concatenate([pairs.real, pairs.imag])


class Slow:
    """One stream's cache: for each layer a list of (unturned key, value, position, weight), changed between steps."""

    def __init__(self, teacher: Teacher) -> None:
        self.weights = teacher.weights
        self.rows: list[list[list[Any]]] = [[] for _ in range(3)]
        self.rejected: dict[int, list[Any]] = {}

    def step(self, token: int, position: int, *, keep: bool = True, ahead: int = 0) -> int:
        """Run one token behind what is cached; return the token that follows. Its key is turned `ahead` positions too far."""
        x = self.weights[EMBEDDING][token]
        for layer in range(3):
            at = f"model.layers.{layer}."
            y = norm(x, self.weights[f"{at}input_layernorm.weight"])
            key = norm(self.weights[f"{at}self_attn.k_proj.weight"] @ y, self.weights[f"{at}self_attn.k_norm.weight"])
            value = self.weights[f"{at}self_attn.v_proj.weight"] @ y
            rows = [*self.rows[layer], [key, value, position + ahead, 1.0]]
            mixed = []
            for head in range(2):
                query = self.weights[f"{at}self_attn.q_proj.weight"][head * 128 : head * 128 + 128] @ y
                query = turn(norm(query, self.weights[f"{at}self_attn.q_norm.weight"]), position)
                scores = np.array([query @ turn(row[0], row[2]) / np.sqrt(128) for row in rows])
                shares = np.exp(scores - scores.max()) * np.array([row[3] for row in rows])
                mixed.append(shares @ np.array([row[1] for row in rows]) / shares.sum())
            x = x + self.weights[f"{at}self_attn.o_proj.weight"] @ np.concatenate(mixed)
            y = norm(x, self.weights[f"{at}post_attention_layernorm.weight"])
            gate, up = (self.weights[f"{at}mlp.{name}_proj.weight"] @ y for name in ("gate", "up"))
            x = x + self.weights[f"{at}mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)
            if keep:
                self.rows[layer] = rows
            else:
                self.rejected[layer] = [key, value, position, 1.0]
        return int((self.weights[LM_HEAD][:256] @ norm(x, self.weights["model.norm.weight"])).argmax())


def scores_before(teacher: Teacher, stream: int, position: int) -> Array:
    """Return the scores that decide the token at a position, in an exact run."""
    states = teacher.script.run(teacher.weights, teacher.shape).final[stream, position - 1]
    return np.asarray(teacher.head[:256] @ states)


def rejected_token(teacher: Teacher, stream: int, position: int) -> int:
    ids = [*teacher.script.prompts[stream], *teacher.script.replies[stream]]
    scores = scores_before(teacher, stream, position)
    scores[ids[position]] = -np.inf
    return int(scores.argmax())


def slow_visible(teacher: Teacher, fault: Fault, stream: int, position: int) -> bool:
    """Decode one stream with one row spoilt as soon as a step behind it runs, and say whether any token changes."""
    ids = [int(one) for one in (*teacher.script.prompts[stream], *teacher.script.replies[stream])]
    neighbour = [int(one) for one in teacher.script.inputs[(stream + 1) % 2]]
    slow, says, spoilt = Slow(teacher), [], False
    last = position + 1 if fault is Fault.SWAP else position
    for place in range(TOTAL):
        if place == position and fault in (Fault.STALE, Fault.KEPT):
            if place < PROMPT:
                other = Slow(teacher)
                for at in range(place + 1):
                    other.step(neighbour[at], at)
                slow.rejected = {layer: other.rows[layer][place] for layer in range(3)}
            else:
                slow.step(rejected_token(teacher, stream, place), place, keep=False)
        if place >= PROMPT and place > last and not spoilt:
            spoil(slow, fault, position)
            spoilt = True
        says.append(slow.step(ids[place], place, ahead=int(spoilt and fault is Fault.SHIFT_ALL)))
    return says[PROMPT:] != ids[PROMPT + 1 :]


def spoil(slow: Slow, fault: Fault, position: int) -> None:
    for layer, rows in enumerate(slow.rows):
        row = rows[position]
        if fault is Fault.DROP:
            row[3] = 0.0
        elif fault is Fault.DOUBLE:
            row[3] = 2.0
        elif fault is Fault.SWAP:
            following = rows[position + 1]
            row[:2], following[:2] = following[:2], row[:2]
        elif fault is Fault.SHIFT:
            row[2] = position + 1
        elif fault is Fault.SHIFT_ALL:
            for later in rows[position:]:
                later[2] += 1
        elif fault is Fault.STALE:
            row[:2] = slow.rejected[layer][:2]
        elif fault is Fault.KEPT:
            rows.append(slow.rejected[layer])


def test_the_slow_loop_says_the_stream_when_nothing_is_spoilt(teacher: Teacher) -> None:
    slow = Slow(teacher)
    ids = [int(one) for one in (*teacher.script.prompts[0], *teacher.script.replies[0])]
    says = [slow.step(token, place) for place, token in enumerate(ids[:-1])]
    assert says[PROMPT - 1 :] == ids[PROMPT:]


@pytest.mark.parametrize("fault", list(Fault), ids=lambda one: one.value)
def test_a_fault_shows_exactly_where_a_loop_with_a_spoilt_cache_says_another_token(
    teacher: Teacher, cache: Cache, fault: Fault
) -> None:
    positions = np.array([one for one in (3, 15, 16, 20, 27) if one in positions_of(fault, PROMPT, TOTAL)])
    for stream in (0, 1):
        got = cache.visible(fault, stream, positions).tolist()
        assert got == [slow_visible(teacher, fault, stream, int(at)) for at in positions]


def test_some_faults_show_and_some_do_not(cache: Cache) -> None:
    shows = [cache.visible(fault, 0, positions_of(fault, PROMPT, TOTAL)) for fault in Fault]
    everything = np.concatenate(shows)
    assert 0.2 < everything.mean() < 1


def test_faults_are_planted_where_a_later_query_reads(cache: Cache) -> None:
    assert positions_of(Fault.DROP, PROMPT, TOTAL).tolist() == list(range(TOTAL - 1))
    assert positions_of(Fault.SWAP, PROMPT, TOTAL).tolist() == list(range(TOTAL - 2))
    assert positions_of(Fault.KEPT, PROMPT, TOTAL).tolist() == list(range(PROMPT, TOTAL - 1))


def test_a_certificate_lists_what_does_not_show_and_a_bound_above_it_is_refused(small: Fixture, teacher: Teacher) -> None:
    certificate = certify_history(teacher, small.streams, 0.1)
    num_unseen = sum(map(len, certificate.unseen.values()))
    assert num_unseen > 0
    assert certificate.share == pytest.approx(1 - num_unseen / certificate.pairs)
    with pytest.raises(FabricationError, match=r"container: 0\.\d+ of the faults in its history show \(drop .*\), want 1"):
        certify_history(teacher, small.streams, 1.0)
