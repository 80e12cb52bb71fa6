"""The simulated device: rounded as it says, rows that depend on no neighbour, one submit a pass, one open, real ones refused."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from forward_serve import device
from forward_serve.container import Container
from forward_serve.device import ACCEL_MAJOR, DEVICE_WIDTH, SimulatedDevice
from forward_serve.errors import EngineError, Refusal
from forward_serve.products import KEY_MULTIPLE, HostProducts, Products
from tests.forward_serve.models import NUM_IDS, Floats, new_base, one_by_one, some_ids


@pytest.fixture
def npu() -> Iterator[SimulatedDevice]:
    """A device that stands on /dev/null."""
    opened = SimulatedDevice.open(Path(os.devnull))
    yield opened
    opened.close()


@pytest.fixture
def submits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Every ioctl that is made, (descriptor, request), each one made for real too."""
    seen: list[tuple[int, int]] = []
    ioctl = fcntl.ioctl

    def recorded(descriptor: int, request: int) -> object:
        seen.append((descriptor, request))
        return ioctl(descriptor, request)

    monkeypatch.setattr(fcntl, "ioctl", recorded)
    return seen


def random_rows(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def in_bf16(values: NDArray[np.float32]) -> NDArray[np.float64]:
    return values.astype(ml_dtypes.bfloat16).astype(np.float64)


def test_a_linear_product_is_that_of_bf16_inputs_summed_in_float32(npu: SimulatedDevice) -> None:
    rows, weight = random_rows(1, 5, 256), random_rows(2, 96, 256)
    got = npu.linear(rows, npu.prepare(weight))
    np.testing.assert_allclose(got, in_bf16(rows) @ in_bf16(weight).T, atol=2e-5)
    unrounded = np.abs(got - HostProducts().linear(rows, weight)).max()
    assert unrounded > 1e-3  # the inputs were rounded, and not the sums alone


def test_attention_rounds_the_inputs_of_both_its_products(npu: SimulatedDevice) -> None:
    query, keys, values = random_rows(3, 1, 2, 2, 64), random_rows(4, 2, 64, 64), random_rows(5, 2, 64, 64)
    got = npu.attend(query, keys, values, 40)
    want = np.empty(query.shape)
    for kv_head, group in np.ndindex(2, 2):
        scaled = in_bf16(query[0, kv_head, group] * np.float32(64**-0.5))
        scores = in_bf16(keys[kv_head, :41]) @ scaled
        shares = np.exp(scores - scores.max())
        mixed = in_bf16(shares.astype(np.float32)) @ in_bf16(values[kv_head, :41])
        want[0, kv_head, group] = mixed / shares.sum()
    np.testing.assert_allclose(got, want, atol=1e-3)  # a share on the edge may round to its neighbour
    assert np.abs(got - HostProducts().attend(query, keys, values, 40)).max() > 1e-4


def test_a_device_is_products_of_its_own_width() -> None:
    products: Products = SimulatedDevice(Path(os.devnull), -1)
    assert (products.width, DEVICE_WIDTH) == (8, 8)
    assert products.key_multiple >= products.width


@pytest.mark.parametrize("width", range(1, DEVICE_WIDTH + 1))
def test_a_token_has_the_same_bits_at_each_offset_of_a_device_pass_of_this_width(
    npu: SimulatedDevice, container: Container, width: int
) -> None:
    ids, other_ids = some_ids(container, NUM_IDS), some_ids(container, DEVICE_WIDTH, seed=1)
    base = new_base(container, products=npu)
    want = one_by_one(base, ids)
    for position in (width - 1, KEY_MULTIPLE - 1, KEY_MULTIPLE, 2 * KEY_MULTIPLE + 3):
        for offset in range(width):
            start = position - offset
            base.truncate(start)
            got = base.forward([*ids[start : position + 1], *other_ids[: width - offset - 1]])
            assert got[: offset + 1].tobytes() == want[start : position + 1].tobytes(), (position, offset)
        base.truncate(start)
        base.prefill(ids[start:])


def test_a_forward_on_the_device_is_near_the_host_s_and_not_equal(npu: SimulatedDevice, container: Container) -> None:
    ids = some_ids(container, 40)
    got, want = new_base(container, products=npu).prefill(ids), new_base(container).prefill(ids)
    assert 0 < np.abs(got - want).max() < 0.1


def test_the_head_that_drafters_use_stays_on_the_host(npu: SimulatedDevice, grouped: Container) -> None:
    hidden = random_rows(6, 2, 256)
    assert new_base(grouped, products=npu).head(hidden).tobytes() == new_base(grouped).head(hidden).tobytes()


def test_each_pass_is_one_submit_prefill_chunks_of_eight_too(
    npu: SimulatedDevice, grouped: Container, submits: list[tuple[int, int]]
) -> None:
    base = new_base(grouped, [0], products=npu)
    numbers = []
    for ids in ([1] * 8, [1] * 9, [1]):
        before = len(submits)
        base.prefill(ids)
        numbers.append(len(submits) - before)
    base.forward([1, 2, 3])
    base.head(random_rows(7, 1, 256))  # a drafter's work
    base.truncate(2)
    assert (numbers, len(submits)) == ([1, 2, 1], 5)
    assert {request for _, request in submits} == {device.SUBMIT}
    assert len({descriptor for descriptor, _ in submits}) == 1


def test_a_pass_that_is_refused_submits_nothing(npu: SimulatedDevice, grouped: Container, submits: list[tuple[int, int]]) -> None:
    base = new_base(grouped, products=npu)
    with pytest.raises(EngineError, match="9 rows: the products take 8"):
        base.forward([1] * 9)
    assert submits == []


def test_a_device_is_opened_once_to_read_and_write_and_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Path, int]] = []
    really = os.open

    def recorded(path: Path, flags: int) -> int:
        opened.append((path, flags))
        return really(path, flags)

    path = tmp_path / "node"
    path.touch()
    monkeypatch.setattr(os, "open", recorded)
    npu = SimulatedDevice.open(path)
    npu.begin_pass()
    npu.close()
    assert opened == [(path, os.O_RDWR | os.O_CLOEXEC)]


