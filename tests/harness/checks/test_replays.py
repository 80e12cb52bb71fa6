"""Which findings are kept as files, how many, under which names, and with what in them."""

from __future__ import annotations

import msgspec

from harness.checks.evidence import Evidence
from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.checks.replays import MOST, MOST_OF_START, Origin, named, replays_of
from harness.records.finding import Finding, Verdict
from harness.records.recording import Run
from harness.records.replay import Mutation, RecipeFile, Replay
from tests.harness.checks import families
from tests.harness.checks.ideal import Fault

RECIPES = (RecipeFile("tiny.toml", "tiny@test", "name = 'tiny'\n"),)
ORIGIN = Origin("forward-serve", RECIPES)


def kept(run: Run) -> dict[tuple[str, str, str], Replay]:
    return replays_of(Evidence(run), judge(run, ALL_CHECKS).findings, ALL_CHECKS, ORIGIN)


def test_a_kept_finding_holds_all_that_repeats_it() -> None:
    run = families.run_of("exact-drafts", Fault.EARLIEST, arms=("lookup",))
    (place, replay), *_ = kept(run).items()
    assert place == (replay.finding.check, replay.finding.start, replay.finding.request)
    assert (replay.subject, replay.recipes) == ("forward-serve", RECIPES)
    assert (replay.traced, replay.mutation) == (True, None)
    read = msgspec.json.decode(msgspec.json.encode(replay), type=Replay)
    assert (read.attempts, read.finding.message) == (replay.attempts, replay.finding.message)
    assert replay.attempts[0].plan.recipe == "tiny@test"


def test_a_planted_fault_travels_with_its_findings() -> None:
    run = families.run_of("exact-drafts", Fault.EARLIEST)
    mutation = Mutation("earliest", (), {"SWITCH": "1"})
    origin = Origin("forward-serve", (), mutation)
    replays = replays_of(Evidence(run), judge(run, ALL_CHECKS).findings, ALL_CHECKS, origin)
    assert [replay.mutation for replay in replays.values()] == [mutation] * len(replays) != []


def test_each_check_and_start_is_kept_once_before_any_is_kept_twice_and_few_times_in_all() -> None:
    run = families.run_of("exact-drafts", Fault.EARLIEST)
    places = list(kept(run))
    starts = [place[:2] for place in places]
    assert len(places) <= MOST
    assert max(map(starts.count, starts)) <= MOST_OF_START
    firsts = len(set(starts))
    assert len(set(starts[:firsts])) == firsts
    assert len(set(places)) == len(places)


def test_a_finding_of_a_check_that_judges_what_others_found_is_not_kept() -> None:
    run = families.run_of("exact-drafts", Fault.EARLIEST)
    finding = Finding("known-faults", Verdict.KNOWN_GONE, "lookup", "", "gone")
    assert replays_of(Evidence(run), [finding], ALL_CHECKS, ORIGIN) == {}


def test_names_of_files_are_numbered_short_and_free_of_anything_but_plain_characters() -> None:
    (replay, *_) = kept(families.run_of("exact-drafts", Fault.EARLIEST)).values()
    places = {("same-reply", "k-1/lookup", "hit-1/24/stop=\x1b[../" + "x" * 200): replay, ("same-reply", "", ""): replay}
    first, second = named(places)
    assert first.startswith("01_same-reply_k-1-lookup_hit-1-24-stop=-..-xxx")
    assert (len(first), first[-5:], second) == (85, ".json", "02_same-reply.json")
