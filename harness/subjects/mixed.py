"""A launcher that starts some subjects cold, as a user would, and forks all others from a warm parent."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from harness.records.plan import Plan, Start
from harness.records.recording import Declared
from harness.subjects.column import Launcher
from harness.subjects.subject import Ended, RunningSubject


class MixedLauncher:
    """Hands each start to one of two launchers on the same core. Its user starts one subject at a time."""

    def __init__(self, cold: Launcher, warm: Launcher, cold_starts: Collection[str]) -> None:
        """Own both launchers; `cold_starts` are the ids of what the first one starts."""
        self._cold = cold
        self._warm = warm
        self._cold_starts = frozenset(cold_starts)

    def start(
        self,
        start: Start,
        model: Path,
        pack: Path | None = None,
        overlay: Path | None = None,
        *,
        cpu_budget_s: float | None = None,
        wall_budget_s: float | None = None,
    ) -> RunningSubject:
        """Start a subject and wait until it is ready, as `Launcher.start`."""
        launcher = self._of(start)
        return launcher.start(start, model, pack, overlay, cpu_budget_s=cpu_budget_s, wall_budget_s=wall_budget_s)

    def refused(self, start: Start, model: Path, pack: Path | None = None, overlay: Path | None = None) -> Ended:
        """Start what must refuse to start, and wait for its end."""
        return self._of(start).refused(start, model, pack, overlay)

    def close(self) -> None:
        """End everything that either launcher started."""
        try:
            self._warm.close()
        finally:
            self._cold.close()

    def _of(self, start: Start) -> Launcher:
        return self._cold if start.id in self._cold_starts else self._warm


def cold_starts(plan: Plan, declared: Declared) -> frozenset[str]:
    """Return the ids of the starts that are made cold in any case.

    These are the first start with each drafter (and with none), the first on a device, and the first that must refuse.
    """
    first: dict[str, str] = {}
    for start in plan.starts:
        facts = declared.facts_of(start)
        first.setdefault("refused" if start.expect == "refused" else facts.device or facts.drafter, start.id)
    return frozenset(first.values())
