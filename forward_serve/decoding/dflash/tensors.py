"""The tensors of a draft pack: one safetensors file in, float32 arrays out. Knows names and shapes only as it is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors
from numpy.typing import NDArray

from forward_serve.errors import Refusal

Shape = tuple[int, ...]


def read_tensors(path: Path, shapes: Mapping[str, Shape]) -> dict[str, NDArray[np.float32]]:
    """Read exactly the tensors named in `shapes`, stored as bf16, as float32 arrays of these shapes.

    Opens the file once. Raises Refusal for a file that is damaged, a tensor that is missing, misnamed, not expected, of another
    dtype or shape, or not finite.
    """
    found = _read(path)
    for name in sorted(shapes.keys() - found.keys()):
        if (misnamed := _other_name(name)) in found:
            raise Refusal(f"{path}: {misnamed} is stored under a wrong name, a pack calls it {name}; rename the tensor")
        raise Refusal(f"{path}: {name} is missing, shape {list(shapes[name])} expected; give a complete pack")
    for name in sorted(found.keys() - shapes.keys()):
        raise Refusal(f"{path}: {name} is not a tensor of such a pack and would be dropped; give a pack without it")
    return {name: _decode(path, name, found[name], shape) for name, shape in shapes.items()}


def _other_name(name: str) -> str:
    """Return the name that a careless writer would give: with `.weight` where a pack has none, and the other way round."""
    return name.removesuffix(".weight") if name.endswith(".weight") else f"{name}.weight"


def _read(path: Path) -> dict[str, dict[str, object]]:
    try:
        return dict(safetensors.deserialize(path.read_bytes()))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise Refusal(f"{path}: cannot be read ({error.strerror}); give a directory with a DFlash pack") from error
    except safetensors.SafetensorError as error:
        raise Refusal(f"{path}: is not a whole safetensors file ({error}); copy the pack again") from error


def _decode(path: Path, name: str, tensor: Mapping[str, object], shape: Shape) -> NDArray[np.float32]:
    """Widen bf16 to float32: its 16 bits are the upper half (a shift, since the library's own way imports more)."""
    if tensor["dtype"] != "BF16":
        raise Refusal(f"{path}: {name} has dtype {tensor['dtype']}, a pack stores BF16; convert the pack")
    if tensor["shape"] != list(shape):
        raise Refusal(f"{path}: {name} has shape {tensor['shape']}, config.json makes it {list(shape)}; correct the pack")
    bits = np.frombuffer(tensor["data"], "<u2").astype(np.uint32)  # type: ignore[call-overload]
    bits <<= np.uint32(16)
    values: NDArray[np.float32] = bits.view(np.float32)
    if not np.isfinite(values).all():
        raise Refusal(f"{path}: {name} holds a value that is not finite; copy the pack again")
    return values.reshape(shape)
