"""From a planned start to one command line: nothing is missing, nothing is silently dropped."""

from pathlib import Path

import msgspec
import pytest

from harness.errors import UsageError
from harness.records.plan import Start
from harness.subjects.description import load_description
from harness.subjects.launch import Places, render, warm_environment

FORWARD = load_description("forward-serve")
PLACES = Places(python="/py", model=Path("/m"), pack=Path("/p"), scratch=Path("/s"), port=4242)
HEAD = ("/py", "-m", "forward_serve", "-m", "/m", "-p", "4242")


def start(arm, **parameters):
    return Start(id="one", arm=arm, model="tiny", requests=(), parameters=parameters)


def argv(arm, **parameters):
    return render(FORWARD, start(arm, **parameters), PLACES, {}).argv


@pytest.mark.parametrize(
    ("arm", "parameters", "words"),
    [
        ("plain", {}, ()),
        ("lookup", {"k": 4}, ("--spec-lookup", "4")),
        ("draft", {}, ("--spec-draft", "/p")),
        ("draft", {"k": 3}, ("--spec-draft", "/p", "--spec-draft-k", "3")),
        ("draft", {"draft_k": 3}, ("--spec-draft", "/p", "--spec-draft-k", "3")),
        (
            "lookup",
            {"k": 4, "fallback_below": 2.5, "fallback_window": 5},
            ("--spec-lookup", "4", "--spec-fallback", "2.5", "--spec-fallback-window", "5"),
        ),
        ("plain", {"fail_pass": 7}, ("--fail-pass", "7")),
        ("plain", {"flag": "--no-such-flag"}, ("--no-such-flag",)),
        ("dump", {}, ("--dump-logits", "/s")),
        ("npu", {}, ("--backend", "npu", "--device", "/dev/accel/accel0")),
    ],
)
def test_flags_stand_behind_the_command_of_all_arms(arm, parameters, words):
    assert argv(arm, **parameters) == (*HEAD, *words)


@pytest.mark.parametrize(
    ("arm", "parameters", "said"),
    [
        ("lookup", {}, "arm 'lookup' of start 'one': placeholder {k} has no value; give it in the start's parameters"),
        ("plain", {"k": 4}, "arm 'plain' of start 'one': no flag takes parameter 'k'; this line takes none"),
        ("lookup", {"k": 4, "model": "/x"}, "parameter 'model' is filled by the launcher; leave it out"),
        ("nope", {}, "arm 'nope' is not described; use one of plain, lookup, draft"),
    ],
)
def test_a_parameter_that_is_missing_or_goes_nowhere_is_an_error(arm, parameters, said):
    with pytest.raises(UsageError) as raised:
        argv(arm, **parameters)
    assert said in str(raised.value)


def test_a_draft_arm_needs_a_pack():
    with pytest.raises(UsageError, match=r"placeholder \{pack\} has no value; give a pack directory"):
        render(FORWARD, start("draft"), Places("/py", Path("/m"), None, Path("/s")), {})


def test_only_an_arm_with_a_device_is_given_one():
    assert render(FORWARD, start("npu"), PLACES, {}).device == "/dev/accel/accel0"
    assert render(FORWARD, start("lookup", k=1), PLACES, {}).device == ""


def test_the_environment_is_what_is_allowed_then_what_is_set():
    inherited = {"PATH": "/bin", "OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "8", "SECRET": "x", "PYTHONPATH": "/x"}
    got = render(FORWARD, start("plain"), PLACES, inherited).environment
    assert got == {
        "PATH": "/bin",
        "OPENBLAS_CORETYPE": "Haswell",
        "OPENBLAS_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(FORWARD.source_root),
    }
    assert "PYTHONPATH" not in warm_environment(FORWARD, inherited)


def test_an_overlay_replaces_the_source_root(tmp_path):
    (tmp_path / "forward_serve").mkdir()
    (tmp_path / "forward_serve" / "__init__.py").touch()
    places = Places("/py", Path("/m"), None, Path("/s"), overlay=tmp_path)
    command = render(FORWARD, start("plain"), places, {})
    assert command.path_entries == (str(tmp_path),)
    assert command.environment["PYTHONPATH"] == str(tmp_path)


def test_an_overlay_of_a_subject_without_source_is_refused(tmp_path):
    closed = msgspec.structs.replace(FORWARD, source=None)
    with pytest.raises(UsageError, match=r"no source tree is declared; add \[source\]"):
        render(closed, start("plain"), Places("/py", Path("/m"), None, Path("/s"), overlay=tmp_path), {})
