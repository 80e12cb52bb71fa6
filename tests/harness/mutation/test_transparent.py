"""The probe that a relay without a fault changes nothing, on the toy subject; and what becomes of faults that it cannot have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.mutation.arena import Ground
from harness.mutation.matrix import ExitCode
from harness.mutation.mutate import Options, mutate
from harness.mutation.transparent import differences
from harness.mutation.world import Fitted, World
from harness.records.plan import Plan
from harness.records.recording import DeviceEvent, Recording, Run, Trace
from tests.harness.mutation import toy
from tests.harness.mutation.toy import ToyArena

ENTRY = """
[[mutant]]
id = "{name}"
title = "A fault."
why = "the table"
kind = "seed"
killers = ["{killer}"]
relay = {{ fault = "token-dropped" }}
"""


class Relayed(ToyArena):
    """A column with a relay: a fault changes every reply of the lookup arm, and each thing that `lies` names is changed without one."""

    lies: tuple[str, ...] = ()

    def record(self, plan: Plan, ground: Ground) -> Run:
        run = super().record(plan, ground)
        if ground.relay and ground.relay["fault"] != "nothing":
            return self._changed(run, only="lookup")
        return run if ground.direct or not self.lies else self._changed(run)

    def _changed(self, run: Run, only: str = "") -> Run:
        recordings = [one if only and one.start.arm != only else self._lie(one) for one in run.recordings]
        return msgspec.structs.replace(run, recordings=tuple(recordings))

    def _lie(self, one: Recording) -> Recording:
        if "opens" in self.lies:
            event = DeviceEvent("openat", "/dev/accel/accel0", 1, "3")
            return msgspec.structs.replace(one, trace=Trace(traced=True, events=(event,)))
        answers = []
        for answer in one.answers:
            assert answer.reply is not None
            reply = msgspec.structs.replace(answer.reply, text=answer.reply.text if self.lies else "lie", stop_reason="lie")
            answers.append(msgspec.structs.replace(answer, reply=reply))
        return msgspec.structs.replace(one, answers=tuple(answers))


def run(root: Path, *entries: str, arena: ToyArena | None = None, around: Any = None, **options: Any) -> ExitCode:
    toy.source(root)
    folder = root / "mutants" / "relay"
    folder.mkdir(parents=True)
    (folder / "replies.toml").write_text("".join(entries))
    build = toy.world(root, arena or Relayed(), Relayed())

    def world(*arguments: Any) -> World:
        made = build(*arguments)
        return replace(
            made, name="relay-toy", fit=lambda mutants: Fitted(tuple(mutants[:1]), {m.id: "too few" for m in mutants[1:]})
        )

    return mutate(Options(subject="toy", root=root, relay=True, **options), world, around or toy.surroundings())


def report(root: Path) -> Any:
    (path,) = root.glob("reports/mutate-relay-toy-*/outcomes.json")
    return json.loads(path.read_text())


SAME, OTHER = (ENTRY.format(name=name, killer="same-reply") for name in ("first", "second"))


def test_a_run_of_the_relay_has_the_probe_of_the_relay_and_leaves_the_planting_ones_out(tmp_path: Path) -> None:
    run(tmp_path, SAME)
    found = report(tmp_path)
    assert [probe["id"] for probe in found["draftproof"]["probes"]] == ["clean-twice", "transparent", "working-tree"]
    assert all(probe["holds"] for probe in found["draftproof"]["probes"])
    (file,) = found["files"].items()
    assert file[0] == "mutants/relay/replies.toml"
    assert [(mutant["id"], mutant["outcome"]) for mutant in file[1]["mutants"]] == [("first", "KILLED")]


def test_a_fault_that_the_subject_cannot_have_is_listed_and_never_counted(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, SAME, OTHER, around=around, only=("first", "second")) is ExitCode.PROVEN
    assert report(tmp_path)["draftproof"]["notApplicable"] == {"second": "too few"}
    assert "not applicable: second (too few)" in toy.printed(around)
    assert "1 of 1 killed by their named checks" in toy.printed(around)


def test_the_list_tells_what_is_not_applicable(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, SAME, OTHER, around=around, show_list=True) is ExitCode.PROVEN
    assert "second  not applicable: too few" in toy.printed(around)


def test_a_check_that_no_fault_of_the_relay_kills_is_the_headline(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, SAME, around=around) is ExitCode.UNPROVEN
    assert "unproven check: exact-counts" in toy.printed(around)


@pytest.mark.parametrize(
    ("lies", "told"),
    [(("reply",), "plain n=3: reply: not as without the relay"), (("opens",), "plain: opened ([], []) without the relay")],
)
def test_a_relay_that_changes_something_without_a_fault_ends_the_run(tmp_path: Path, lies: tuple[str, ...], told: str) -> None:
    around = toy.surroundings()
    arenas = (Relayed(), Relayed())
    for arena in arenas:
        arena.lies = lies
    toy.source(tmp_path)
    (tmp_path / "mutants" / "relay").mkdir(parents=True)
    (tmp_path / "mutants" / "relay" / "replies.toml").write_text(SAME)
    assert (
        mutate(Options(subject="toy", root=tmp_path, relay=True), toy.world(tmp_path, *arenas), around) is ExitCode.BASELINE_RED
    )
    assert "probe transparent: FAILS: " in toy.printed(around)
    assert told in toy.printed(around)
    assert "KILLED" not in toy.printed(around)


def test_in_diff_is_refused_where_no_source_is_mutated(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, SAME, around=around, in_diff="main") is ExitCode.USAGE
    assert "--in-diff main: the relay's faults lie on no line of a source" in toy.printed(around)


def test_how_far_a_client_came_before_it_left_is_no_difference(tmp_path: Path) -> None:
    toy.source(tmp_path)
    plain = msgspec.structs.replace(toy.PLAIN, requests=(msgspec.structs.replace(toy.request(3, "x"), leave_after_chunks=1),))
    plan = Plan(tier=toy.Tier.MUTATION, recipe="toy@0", starts=(plain,), checks=())
    one = ToyArena().record(plan, Ground(overlay=tmp_path))
    (recording,) = one.recordings
    later = msgspec.structs.replace(recording.answers[0], reply=None)
    other = msgspec.structs.replace(one, recordings=(msgspec.structs.replace(recording, answers=(later,)),))
    assert list(differences(one, other)) == []
    lost = msgspec.structs.replace(later, failure="reset")
    other = msgspec.structs.replace(one, recordings=(msgspec.structs.replace(recording, answers=(lost,)),))
    assert list(differences(one, other)) == ["plain n=3: failure: not as without the relay"]
