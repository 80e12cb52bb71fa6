"""A fault that a subject is known to have: pinned, so that a run neither fails on it nor overlooks that it is gone."""

from __future__ import annotations

import msgspec


class KnownFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault that the subject has today, under the narrowest condition: what lies outside of it is a finding as any other.

    A finding is this fault's if it is `check`'s, on one of `arms` or `at_times`, at a start whose id matches, at a request that sets
    all of `fields`, and its message matches.
    """

    id: str
    title: str
    link: str
    check: str  # the check whose finding it is
    arms: tuple[str, ...]
    at_times: tuple[str, ...] = ()  # arms that show it or not, by what they were asked before; it is never gone there
    starts: str = "*"  # a shell pattern over the ids of starts
    fields: tuple[str, ...] = ()  # of the request's body
    is_behind_long: bool = (
        False  # before all that the check reads, the start was asked something as long: prompt and budget together
    )
    message: str = ""  # a regular expression, looked for in the finding's message
    is_cut_short: bool = False  # what was got is a proper beginning of what was wanted
    leaves: tuple[str, ...] = ()  # further checks whose findings at the same request follow from it
