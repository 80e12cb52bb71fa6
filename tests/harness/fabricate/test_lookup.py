"""Prompt lookup over a known reply, by hand-made streams."""

from __future__ import annotations

import pytest

from harness.fabricate.lookup import Round, Rule, accept_lengths, common_prefix, propose, rounds, shows


@pytest.mark.parametrize(
    ("stream", "limit", "want"),
    [
        ("abcdabc", 4, "dabc"),  # three tokens, copied to the end of the stream at most
        ("abcxbcyabc", 1, "x"),  # three tokens far back win over two nearer
        ("abxabyab", 1, "y"),  # the latest of one length
        ("xaba", 4, "ba"),  # one token is enough
        ("aaaa", 4, "a"),  # a constant stream does not wrap
        ("abcd", 4, ""),
        ("a", 4, ""),
    ],
)
def test_a_proposal_is_what_followed_the_latest_longest_suffix(stream: str, limit: int, want: str) -> None:
    assert propose(stream, limit) == want


def test_a_round_copies_accepts_and_goes_on_after_its_own_token() -> None:
    # after "d": the prompt goes on with "efg"; the reply keeps "ef" and breaks off
    assert list(rounds("abcdefgabc", "defxy", 3)) == [Round(1, "efg", 2), Round(4, "", 0)]


def test_the_last_token_of_the_budget_is_not_drafted_from() -> None:
    assert list(rounds("abcdabc", "d", 4)) == []
    assert [one.drafts for one in rounds("abcdeabc", "de", 4)] == ["e"]


def test_a_constant_reply_gives_rounds_of_two_tokens() -> None:
    assert accept_lengths("abc", "ddddddd", 7) == [1, 1, 1]


@pytest.mark.parametrize(
    ("rule", "prompt", "reply"),
    [
        (Rule.EARLIEST, "axayaz", "ay"),
        (Rule.SHORT_FIRST, "abcxbcyab", "cx"),
        (Rule.REJECTED_KEPT, "xyzwx", "yqza"),
    ],
)
def test_a_wrong_rule_shows_where_it_proposes_otherwise(rule: Rule, prompt: str, reply: str) -> None:
    assert shows(prompt, reply, 4, rule)
    assert not shows("abcdef", "ghij", 4, rule)


def test_the_common_prefix_ends_with_the_shorter() -> None:
    assert [common_prefix(*pair) for pair in (("abc", "abd"), ("ab", "abc"), ("x", "abc"), ("", "a"))] == [2, 2, 0, 0]
