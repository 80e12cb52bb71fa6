"""The runner of llama.cpp's server: which parameters its flags set, and what it refuses, with a stand-in for the wheel."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.subjects.description import load_description
from harness.subjects.families.llama_server import common_params, main, parser


def wheel(server: Any = None) -> Any:
    """A stand-in for the xllamacpp module: parameters are what is set on them."""

    def params() -> Any:
        names = ("ngram_simple", "ngram_map_k", "ngram_map_k4v", "ngram_mod")
        draft = SimpleNamespace(mparams=SimpleNamespace(path=""), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())
        drafters = {name: SimpleNamespace() for name in names}
        return SimpleNamespace(
            model=SimpleNamespace(),
            cpuparams=SimpleNamespace(),
            cpuparams_batch=SimpleNamespace(),
            speculative=SimpleNamespace(types=[], draft=draft, **drafters),
        )

    types = {f"COMMON_SPECULATIVE_TYPE_{name}": name for name in ("NONE", "NGRAM_SIMPLE", "NGRAM_MOD", "DRAFT_SIMPLE", "COUNT")}
    return SimpleNamespace(
        CommonParams=params,
        Server=server,
        common_speculative_type=SimpleNamespace(**types),
        llama_flash_attn_type=SimpleNamespace(
            LLAMA_FLASH_ATTN_TYPE_AUTO="auto", LLAMA_FLASH_ATTN_TYPE_DISABLED="off", LLAMA_FLASH_ATTN_TYPE_ENABLED="on"
        ),
        ggml_type=SimpleNamespace(GGML_TYPE_F32="f32", GGML_TYPE_F16="f16"),
    )


def params_of(*words: str) -> Any:
    return common_params(wheel(), parser().parse_args(["--model", "m.gguf", *words]))


def test_without_flags_it_is_the_binary_s_default_on_a_port_that_the_system_picks() -> None:
    got = params_of()
    assert (got.model.path, got.hostnames, got.port, got.n_parallel, got.n_ctx) == ("m.gguf", ["127.0.0.1"], 0, 1, 0)
    assert (got.flash_attn_type, got.cache_type_k, got.warmup, got.cache_prompt, got.fit_params) == (
        "auto",
        "f16",
        True,
        True,
        True,
    )
    assert got.speculative.types == []


def test_the_settings_that_make_it_bit_comparable() -> None:
    got = params_of("--flash-attn", "off", "--cache-type-k", "f32", "--cache-type-v", "f32", "--fit", "off", "--no-cache-prompt")
    assert (got.flash_attn_type, got.cache_type_k, got.cache_type_v) == ("off", "f32", "f32")
    assert (got.fit_params, got.cache_prompt) == (False, False)


def test_drafters_are_named_together_and_sized() -> None:
    words = ["--spec-type", "ngram-simple,draft-simple", "--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "8"]
    got = params_of(*words, "--spec-draft-model", "d.gguf", "--spec-draft-n-max", "4", "--spec-draft-type-k", "f32").speculative
    assert got.types == ["NGRAM_SIMPLE", "DRAFT_SIMPLE"]
    assert (got.ngram_simple.size_n, got.ngram_simple.size_m, got.ngram_simple.min_hits) == (2, 8, 1)
    assert (got.draft.mparams.path, got.draft.n_max, got.draft.cache_type_k) == ("d.gguf", 4, "f32")


def test_a_drafter_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match="--spec-type magic: no such drafter; use draft-simple, ngram-mod, ngram-simple, none"):
        params_of("--spec-type", "magic")


def test_every_launch_line_of_the_description_is_understood() -> None:
    description = load_description("llama-server")
    values = {"python": "p", "model": "m", "pack": "d", "port": "0", "k": "4", "draft_k": "3"}
    for arm in description.arms.values():
        words = (*description.launch.command[3:], *description.launch.bit_comparable, *arm.flags)
        options = (word for option in arm.options.values() for word in option)
        assert parser().parse_args([word.format_map(values) for word in (*words, *options)]).model.parts[0] == "m"


def test_a_host_that_is_not_loopback_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--model", "m", "--host", "0.0.0.0"])  # noqa: S104 - what is refused
    assert ended.value.code == 2
    assert "--host" in capsys.readouterr().err


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"")
    return path


@pytest.mark.usefixtures("unblocked")
def test_a_model_that_is_not_there_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", str(tmp_path / "none.gguf")], wheel) == 2
    assert capsys.readouterr().err == f"llama_server: --model {tmp_path}/none.gguf: is no file; give a GGUF\n"


@pytest.mark.usefixtures("unblocked")
def test_a_missing_wheel_is_refused_with_what_to_install(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def load() -> Any:
        raise ImportError("No module named 'xllamacpp'")

    assert main(["--model", str(model)], load) == 2
    assert "pip install 'draftproof[llama]'" in capsys.readouterr().err


@pytest.mark.usefixtures("unblocked")
def test_a_server_that_does_not_start_is_refused_in_one_line(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def server(_params: Any) -> Any:
        raise RuntimeError("Failed to init server,\nplease check")

    assert main(["--model", str(model)], lambda: wheel(server)) == 2
    assert capsys.readouterr().err == f"llama_server: {model}: not served (Failed to init server, please check)\n"


@pytest.mark.usefixtures("unblocked")
def test_it_says_its_port_and_serves_until_sigterm(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def server(_params: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)  # waits, blocked, until it is asked for
        return SimpleNamespace(listening_address="http://127.0.0.1:4711")

    assert main(["--model", str(model), "--spec-type", "ngram-simple"], lambda: wheel(server)) == 0
    assert capsys.readouterr().err == "[ready] port=4711 drafters=ngram-simple\n"
