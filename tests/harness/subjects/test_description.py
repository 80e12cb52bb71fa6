"""Descriptions are read strictly: what is misspelt or does not fit is named with file and key."""

import re

import msgspec
import pytest

from harness.errors import FileFormatError
from harness.records.recording import ArmFacts
from harness.subjects.declarations import Behaviour, Capability
from harness.subjects.description import bundled_names, load_description, placeholders

MINIMAL = """
name = "x"
family = "x"
[launch]
command = ["{python}", "-m", "engine", "-m", "{model}", "-p", "{port}"]
[ready]
line = 'port=(?P<port>\\d+)'
probe = "/health"
[accounting]
accepted_at_stop = "trimmed"
drafted = "proposed"
no_draft = "zeros"
budget_cap = "remaining"
first_token = "inside"
[arms.plain]
"""


def loaded(tmp_path, text):
    file = tmp_path / "engine.toml"
    file.write_text(text)
    return load_description(file)


def test_a_minimal_description_is_complete(tmp_path):
    description = loaded(tmp_path, MINIMAL)
    assert description.path == str(tmp_path / "engine.toml")
    assert description.source_root is None
    assert description.declared().arms == {"plain": ArmFacts()}
    assert description.declared().reports_rounds is False
    assert description.watched_paths == ("/dev/accel*", "*amdxdna*")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "x"', 'nmae = "x"', "unknown field `nmae`"),
        ('name = "x"', "name = 3", "Expected `str`, got `int` - at `$.name`"),
        ("[arms.plain]", "[arms.plain]\nflag = []", "unknown field `flag` - at `$.arms[...]`"),
        ('probe = "/health"', 'probe = "/health"\ntimeout_s = 0', "Expected `float` > 0.0 - at `$.ready.timeout_s`"),
        ('drafted = "proposed"', 'drafted = "guessed"', "Invalid enum value 'guessed' - at `$.accounting.drafted`"),
        ("[ready]", "[ready", "Expected ']' at the end of a table declaration"),
        ("{port}", "{prot}", "launch.command: '{prot}' is an unknown placeholder; use one of device, model"),
        ("{port}", "{port", "launch.command: ("),
        ("{port}", "{port:>5}", "a placeholder is {name} and nothing else"),
        ("(?P<port>\\d+)", "(\\d+)", r"ready.line: 'port=(\\d+)' needs a group (?P<port>\d+)"),
        ("(?P<port>\\d+)", "(?P<port>", "is no regular expression (missing ), unterminated subpattern"),
        (
            "[accounting]",
            "[accounting]\nnothing = 1",
            "unknown field `nothing` - at `$.accounting`",
        ),
        ('no_draft = "zeros"', 'no_draft = "no-line"', "Invalid enum value 'no-line' - at `$.accounting.no_draft`"),
        ('"{port}"]', '"{port}"]\nneeds_port = true\nhands_over_socket = true', "launch.needs_port: True does not go with"),
        ("[arms.plain]", '[arms.plain]\n[dialect]\nsilent = ["text"]', "Invalid enum value 'text'"),
        (
            "[arms.plain]",
            '[arms.plain]\n[dialect]\nname = "llama"\n[counts.fields]\ndrafted = "d"\naccepted = "a"',
            "counts.fields: 'd' has no use in dialect llama",
        ),
        ("[arms.plain]", "[arms.plain]\nreal_device = true", "arms.plain.real_device: True needs the path of the device"),
        ("[arms.plain]", '[arms.plain]\nexpect = "maybe"', "arms.plain.expect: 'maybe' is engaged or not-engaged"),
        ("[arms.plain]", '[arms.plain]\ndevice = "/tmp/x"', "arms.plain.device: '/tmp/x' must lie under /dev/"),
        ("[arms.plain]", '[arms.plain]\noptions = { model = ["-m"] }', "arms.plain.options: 'model' is filled by the launcher"),
        ("[arms.plain]", '[arms.plain]\noptions = { k = ["{j}"] }', "arms.plain.options.k: '{j}' is an unknown placeholder"),
        (
            "[arms.plain]",
            '[arms.plain]\n[capabilities.lookup]\nstop = "engaged"',
            "capabilities.lookup: 'lookup' is no arm's drafter",
        ),
        ("[arms.plain]", '[arms.plain]\n[capabilities.none]\nstopp = "engaged"', "Invalid enum value 'stopp'"),
        (
            "[arms.plain]",
            '[arms.plain]\n[warm]\nmodule = "other"',
            "launch.command: ('{python}', '-m', 'engine') must begin with",
        ),
        (
            "[arms.plain]",
            '[arms.plain]\n[warm]\nmodule = "engine"\npreload = ["numpy", "engine.loop"]',
            "warm.preload: 'engine.loop' belongs to the subject",
        ),
        (
            "[arms.plain]",
            '[arms.plain]\n[[known_faults]]\nid = "a"\ntitle = "t"\nlink = "l"\ncheck = "c"\narms = ["draft"]',
            "known_faults.a.arms: 'draft' is no arm of this description",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_file_and_key(tmp_path, old, new, said):
    assert old in MINIMAL
    with pytest.raises(FileFormatError, match=re.escape(said)) as raised:
        loaded(tmp_path, MINIMAL.replace(old, new))
    assert str(raised.value).startswith(str(tmp_path / "engine.toml"))


def test_a_name_that_is_not_bundled_lists_those_that_are():
    with pytest.raises(FileFormatError, match=r"^forward-server: no such subject; use one of .*forward-serve"):
        load_description("forward-server")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FileFormatError, match=r"nowhere.toml: cannot be read"):
        load_description(tmp_path / "nowhere.toml")


