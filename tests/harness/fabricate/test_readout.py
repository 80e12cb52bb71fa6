"""The ridge readout on random features."""

from __future__ import annotations

import numpy as np

from harness.fabricate.numerics import to_bf16
from harness.fabricate.readout import FREE, ReadoutDials, Slots, Target, fit_down
from harness.fabricate.scores import gaps_of

RNG_SEED = 7
HIDDEN, INNER, VOCAB, PADDED = 256, 300, 96, 8


def random_slots(count: int, free: int) -> tuple[Slots, Target]:
    rng = np.random.default_rng(RNG_SEED)
    tokens = rng.integers(0, VOCAB, count)
    tokens[count - free :] = FREE
    slots = Slots(rng.standard_normal((count, INNER)), rng.standard_normal((count, HIDDEN)), tokens)
    norm = rng.uniform(0.6, 1.4, HIDDEN)
    head = rng.standard_normal((VOCAB + PADDED, HIDDEN))
    head[VOCAB:] = rng.standard_normal(HIDDEN) + 0.1 * head[VOCAB:]  # padded rows agree, as those of a solved head do
    return slots, Target(norm, 1e-6, head, VOCAB)


def test_prescribed_slots_say_their_tokens_and_free_ones_are_no_ties() -> None:
    slots, target = random_slots(160, 60)
    down = fit_down(slots, np.zeros((INNER, INNER)), target, ReadoutDials())
    scores = target.scores(slots.before + slots.inner @ down.T)
    fitted = slots.tokens != FREE
    gaps = gaps_of(scores, np.where(fitted, slots.tokens, scores.argmax(axis=1)))
    middle = float(np.median(gaps[fitted]))
    assert gaps[fitted].min() > 0.4 * middle
    assert gaps[~fitted].min() > 0.01 * middle


def test_padded_rows_win_unbounded_at_the_fitted_slots() -> None:
    slots, target = random_slots(80, 0)
    down = fit_down(slots, np.zeros((INNER, INNER)), target, ReadoutDials())
    residuals = slots.before + slots.inner @ down.T
    everything = (residuals / np.sqrt(np.mean(residuals**2, axis=1, keepdims=True)) * target.norm) @ target.head.T
    assert np.mean(everything.argmax(axis=1) >= VOCAB) == 1.0


def test_the_noise_term_shrinks_what_noise_does() -> None:
    slots, target = random_slots(80, 0)
    noise = np.random.default_rng(8).standard_normal((40, INNER)) * 0.3
    moved = [
        np.abs(noise @ fit_down(slots, gram, target, ReadoutDials()).T).mean()
        for gram in (np.zeros((INNER, INNER)), noise.T @ noise)
    ]
    assert moved[1] < 0.5 * moved[0]


def test_the_readout_is_exact_in_bf16() -> None:
    slots, target = random_slots(20, 0)
    down = fit_down(slots, np.zeros((INNER, INNER)), target, ReadoutDials())
    np.testing.assert_array_equal(to_bf16(down), down)
