"""The queue in front of the engine: order of arrival, and a turn that ends with an exception."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from forward_serve.serving.turnstile import Turnstile


def wait_until(is_so: Callable[[], bool]) -> None:
    """Yield the processor until another thread has come so far."""
    pause = threading.Event()
    for _ in range(10_000):
        if is_so():
            return
        pause.wait(0.001)
    raise AssertionError("the other thread never came so far")


def test_turns_are_taken_in_the_order_of_arrival_one_at_a_time() -> None:
    turnstile = Turnstile()
    order: list[int] = []
    inside: list[int] = []

    def visit(number: int) -> None:
        with turnstile.turn():
            inside.append(number)
            assert inside == [number]
            order.append(number)
            inside.remove(number)

    threads = []
    with turnstile.turn():
        for number in range(8):
            thread = threading.Thread(target=visit, args=(number,))
            thread.start()
            threads.append(thread)
            wait_until(lambda number=number: turnstile.num_waiting == number + 1)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_a_turn_that_raises_is_given_on() -> None:
    turnstile = Turnstile()
    with pytest.raises(RuntimeError), turnstile.turn():
        raise RuntimeError
    with turnstile.turn():
        assert turnstile.num_waiting == 0
