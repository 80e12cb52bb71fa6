"""What the full tiny recipe promises, read from the files that it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.fabricate.certificate import Certificate
from harness.fabricate.drafter import DraftInputs, run_draft
from harness.fabricate.numerics import BF16, EXACT, FLOAT32, HARSH, Numerics
from harness.fabricate.pack import read_pack
from harness.fabricate.recipe import PackRecipe, Recipe
from harness.fabricate.shape import EMBEDDING
from harness.fabricate.teacher import Teacher
from harness.fabricate.transformer import forward
from harness.records.files import read_json
from harness.records.fixture import Fixture


@pytest.fixture(scope="module")
def certificate(tiny: Fixture) -> Certificate:
    return read_json(Path(tiny.model) / "certificate.json", Certificate)


def packs(recipe: Recipe) -> dict[str, PackRecipe]:
    return {pack.name: pack for pack in recipe.packs}


@pytest.mark.parametrize("numerics", [EXACT, FLOAT32, BF16, HARSH], ids=lambda one: one.name)
def test_the_container_says_every_stream_however_numbers_are_rounded(tiny_teacher: Teacher, numerics: Numerics) -> None:
    scores = tiny_teacher.scores(numerics)
    np.testing.assert_array_equal(scores[..., :256].argmax(axis=-1), tiny_teacher.script.replies)
    assert np.all(scores.argmax(axis=-1) >= 256)  # an argmax without the bound is wrong at every state


def test_the_certificate_holds_the_margins_that_make_zero_tolerance_fair(certificate: Certificate) -> None:
    model = certificate.model
    assert model.states == 264
    assert model.padded_share == 1.0
    assert model.smallest_gap.gap > 1.5
    assert model.movements["float32"].ratio > 1000
    assert model.movements["bf16"].ratio > 2
    assert sum(count >= 12 for count in model.distinct_tokens.values()) >= 8


@pytest.mark.parametrize("name", ["mixed", "always", "never"])
def test_each_pack_is_certified_for_every_slot_in_float32(certificate: Certificate, name: str) -> None:
    pack = certificate.packs[name]
    assert pack.movements["float32"].ratio > 1000
    assert pack.movements["bf16"].ratio > 2
    assert pack.any_slot_float32_ratio > 100
    assert pack.padded_share > 0.99


def test_mixed_covers_every_length_and_many_transitions_at_its_own_width_and_at_4(certificate: Certificate) -> None:
    mixed = certificate.packs["mixed"]
    assert min(mixed.rounds_by_length["7"]) >= 4
    assert min(mixed.rounds_by_length["4"]) >= 4
    assert mixed.transitions["7"] >= 40
    assert mixed.transitions["4"] == 25


def test_always_lands_everything_and_never_nothing(certificate: Certificate) -> None:
    for k in range(1, 8):
        rounds = certificate.packs["always"].rounds_by_length[str(k)]
        assert sum(rounds[:-1]) <= 11  # a whole round each time, but for the last one of a stream
        assert certificate.packs["never"].rounds_by_length[str(k)][1:] == [0] * k


def test_the_files_agree_on_context_and_end_tokens(tiny: Fixture) -> None:
    config, tokenizer = (json.loads((Path(tiny.model) / name).read_bytes()) for name in ("config.json", "tokenizer_config.json"))
    assert config["max_position_embeddings"] == 1024
    assert config["vocab_size"] == 288
    assert tiny.vocab_bound == 256
    assert config["eos_token_id"] == tokenizer["eos_token_id"] == [185, 187]


class Loop:
    """A greedy loop that really runs: prompt in, tokens out, one target pass and one block a round, nothing precomputed."""

    def __init__(self, teacher: Teacher, recipe: Recipe, pack: PackRecipe, directory: str) -> None:
        self.teacher, self.recipe, self.pack = teacher, recipe, pack
        self.weights = read_pack(Path(directory))

    def target(self, ids: list[int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the next token after every position, and the tap rows."""
        states = forward(self.teacher.weights, self.recipe.model, np.array([ids]))
        scores = self.teacher.head_scores(states.final)[0, :, :256]
        taps = np.concatenate([states.residuals[tap] for tap in self.pack.shape.taps], axis=-1)
        return scores.argmax(axis=1), taps

    def drafts(self, ids: list[int], taps: NDArray[np.float64]) -> list[int]:
        """Propose after the last token of `ids`, whose own tap row does not exist yet."""
        embedding, shape = self.teacher.weights[EMBEDDING], self.pack.shape
        inputs = DraftInputs(taps, embedding[[[ids[-1]]]], embedding[shape.mask_token_id], len(ids) - 1)
        states = run_draft(self.weights, shape, inputs)
        hidden = states.hidden(self.weights["layers.1.mlp.down_proj.weight"], self.weights["norm.weight"], 1e-6)
        return [int(token) for token in self.teacher.head_scores(hidden)[0, 0, :, :256].argmax(axis=1)]

    def run(self, prompt: tuple[int, ...], budget: int, k: int) -> tuple[list[int], list[int]]:
        """Return the reply and the accept length of each round."""
        ids = list(prompt)
        following, taps = self.target(ids)
        accepted: list[int] = []
        while True:
            ids.append(int(following[-1]))
            room = min(k, budget - (len(ids) - len(prompt)))
            if room == 0:
                return ids[len(prompt) :], accepted
            proposed = self.drafts(ids, taps)[:room]
            following, taps = self.target(ids + proposed)
            said = following[len(ids) - 1 :]
            take = next((at for at, token in enumerate(proposed) if token != said[at]), room)
            accepted.append(take)
            ids += proposed[:take]
            following, taps = following[: len(ids)], taps[:, : len(ids)]
            if len(ids) - len(prompt) == budget:
                return ids[len(prompt) :], accepted


@pytest.mark.parametrize(
    ("pack", "stream", "k"), [("mixed", "main-1", 7), ("mixed", "burst-1", 4), ("always", "hit-1", 5), ("never", "miss-1", 7)]
)
def test_a_loop_that_really_runs_says_the_stream_and_accepts_as_the_table_says(
    tiny: Fixture, tiny_recipe: Recipe, tiny_teacher: Teacher, certificate: Certificate, pack: str, stream: str, k: int
) -> None:
    loop = Loop(tiny_teacher, tiny_recipe, packs(tiny_recipe)[pack], tiny.packs[pack])
    prescribed = tiny.stream(stream)
    reply, accepted = loop.run(prescribed.prompt_ids, 24, k)
    table = certificate.packs[pack].accept_table[stream]
    want, emitted = [], 1
    while emitted < 24:
        want.append(min(table[emitted - 1], k, 24 - emitted))
        emitted += want[-1] + 1
    assert reply == list(prescribed.reply_ids)
    assert accepted == want
