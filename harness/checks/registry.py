"""All laws, in the order in which they are read: the controls first, then as docs and reports list them."""

from __future__ import annotations

from harness.checks import (
    capabilities,
    controls,
    counts,
    cuts,
    devices,
    fallback,
    grammar,
    known,
    lengths,
    logprobs,
    neighbours,
    oracle,
    order,
    path,
    prefix,
    refusals,
    replies,
)
from harness.checks.check import Check
from harness.checks.statistical import sampled, uncertified

_ORDER = (
    "control-repeat",
    "control-tracer",
    "control-counts",
    "control-canary",
    "same-reply",
    "same-sampled-reply",
    "oracle-reply",
    "budget-prefix",
    "stop-cut",
    "end-token",
    "context-end",
    "stream-join",
    "drafter-independence",
    "engaged-exactly",
    "abstained",
    "drafts-made",
    "exact-counts",
    "exact-drafts",
    "accounting",
    "hit-miss-decoy",
    "accept-lengths",
    "fallback-round",
    "request-order",
    "prefix-cache",
    "cancel-frees",
    "concurrent-neighbours",
    "refusals",
    "logprobs-target",
    "grammar-valid",
    "device-opens",
    "device-passes",
    "capabilities",
    "sampled-distribution",
    "near-ties",
    "known-faults",
)


def _in_order(*families: tuple[Check, ...]) -> tuple[Check, ...]:
    checks = [check for family in families for check in family]
    by_id = {check.id: check for check in checks}
    assert len(by_id) == len(checks), "two checks have one id"
    assert set(by_id) == set(_ORDER), f"checks without a place, or places without a check: {sorted(set(by_id) ^ set(_ORDER))}"
    return tuple(by_id[check_id] for check_id in _ORDER)


ALL_CHECKS: tuple[Check, ...] = _in_order(
    controls.CHECKS,
    replies.CHECKS,
    cuts.CHECKS,
    path.CHECKS,
    lengths.CHECKS,
    oracle.CHECKS,
    counts.CHECKS,
    fallback.CHECKS,
    order.CHECKS,
    prefix.CHECKS,
    neighbours.CHECKS,
    refusals.CHECKS,
    logprobs.CHECKS,
    grammar.CHECKS,
    devices.CHECKS,
    capabilities.CHECKS,
    sampled.CHECKS,
    uncertified.CHECKS,
    known.CHECKS,
)
