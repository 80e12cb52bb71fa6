"""The slices of all checks, in the order in which their starts are made: the seed plan's first, then what shares its starts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from harness.plans import (
    capabilities,
    controls,
    cuts,
    devices,
    fallback,
    grammar,
    known,
    lengths,
    logprobs,
    near_ties,
    neighbours,
    oracle,
    order,
    path,
    prefix,
    refusals,
    replies,
    sampled,
)
from harness.plans.build import Slice


def _joined(*families: Mapping[str, Slice]) -> Mapping[str, Slice]:
    ids = list(chain.from_iterable(families))
    assert len(set(ids)) == len(ids), "two slices have one check's id"
    return MappingProxyType({check: slice_of for family in families for check, slice_of in family.items()})


SLICES: Mapping[str, Slice] = _joined(
    replies.SLICES,
    path.SLICES,
    lengths.SLICES,
    oracle.SLICES,
    controls.SLICES,
    devices.SLICES,
    cuts.SLICES,
    fallback.SLICES,
    order.SLICES,
    prefix.SLICES,
    neighbours.SLICES,
    refusals.SLICES,
    logprobs.SLICES,
    grammar.SLICES,
    capabilities.SLICES,
    sampled.SLICES,
    near_ties.SLICES,
    known.SLICES,
)