def test_a_relative_path_is_taken_from_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "engine.toml").write_text(MINIMAL + '[source]\nroot = "tree"\npackages = ["engine"]\n')
    monkeypatch.chdir(tmp_path)
    assert load_description("engine.toml").source_root == tmp_path / "tree"


def test_placeholders_are_found_once_each_in_order():
    assert placeholders(("{b}={a}", "{{literal}}", "{a}")) == ("b", "a")


@pytest.mark.parametrize("name", bundled_names())
def test_a_bundled_description_is_valid_and_declares_every_capability_of_every_drafter(name):
    description = load_description(name)
    assert description.name == name
    capabilities = description.declared().capabilities
    assert set(capabilities) == {arm.drafter for arm in description.arms.values()}
    for behaviours in capabilities.values():
        assert set(behaviours) == {capability.value for capability in Capability}


def test_a_subject_that_cannot_say_its_port_is_given_one_and_needs_no_line(tmp_path):
    ready = """line = 'port=(?P<port>\\d+)'\nprobe"""
    assert ready in MINIMAL
    description = loaded(tmp_path, MINIMAL.replace(ready, "probe").replace('"{port}"]', '"{port}"]\nneeds_port = true'))
    assert (description.ready.line, description.launch.needs_port) == ("", True)
    with pytest.raises(FileFormatError, match=r"ready.line: '' needs a group .*, or launch.needs_port where it does not say"):
        loaded(tmp_path, MINIMAL.replace(ready, "probe"))


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        ("", (False, False)),
        ("[counts]\nline_prefix = '[spec]'", (True, False)),
        ("[counts]\nline_prefix = '[spec]'\nusage_field = 'spec'", (True, True)),
        ("[counts.fields]\ndrafted = 'd'\naccepted = 'a'", (True, False)),
        ("[counts.metrics]\npath = '/metrics'\ndrafted = 'd'\naccepted = 'a'", (True, False)),
        (
            "[counts.fields]\ndrafted = 'd'\naccepted = 'a'\n[counts.metrics]\npath = '/m'\ndrafted = 'd'\naccepted = 'a'",
            (True, False),
        ),
        ("[dialect]\nname = 'sglang'", (True, False)),
        ("[dialect]\nname = 'llama'\n[counts.metrics]\npath = '/metrics'\ndrafted = 'd'\naccepted = 'a'", (True, True)),
    ],
)
def test_what_a_subject_says_of_its_drafts_makes_one_witness_or_two(tmp_path, counts, want):
    declared = loaded(tmp_path, MINIMAL + counts).declared()
    assert (declared.reports_counts, declared.seconds_counts) == want


def test_what_the_counts_mean_travels_with_the_recordings(tmp_path):
    text = MINIMAL.replace('drafted = "proposed"', 'drafted = "padded"').replace('"inside"', '"outside"')
    declared = loaded(tmp_path, text + '[dialect]\nsilent = ["stop_reason"]').declared()
    assert (declared.drafted, declared.first_token_outside, declared.silent) == ("padded", True, ("stop_reason",))
    assert loaded(tmp_path, MINIMAL + "samples_alike = false").declared().arms["plain"] == ArmFacts(samples_alike=False)


def test_forward_serve_is_described_as_it_is():
    description = load_description("forward-serve")
    declared = description.declared()
    assert declared.arms["plain"] == ArmFacts("none", "", "engaged")
    assert declared.arms["lookup"] == ArmFacts("lookup", "lookup-321", "engaged")
    assert declared.arms["draft"] == ArmFacts("dflash", "dflash", "engaged")
    assert declared.arms["dump-lookup"] == ArmFacts("lookup", "", "not-engaged", dumps_logits=True)
    assert declared.arms["cached-draft"] == ArmFacts("dflash", "dflash", prefix_cache=True)
    assert (declared.vocab_bound, declared.width, declared.reports_rounds, declared.returns_ids) == (256, 16, True, True)
    assert description.environment.values["OPENBLAS_NUM_THREADS"] == "1"
    assert description.capabilities["lookup"][Capability.TEMPERATURE] is Behaviour.ABSTAINS
    root = description.source_root
    assert root is not None
    assert (root / "forward_serve" / "__init__.py").is_file()
    assert msgspec.structs.replace(description, path="") != description


@pytest.mark.parametrize("dump", ["logits.npy", "../{id}.npy", "{id}/rows.npy", "{id}-{id}.npy"])
def test_a_file_of_logits_has_the_responses_id_in_its_name_and_lies_in_the_scratch_folder(tmp_path, dump):
    with pytest.raises(FileFormatError, match=r"engine\.toml: arms\.dump\.dump: .* is a file name with \{id\}"):
        loaded(tmp_path, MINIMAL + f'[arms.dump]\ndump = "{dump}"\n')
