"""The engine: both paths, their lines, what breaks a reply off, and who comes next."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from forward_serve.serving.deliver import FinishReason, Part
from forward_serve.serving.engine import Outcome
from forward_serve.serving.fault import PassFault
from forward_serve.serving.outlet import ClientLeftError, ServerEndingError
from forward_serve.serving.request import Penalties, SamplingParams
from forward_serve.serving.speclog import Ending
from tests.forward_serve.serving.test_turnstile import wait_until
from tests.forward_serve.serving.toy import END, GREEDY, Listener, Log, ToyBase, engine, lookup, request, served

SAMPLED = SamplingParams(seed=3)


def line(outcome: Outcome) -> dict[str, str]:
    return dict(pair.split("=") for pair in outcome.record.line().split()[1:])


def test_a_plain_server_says_no_drafter_and_no_reason() -> None:
    log = Log()
    outcome = engine(served(), log).answer(request(max_tokens=8), "cmpl-1", Listener())
    assert outcome.deliver.text == "abcababc"
    assert log.lines == [
        "[spec] id=cmpl-1 path=plain drafter=none rounds=0 drafted=0 accepted=0 plain=7 tokens=8 cached=0 fallback=- reason=-"
    ]


def test_a_lookup_server_gives_the_same_tokens_in_fewer_passes() -> None:
    log = Log()
    outcome = engine(served(head=lookup()), log).answer(request(max_tokens=20), "cmpl-1", Listener())
    assert outcome.deliver.text == "abcab" * 4
    fields = line(outcome)
    assert (fields["path"], fields["drafter"], fields["reason"]) == ("spec", "lookup", "-")
    counts = {key: int(fields[key]) for key in ("rounds", "plain", "accepted", "drafted")}
    assert counts["rounds"] + counts["plain"] + counts["accepted"] == 20  # the last token is a draft: it was run
    assert counts["accepted"] == 12
    assert log.lines == [outcome.record.line()]
    assert sum(accepted for _, accepted in outcome.record.per_round) == counts["accepted"]


def test_a_sampled_request_of_a_lookup_server_takes_the_plain_loop_and_equals_a_plain_servers() -> None:
    asked = request(max_tokens=30, sampling=SAMPLED)
    plain = engine(served()).answer(asked, "cmpl-1", Listener())
    outcome = engine(served(head=lookup())).answer(asked, "cmpl-1", Listener())
    assert outcome.deliver.ids == plain.deliver.ids
    assert len(set(outcome.deliver.ids)) > 8
    assert (line(outcome)["path"], line(outcome)["reason"]) == ("plain", "sampled")


def test_a_seed_gives_the_same_reply_after_other_traffic() -> None:
    serving = engine(served())
    asked = request(max_tokens=12, sampling=SAMPLED)
    first = serving.answer(asked, "cmpl-1", Listener()).deliver.ids
    serving.answer(request(sampling=SamplingParams()), "cmpl-2", Listener())
    serving.answer(request(), "cmpl-3", Listener())
    assert serving.answer(asked, "cmpl-4", Listener()).deliver.ids == first
    assert serving.answer(replace(asked, sampling=SamplingParams(seed=4)), "cmpl-5", Listener()).deliver.ids != first


def test_a_plain_server_names_no_reason_for_a_sampled_request() -> None:
    assert line(engine(served()).answer(request(sampling=SAMPLED), "cmpl-1", Listener()))["reason"] == "-"


def test_penalties_are_named_though_the_request_is_greedy() -> None:
    outcome = engine(served(head=lookup())).answer(request(penalties=Penalties(1.0)), "cmpl-1", Listener())
    assert (line(outcome)["path"], line(outcome)["reason"]) == ("plain", "penalties")


@pytest.mark.parametrize(
    ("reply", "max_tokens", "stops", "reason"),
    [("abcdefgh", 8, (), "no-match"), ("aaaa", 1, (), "budget"), ("aaaa", 8, ("a",), "ended"), ("\4", 8, (), "ended")],
)
def test_a_speculative_request_without_drafts_says_why(reply: str, max_tokens: int, stops: tuple[str, ...], reason: str) -> None:
    serving = engine(served(ToyBase(reply), head=lookup()))
    outcome = serving.answer(request(max_tokens=max_tokens, stops=stops), "cmpl-1", Listener())
    assert (line(outcome)["path"], line(outcome)["drafted"], line(outcome)["reason"]) == ("spec", "0", reason)


@pytest.mark.parametrize("drafts", [False, True])
def test_an_end_token_ends_the_reply_and_is_in_no_count(drafts: bool) -> None:
    serving = engine(served(ToyBase("abababab\4"), head=lookup() if drafts else None))
    outcome = serving.answer(request("xab", max_tokens=30), "cmpl-1", Listener())
    assert (outcome.deliver.text, outcome.deliver.finish_reason, outcome.deliver.stop_reason) == ("abababab", "stop", END)
    assert outcome.record.tokens == outcome.deliver.num_tokens == 8
    assert outcome.record.rounds + outcome.record.plain + outcome.record.accepted == 8


def test_ignore_eos_goes_on_over_the_end_token() -> None:
    outcome = engine(served(ToyBase("ab\4"), head=lookup())).answer(request(max_tokens=7, ignore_eos=True), "c", Listener())
    assert (outcome.deliver.text, outcome.record.tokens) == ("ab\4ab\4a", 7)
    assert outcome.deliver.finish_reason is FinishReason.LENGTH


def test_the_fallback_rule_reaches_the_loop() -> None:
    model = served(ToyBase("ab"), head=lookup(), fallback_below=99.0, fallback_window=2)
    assert line(engine(model).answer(request(max_tokens=20), "cmpl-1", Listener()))["fallback"] == "2"


def test_a_failed_pass_is_a_failed_request_and_the_next_one_is_untouched() -> None:
    fault = PassFault(3)
    log = Log()
    serving = engine(served(ToyBase(before_pass=lambda _: fault()), head=lookup()), log)
    outcome = serving.answer(request(), "cmpl-1", Listener())
    assert outcome.ending is Ending.FAILED
    assert "--fail-pass=3" in outcome.failure
    assert log.lines[0].startswith("[error] id=cmpl-1 InjectedFaultError: pass 3 after ready failed")
    assert log.lines[1].endswith(" plain=1 tokens=2 cached=0 fallback=- reason=failed")
    assert serving.answer(request(), "cmpl-2", Listener()).deliver.text == "abcababc"


def test_a_failed_prefill_counts_nothing() -> None:
    fault = PassFault(1)
    outcome = engine(served(ToyBase(before_pass=lambda _: fault()))).answer(request(), "cmpl-1", Listener())
    assert (outcome.ending, outcome.record.plain, outcome.record.tokens) == (Ending.FAILED, 0, 0)


def test_a_client_that_leaves_during_a_pass_gets_no_further_token() -> None:
    listener = Listener()

    def leave_in_pass_4(number: int) -> None:
        listener.is_gone = number == 4

    log = Log()
    serving = engine(served(ToyBase(before_pass=leave_in_pass_4)), log)
    outcome = serving.answer(request(max_tokens=50), "cmpl-1", listener)
    assert (outcome.ending, listener.text, outcome.record.tokens) == (Ending.CANCELLED, "abc", 3)
    assert log.lines[0].endswith(" plain=3 tokens=3 cached=0 fallback=- reason=cancelled")


@pytest.mark.parametrize("drafts", [False, True])
def test_a_client_that_does_not_take_a_token_gets_no_further_one(drafts: bool) -> None:
    class Deaf(Listener):
        def hear(self, part: Part) -> None:
            super().hear(part)
            if len(self.ids) == 6:
                raise BrokenPipeError

    listener = Deaf()
    outcome = engine(served(ToyBase("ab"), head=lookup() if drafts else None)).answer(request(max_tokens=50), "cmpl-1", listener)
    assert (outcome.ending, listener.text, outcome.record.tokens) == (Ending.CANCELLED, "ababab", 6)
    assert outcome.record.reason == "cancelled"


def test_a_client_that_left_while_it_waited_never_reaches_the_engine() -> None:
    log = Log()
    listener = Listener()
    listener.is_gone = True
    base = ToyBase()
    with pytest.raises(ClientLeftError):
        engine(served(base), log).answer(request(), "cmpl-1", listener)
    assert (log.lines, base.pass_sizes) == ([], [])


def test_an_ending_server_breaks_its_running_reply_off_and_takes_no_other() -> None:
    ending = threading.Event()
    log = Log()

    def end_in_pass_3(number: int) -> None:
        if number == 3:
            ending.set()

    serving = engine(served(ToyBase(before_pass=end_in_pass_3)), log, ending)
    outcome = serving.answer(request(max_tokens=50), "cmpl-1", Listener())
    assert (outcome.ending, outcome.record.tokens, outcome.record.reason) == (Ending.FAILED, 2, "failed")
    with pytest.raises(ServerEndingError):
        serving.answer(request(), "cmpl-2", Listener())


def test_requests_at_once_wait_and_equal_their_solo_replies_and_paths() -> None:
    asked = {
        f"cmpl-{number}": request("ab" * number, max_tokens=4 + number, sampling=SAMPLED if number % 3 == 0 else GREEDY)
        for number in range(1, 9)
    }
    solo = {id_: engine(served(head=lookup())).answer(asked[id_], id_, Listener()) for id_ in asked}
    gate = threading.Event()
    serving = engine(served(ToyBase(before_pass=lambda _: assert_open(gate)), head=lookup()))
    got: dict[str, Outcome] = {}

    def ask(id_: str) -> None:
        got[id_] = serving.answer(asked[id_], id_, Listener())

    threads = [threading.Thread(target=ask, args=(id_,)) for id_ in asked]
    for thread in threads:
        thread.start()
    wait_until(lambda: serving.num_waiting == len(asked) - 1)
    gate.set()
    for thread in threads:
        thread.join()
    assert {id_: (o.deliver.ids, o.record) for id_, o in got.items()} == {
        id_: (o.deliver.ids, o.record) for id_, o in solo.items()
    }


def assert_open(gate: threading.Event) -> None:
    assert gate.wait(10)
