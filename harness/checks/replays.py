"""From the findings of a run to files that repeat them: which findings get one, what each is called, and what is in it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.checks.check import Check
from harness.checks.cut import attempts_of
from harness.checks.evidence import Evidence
from harness.records.finding import Finding
from harness.records.replay import Mutation, RecipeFile, Replay

MOST = 24  # files of one run
MOST_OF_START = 3  # of one check on one start: further requests mostly repeat the same
_MOST_NAME = 80  # characters of a file's name

Place = tuple[str, str, str]  # check, start, request


@dataclass(frozen=True, slots=True)
class Origin:
    """What a recorded run does not say of how it was made."""

    subject: str  # a shipped description's name, or a path to one
    recipes: tuple[RecipeFile, ...]
    mutation: Mutation | None = None


def place_of(finding: Finding) -> Place:
    """Return where a finding is: one file repeats all findings of a place."""
    return finding.check, finding.start, finding.request


def replays_of(evidence: Evidence, findings: Sequence[Finding], checks: Sequence[Check], origin: Origin) -> dict[Place, Replay]:
    """Return a replay for each place of the findings, in their order, as far as MOST and MOST_OF_START allow.

    A finding that no part of the run shows by itself has none: one of a check that judges what others found.
    """
    by_id = {check.id: check for check in checks if check.after is None}
    replays: dict[Place, Replay] = {}
    for finding in _chosen([one for one in findings if one.check in by_id]):
        attempts = attempts_of(evidence, by_id[finding.check], finding)
        if attempts:
            replays[place_of(finding)] = Replay(
                subject=origin.subject,
                recipes=origin.recipes,
                finding=finding,
                attempts=attempts,
                traced=all(recording.trace.traced for recording in evidence.run.recordings),
                mutation=origin.mutation,
            )
    return replays


def named(replays: Mapping[Place, Replay]) -> dict[str, Replay]:
    """Return replays by the names of their files: a number, and the place as far as a file's name may hold it."""
    names: dict[str, Replay] = {}
    for number, (place, replay) in enumerate(replays.items(), 1):
        told = "_".join(re.sub(r"[^A-Za-z0-9.+=,-]+", "-", part).strip("-.") for part in place if part)
        names[f"{number:02}_{told}"[:_MOST_NAME] + ".json"] = replay
    return names


def _chosen(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the first finding of each place, the first place of every check and start before the second of any."""
    by_place = {place_of(finding): finding for finding in reversed(findings)}
    num_of_start: Counter[tuple[str, str]] = Counter()
    ranked: list[tuple[int, Finding]] = []
    for place in dict.fromkeys(map(place_of, findings)):
        ranked.append((num_of_start[place[:2]], by_place[place]))
        num_of_start[place[:2]] += 1
    ranked.sort(key=lambda pair: pair[0])
    yield from (finding for rank, finding in ranked[:MOST] if rank < MOST_OF_START)
