"""The one way out for tokens, against a definition that looks at the whole reply."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.errors import EngineError
from forward_serve.serving.deliver import Deliver, FinishReason, Part
from forward_serve.serving.logprobs import Scored, TokenLogprobs

TOKENS = [
    b"a",
    b"b",
    b"ab",
    b"\xe2",
    b"\x82\xac",
    b"\xac",
    b"\xc3\xa9",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xff",
    b"\xed\xa0",
    b"<end>",
    b"",
]
END = TOKENS.index(b"<end>")


def logprobs_of(token: int) -> TokenLogprobs:
    return TokenLogprobs(Scored(token, TOKENS[token], -float(token)), ())


def deliver_of(stops: tuple[str, ...] = (), end_tokens: tuple[int, ...] = (END,)) -> Deliver:
    return Deliver(TOKENS.__getitem__, end_tokens, stops)


@dataclass
class Reply:
    """A reply told from its end, and what a stream showed of it."""

    text: str
    num_ids: int
    finish: str
    stop_reason: str | int | None


def decoded(data: bytes, *, is_whole: bool) -> str:
    """Decode by strict decoding alone: each error is one U+FFFD, an unfinished tail waits unless the reply is whole."""
    text = ""
    while data:
        try:
            return text + data.decode("utf-8")
        except UnicodeDecodeError as error:
            text += data[: error.start].decode("utf-8")
            if error.reason == "unexpected end of data" and not is_whole:
                return text
            text += "\ufffd"
            data = data[error.end :]
    return text


def defined(ids: list[int], stops: tuple[str, ...]) -> Reply:
    """The reply by definition: the first prefix of the ids whose text holds a stop, or that an end token ends."""
    for num_ids in range(1, len(ids) + 1):
        if ids[num_ids - 1] == END:
            return closed(ids[: num_ids - 1], stops, Reply("", num_ids - 1, "stop", END))
        cut = cut_of(decoded(b"".join(TOKENS[i] for i in ids[:num_ids]), is_whole=False), stops)
        if cut is not None:
            return Reply(cut[0], num_ids, "stop", cut[1])
    return closed(ids, stops, Reply("", len(ids), "length", None))


def closed(ids: list[int], stops: tuple[str, ...], reply: Reply) -> Reply:
    """Give a reply its whole text; the flush of an unfinished character may complete a stop."""
    text = decoded(b"".join(TOKENS[i] for i in ids), is_whole=True)
    cut = cut_of(text, stops)
    if cut is not None:
        return Reply(cut[0], reply.num_ids, "stop", cut[1])
    return Reply(text, reply.num_ids, reply.finish, reply.stop_reason)


def cut_of(text: str, stops: tuple[str, ...]) -> tuple[str, str] | None:
    found = min(((text.index(stop), stop) for stop in stops if stop in text), default=None)
    return None if found is None else (text[: found[0]], found[1])


def run(deliver: Deliver, ids: list[int]) -> tuple[list[str], list[int]]:
    """Deliver ids until the reply is over, and return what a stream shows, piece by piece."""
    pieces: list[str] = []
    shown_ids: list[int] = []
    for token in ids:
        goes_on = deliver(token)
        part = deliver.take()
        pieces.append(part.text)
        shown_ids += part.ids
        if not goes_on:
            break
    deliver.finish()
    part = deliver.take()
    return [*pieces, part.text], [*shown_ids, *part.ids]


ids_of_replies = st.lists(st.integers(0, len(TOKENS) - 1), max_size=12)
stop_sets = st.lists(st.text("ab\u20ac\u00e9\ufffd", min_size=1, max_size=3), max_size=3).map(tuple)


@settings(max_examples=300, deadline=None)
@given(ids_of_replies, stop_sets)
def test_any_reply_is_the_one_that_the_definition_gives(ids: list[int], stops: tuple[str, ...]) -> None:
    deliver = deliver_of(stops)
    run(deliver, ids)
    got = Reply(deliver.text, deliver.num_tokens, str(deliver.finish_reason), deliver.stop_reason)
    assert got == defined(ids, stops)


@settings(max_examples=300, deadline=None)
@given(ids_of_replies, stop_sets)
def test_the_pieces_of_any_stream_joined_are_the_text_and_the_ids(ids: list[int], stops: tuple[str, ...]) -> None:
    deliver = deliver_of(stops)
    pieces, shown_ids = run(deliver, ids)
    assert ("".join(pieces), shown_ids) == (deliver.text, deliver.ids)


@settings(max_examples=300, deadline=None)
@given(ids_of_replies, stop_sets)
def test_no_piece_shows_what_a_later_token_could_cut(ids: list[int], stops: tuple[str, ...]) -> None:
    deliver = deliver_of(stops)
    shown = ""
    for index, token in enumerate(ids):
        goes_on = deliver(token)
        shown += deliver.take().text
        whole = decoded(b"".join(TOKENS[i] for i in ids[: index + 1]), is_whole=False)
        if not goes_on:
            break
        could_be_cut = [n for stop in stops for n in range(1, len(stop)) if whole.endswith(stop[:n])]
        assert shown == whole[: len(whole) - max(could_be_cut, default=0)]


@pytest.mark.parametrize("stops", [("ab", "ba"), ("ba", "ab")])
def test_of_two_stops_completed_by_one_token_the_earlier_start_cuts_whatever_the_list_order(stops: tuple[str, ...]) -> None:
    deliver = deliver_of(stops)
    assert deliver(TOKENS.index(b"b")) is True
    assert deliver(TOKENS.index(b"ab")) is False
    assert (deliver.text, deliver.stop_reason) == ("", "ba")


def test_a_stop_completed_inside_a_token_cuts_the_text_and_keeps_the_id() -> None:
    deliver = deliver_of(("a",))
    assert deliver(TOKENS.index(b"b")) is True
    assert deliver(TOKENS.index(b"ab")) is False
    assert (deliver.text, deliver.ids) == ("b", [TOKENS.index(b"b"), TOKENS.index(b"ab")])


def test_of_two_stops_with_one_start_the_shorter_is_named_because_it_is_complete_first() -> None:
    deliver = deliver_of(("ab", "a"))
    assert deliver(TOKENS.index(b"ab")) is False
    assert deliver.stop_reason == "a"


def test_an_end_token_is_in_no_text_id_list_or_count() -> None:
    deliver = deliver_of()
    deliver(0)
    assert deliver(END) is False
    assert (deliver.text, deliver.ids, deliver.num_tokens, deliver.stop_reason) == ("a", [0], 1, END)


def test_an_end_token_that_is_ignored_is_text_like_any_special() -> None:
    deliver = deliver_of(end_tokens=())
    assert deliver(END) is True
    deliver.finish()
    assert (deliver.text, deliver.ids, deliver.finish_reason) == ("<end>", [END], FinishReason.LENGTH)


def test_an_unfinished_character_is_flushed_at_the_end_and_may_complete_a_stop() -> None:
    deliver = deliver_of(("\ufffd",))
    assert deliver(TOKENS.index(b"\xe2")) is True
    deliver.finish()
    assert (deliver.text, deliver.finish_reason, deliver.stop_reason) == ("", FinishReason.STOP, "\ufffd")


def test_a_stop_completed_by_the_last_token_of_the_budget_wins_over_the_length() -> None:
    deliver = deliver_of(("b",))
    assert deliver(TOKENS.index(b"b")) is False
    deliver.finish()
    assert deliver.finish_reason is FinishReason.STOP


def test_a_syllable_whose_first_byte_also_begins_surrogates_is_no_surrogate() -> None:
    syllable = "\ud55c"
    deliver = Deliver([syllable.encode()[:2], syllable.encode()[2:]].__getitem__, (), ())
    assert [deliver(0), deliver(1)] == [True, True]
    assert deliver.text == syllable


class EndsWith:
    """A grammar that allows every token and nothing behind one of them."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.taken: list[int] = []

    def take(self, token: int) -> bool:
        self.taken.append(token)
        return token != self.last


