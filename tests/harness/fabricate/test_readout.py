"""The ridge readout on random features, alone and behind a convolution."""

from __future__ import annotations

import numpy as np
import pytest

from harness.fabricate.aim import FREE, Aim, ByLogit
from harness.fabricate.numerics import to_bf16
from harness.fabricate.readout import Matrix, ReadoutDials, Slots, fit_down

RNG_SEED = 7
HIDDEN, INNER, VOCAB, PADDED, BLOCK = 256, 300, 96, 8, 4


def random_slots(blocks: int, free_blocks: int, groups: int = 0) -> tuple[Slots, Aim]:
    """Return blocks of an anchor's slot and three fitted ones; the last blocks are free."""
    rng = np.random.default_rng(RNG_SEED)
    tokens = rng.integers(0, VOCAB, (blocks, BLOCK))
    tokens[:, 0] = FREE
    tokens[blocks - free_blocks :] = FREE
    coefficients = rng.uniform(0.5, 1.2, (blocks, BLOCK, 2, groups)) if groups else None
    slots = Slots.of(rng.standard_normal((blocks, BLOCK, INNER)), rng.standard_normal((blocks, BLOCK, HIDDEN)), coefficients)
    norm = rng.uniform(0.6, 1.4, HIDDEN)
    head = rng.standard_normal((VOCAB + PADDED, HIDDEN))
    head[VOCAB:] = rng.standard_normal(HIDDEN) + 0.1 * head[VOCAB:]  # padded rows agree, as those of a solved head do
    aim = Aim(
        tokens=tokens.reshape(-1),
        anchors=rng.integers(0, VOCAB, blocks),
        hidden_states=ByLogit.of(head, VOCAB, 1.5, None),
        norm=norm,
        eps=1e-6,
        head=head,
        vocab=VOCAB,
        selector=None,
    )
    return slots, aim


def fitted(slots: Slots, aim: Aim, noise_gram: Matrix | None = None) -> Matrix:
    return fit_down(slots, np.zeros((INNER, INNER)) if noise_gram is None else noise_gram, aim, ReadoutDials())


@pytest.mark.parametrize("groups", [0, 4], ids=["alone", "behind a convolution"])
def test_prescribed_slots_say_their_tokens_and_free_ones_are_no_ties(groups: int) -> None:
    slots, aim = random_slots(50, 20, groups)
    says, margins = aim.look(slots.outputs(fitted(slots, aim)), aim.tokens)
    prescribed = aim.tokens != FREE
    np.testing.assert_array_equal(says[prescribed], aim.tokens[prescribed])
    middle = float(np.median(margins[prescribed]))
    assert margins[prescribed].min() > 0.4 * middle
    assert margins.min() > 0.01 * middle


def test_outputs_go_through_the_convolution_slot_by_slot() -> None:
    slots, _ = random_slots(3, 0, 4)
    down = np.random.default_rng(1).standard_normal((HIDDEN, INNER))
    got = slots.outputs(down) - slots.before
    raw = slots.inner @ down.T
    for slot in range(len(raw)):
        own, earlier = (np.repeat(slots.coefficients[slot, tap], HIDDEN // 4) for tap in (0, 1))
        want = own * raw[slot] + (earlier * raw[slot - 1] if slot % BLOCK else 0)
        np.testing.assert_allclose(got[slot], want, atol=1e-9)


def test_padded_rows_win_unbounded_at_the_fitted_slots() -> None:
    slots, aim = random_slots(27, 0)
    residuals = slots.outputs(fitted(slots, aim))[aim.tokens != FREE]
    everything = (residuals / np.sqrt(np.mean(residuals**2, axis=1, keepdims=True)) * aim.norm) @ aim.head.T
    assert np.mean(everything.argmax(axis=1) >= VOCAB) == 1.0


def test_the_noise_term_shrinks_what_noise_does() -> None:
    slots, aim = random_slots(27, 0)
    noise = np.random.default_rng(8).standard_normal((40, INNER)) * 0.3
    moved = [np.abs(noise @ fitted(slots, aim, gram).T).mean() for gram in (None, noise.T @ noise)]
    assert moved[1] < 0.5 * moved[0]


def test_the_readout_is_exact_in_bf16() -> None:
    slots, aim = random_slots(7, 0)
    down = fitted(slots, aim)
    np.testing.assert_array_equal(to_bf16(down), down)