def test_a_device_that_goes_away_fails_the_pass_by_name(monkeypatch: pytest.MonkeyPatch, npu: SimulatedDevice) -> None:
    def gone(_descriptor: int, _request: int) -> None:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    monkeypatch.setattr(fcntl, "ioctl", gone)
    with pytest.raises(EngineError, match=r"^/dev/null: submit: No such device; the device is gone, start again$"):
        npu.begin_pass()


@pytest.mark.parametrize(("kind", "said"), [("missing", "No such file or directory"), ("folder", "Is a directory")])
def test_a_path_that_cannot_be_opened_is_refused_by_name(tmp_path: Path, kind: str, said: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    with pytest.raises(Refusal, match=f"^--device={path}: {said}; the simulated device is a path that can be opened"):
        SimulatedDevice.open(path)


def accelerator_stat(number: int) -> os.stat_result:
    """What stat says of a character device of the accel major."""
    fields = list(os.stat(os.devnull))  # noqa: PTH116
    extra = {"st_rdev": os.makedev(ACCEL_MAJOR, number), "st_mode": fields[0]}
    return os.stat_result(fields, extra)


def test_a_real_accelerator_is_refused_by_its_number_and_never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "stat", lambda _path: accelerator_stat(3))
    monkeypatch.setattr(os, "open", lambda *_arguments: pytest.fail("an accelerator was opened"))
    with pytest.raises(Refusal, match=r"^--device=/dev/accel/accel3: character device 261:3 is an accelerator; this backend sim"):
        SimulatedDevice.open(Path("/dev/accel/accel3"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes; the same rule is tested on a made-up stat above")
def test_a_node_of_the_accel_major_is_refused_under_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, link = tmp_path / "node", tmp_path / "link"
    os.mknod(node, 0o600 | 0o020000, os.makedev(ACCEL_MAJOR, 0))
    link.symlink_to(node)
    monkeypatch.setattr(os, "open", lambda *_arguments: pytest.fail("an accelerator was opened"))
    for path in (node, link):
        with pytest.raises(Refusal, match=f"^--device={path}: character device 261:0 is an accelerator"):
            SimulatedDevice.open(path)
