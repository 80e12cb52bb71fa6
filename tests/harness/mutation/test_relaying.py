"""A subject behind the relay: its launch line, the settings, the arms that are left, and which faults it can have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.mutation.entry import Applies, Entry, Kind, Mutant, Shows, faults_of
from harness.mutation.relaying import NEUTRAL, PORT, copy_code, fit, reduced, relayed, settings_of
from harness.records.plan import Start
from harness.subjects.declarations import Dialect
from harness.subjects.description import Description, load_description
from harness.subjects.launch import Places, render

ENGINE, LLAMA, SGLANG = (load_description(name) for name in ("forward-serve", "llama-server", "sglang"))
FAKE = load_description(Path(__file__).parents[1] / "subjects" / "fake" / "fake.toml")


def entry(**fields: Any) -> Entry:
    relay = fields.pop("relay", {"fault": "token-dropped"})
    killers = fields.pop("killers", ("same-reply",))
    return Entry(id="x", title="t", why="w", kind=Kind.SEED, killers=killers, relay=relay, **fields)


def mutant(**fields: Any) -> Mutant:
    return Mutant(entry(**fields), "replies", ())


def line_of(description: Description, port: int = 0) -> list[str]:
    places = Places(python="/usr/bin/python3", model=Path("/m"), pack=None, scratch=Path("/s"), port=port)
    return list(render(description, Start(id="a", arm="plain", model="m", requests=()), places, {}).argv)


def test_the_launch_line_behind_the_relay_is_the_subjects_own_but_for_its_port(tmp_path: Path) -> None:
    settings = tmp_path / "{odd}.json"
    words = line_of(relayed(FAKE, settings), 8123)
    split = words.index("--")
    assert words[:5] == ["/usr/bin/python3", "-I", "-S", "-B", "-c"]
    assert words[split - 2 : split] == [str(settings), "8123"]
    assert words[split + 1 :] == [word if word != "0" else PORT for word in line_of(FAKE)]


def test_nothing_is_handed_over_and_nothing_is_forked_behind_the_relay(tmp_path: Path) -> None:
    one = relayed(ENGINE, tmp_path / "relay.json")
    assert (one.launch.hands_over_socket, one.launch.is_wrapper, one.warm) == (False, True, None)
    assert msgspec.structs.replace(one, launch=ENGINE.launch, warm=ENGINE.warm) == ENGINE


def test_the_settings_say_how_the_subject_speaks_and_nothing_of_its_arms() -> None:
    settings = json.loads(settings_of(LLAMA, NEUTRAL))
    assert (settings["fault"], settings["dialect"], settings["with_stdout"]) == ({"fault": "nothing"}, "llama", False)
    assert settings["metrics"]["path"] == "/metrics"
    assert settings["metrics"]["counters"]["drafted"] == "llamacpp:spec_decode_num_draft_tokens_total"
    engine = json.loads(settings_of(ENGINE, {"fault": "line-times", "times": 2}))
    assert (engine["fault"]["times"], engine["line_prefix"], engine["metrics"]) == (2, "[spec]", None)


def test_each_part_is_played_by_the_first_arm_that_can_and_known_faults_go_with_their_arms() -> None:
    few = reduced(LLAMA, ("plain", "lookup", "npu"))
    assert list(few.arms) == ["plain", "ngram-simple"]
    assert {arm for fault in few.known_faults for arm in (*fault.arms, *fault.at_times)} == {"plain", "ngram-simple"}
    assert "ngram-cache-learns-beyond-its-longest-request-alone" not in {fault.id for fault in few.known_faults}


@pytest.mark.parametrize(
    ("fields", "description", "why"),
    [
        ({}, ENGINE, ""),
        ({}, SGLANG, "the relay does not speak sglang"),
        ({"applies": Applies(dialects=(Dialect.LLAMA,))}, ENGINE, "it is for the dialect llama"),
        ({"applies": Applies(subjects=("llama-server",))}, ENGINE, "it is for llama-server"),
        ({"applies": Applies(subjects=("llama-server",))}, LLAMA, ""),
        ({"applies": Applies(shows=(Shows.METRICS,))}, ENGINE, "it needs metrics, which the subject does not show"),
        (
            {"applies": Applies(shows=(Shows.PATHS, Shows.ROUNDS))},
            LLAMA,
            "it needs paths, rounds, which the subject does not show",
        ),
        ({"applies": Applies(shows=(Shows.IDS, Shows.COUNTS))}, LLAMA, ""),
        ({"arms": ("cached",)}, LLAMA, "no arm plays cached"),
    ],
)
def test_a_fault_that_a_subject_cannot_have_is_told_apart_with_the_reason(
    fields: dict[str, Any], description: Description, why: str
) -> None:
    found = fit([mutant(**fields)], description, {})
    assert dict(found.not_applicable) == ({"x": why} if why else {})
    assert len(found.mutants) == (not why)


def test_a_fault_whose_killer_the_subject_cannot_show_is_not_applicable_and_one_with_an_unknown_killer_is_left_to_lint() -> None:
    found = fit([mutant()], ENGINE, {"same-reply": "it says nothing"})
    assert dict(found.not_applicable) == {"x": "same-reply is not tested: it says nothing"}
    both = fit(
        [mutant(killers=("same-reply", "stop-cut"))], ENGINE, {"stop-cut": "it knows no stop", "same-reply": "it says nothing"}
    )
    assert dict(both.not_applicable) == {
        "x": "same-reply is not tested: it says nothing; stop-cut is not tested: it knows no stop"
    }
    assert fit([mutant()], ENGINE, {"stop-cut": "it knows no stop"}).not_applicable == {}


def test_parts_of_a_plan_become_the_subjects_own_arms() -> None:
    (one,) = fit([mutant(arms=("plain", "lookup"))], reduced(LLAMA, ("plain", "lookup")), {}).mutants
    assert one.entry.arms == ("plain", "ngram-simple")


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (entry(relay={"fault": "token-tripled"}), "relay: fault='token-tripled' is unknown"),
        (entry(file="a.py", find="x", replace="y"), "give exactly one of file/find/replace, edits, patch, env, relay"),
        (
            entry(relay={}, file="a.py", find="x", replace="y", applies=Applies(subjects=("a",))),
            "applies: is for faults of the relay",
        ),
    ],
)
def test_an_entry_of_the_relay_that_breaks_a_rule_is_told_so(broken: Entry, rule: str) -> None:
    assert [fault for fault in faults_of(broken) if fault.startswith(rule)]


def test_an_entry_of_the_relay_breaks_no_rule() -> None:
    assert faults_of(entry(applies=Applies(dialects=(Dialect.OPENAI,)))) == []


def test_the_copy_of_the_relays_code_is_all_that_its_process_imports(tmp_path: Path) -> None:
    code = copy_code(tmp_path / "relay")
    words = line_of(relayed(FAKE, tmp_path / "relay.json", code))
    found = "import harness.mutation.relay.process as one; print(one.__file__)"
    boot = words[5].replace("sys.exit(main(sys.argv[1:]))", found)
    done = subprocess.run([sys.executable, *words[1:5], boot], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == str(code / "harness" / "mutation" / "relay" / "process.py")