def test_a_grammar_takes_each_counted_token_and_ends_the_reply_where_nothing_may_follow() -> None:
    grammar = EndsWith(last=1)
    deliver = Deliver(TOKENS.__getitem__, (END,), ("c",), grammar)
    assert [deliver(0), deliver(1)] == [True, False]
    assert grammar.taken == [0, 1]
    assert (deliver.text, deliver.ids, deliver.finish_reason, deliver.stop_reason) == ("ab", [0, 1], FinishReason.STOP, None)


@pytest.mark.parametrize(("stops", "last"), [(("a",), 0), ((), END)], ids=["a stop", "an end token"])
def test_a_grammar_is_not_asked_about_a_token_that_ended_the_reply(stops: tuple[str, ...], last: int) -> None:
    grammar = EndsWith(last=0)
    assert Deliver(TOKENS.__getitem__, (END,), stops, grammar)(last) is False
    assert grammar.taken == []


def test_a_reply_that_goes_on_has_no_reason_to_have_ended() -> None:
    deliver = deliver_of()
    deliver(0)
    assert (deliver.finish_reason, deliver.stop_reason) == (None, None)


def test_a_part_holds_the_text_ids_offsets_and_logprobs_since_the_last_one_and_the_whole_all_of_them() -> None:
    logprobs: list[TokenLogprobs] = []
    deliver = Deliver(TOKENS.__getitem__, (END,), (), None, logprobs)
    parts = []
    for token in (2, 0, 1):  # "ab", "a", "b"
        logprobs.append(logprobs_of(token))
        assert deliver(token) is True
        if token != 0:
            parts.append(deliver.take())
    first, second, third = logprobs
    assert parts == [Part("ab", [2], [0], [first]), Part("ab", [0, 1], [2, 3], [second, third])]
    assert deliver.whole() == Part("abab", [2, 0, 1], [0, 2, 3], logprobs)


def test_the_logprobs_of_an_end_token_are_in_no_part() -> None:
    logprobs = [logprobs_of(END)]
    deliver = Deliver(TOKENS.__getitem__, (END,), (), None, logprobs)
    assert deliver(END) is False
    assert deliver.whole() == Part("", [], [], [])


def test_a_reply_of_which_no_logprobs_were_asked_has_none() -> None:
    deliver = deliver_of()
    deliver(0)
    assert deliver.take() == deliver.whole() == Part("a", [0], [0], None)


def test_a_call_after_a_false_is_an_error() -> None:
    deliver = deliver_of()
    deliver(END)
    with pytest.raises(EngineError, match="after the reply had ended"):
        deliver(0)


def test_a_call_after_finish_is_an_error() -> None:
    deliver = deliver_of()
    deliver.finish()
    with pytest.raises(EngineError, match="after the reply had ended"):
        deliver(0)
