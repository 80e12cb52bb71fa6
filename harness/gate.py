"""The gate, whole: fabricate, plan, record, judge. What both faces (`draftproof run` and `pytest harness`) call."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.fabricate.store import fabricate, pack_twin, twin
from harness.plans.build import build_plan, only_request
from harness.plans.registry import SLICES
from harness.records.finding import Judgement
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Tier
from harness.records.recording import Recording, Run
from harness.runs.driver import record_plan
from harness.subjects.column import Launcher
from harness.subjects.description import Description, load_description
from harness.tracing.decoys import control

ROOT = Path(__file__).parents[1]
DEFAULT_RECIPE = ROOT / "fixtures" / "recipes" / "tiny.toml"


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What a gate run is asked for."""

    subject: str = "forward-serve"
    tier: Tier = Tier.GATE
    checks: tuple[str, ...] = ()  # () = all
    request: str = ""  # only this request id
    traced: bool = True
    recipe: Path = DEFAULT_RECIPE


@dataclass(frozen=True, slots=True)
class Located:
    """Finds the directories of fabricated models, packs and their twins."""

    fixture: Fixture

    def model(self, name: str) -> Path:
        """Return the directory of a container or twin."""
        return twin(self.fixture, name)

    def pack(self, name: str) -> Path:
        """Return the directory of a pack or pack twin."""
        return pack_twin(self.fixture, name)


def plan_of(options: GateOptions, fixture: Fixture) -> Plan:
    """Build the plan that the options ask for."""
    wanted: Collection[str] = options.checks or tuple(SLICES)
    plan = build_plan(fixture, options.tier, SLICES, wanted)
    return only_request(plan, options.request) if options.request else plan


def record(
    options: GateOptions,
    progress: Callable[[Recording], None] = lambda _recording: None,
    fixture: Fixture | None = None,
    overlay: Path | None = None,
) -> Run:
    """Fabricate what is missing, drive the subject through the plan, and return the run, unjudged."""
    began = time.monotonic()
    description = load_description(options.subject)
    fixture = fixture or fabricate(options.recipe)
    plan = plan_of(options, fixture)
    with tempfile.TemporaryDirectory(prefix="draftproof-") as scratch:
        workdir = Path(scratch)
        tracer_control, decoys = control(workdir, description.watched_paths) if options.traced else (None, ())
        recordings = record_plan(
            plan,
            description.name,
            Located(fixture),
            lambda core: Launcher(description, workdir, core=core, traced=options.traced),
            overlay=overlay,
            progress=progress,
        )
    return Run(
        plan=plan,
        subject=description.name,
        declared=description.declared(),
        recordings=recordings,
        tracer_control=tracer_control,
        decoys=decoys,
        seconds=time.monotonic() - began,
    )


def judged(run: Run) -> Judgement:
    """Judge a run by the checks that its plan names."""
    return judge(run, ALL_CHECKS)


__all__ = ["Description", "GateOptions", "judged", "plan_of", "record"]
