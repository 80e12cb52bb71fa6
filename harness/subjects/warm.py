"""The warm launcher: one column for all subjects, whose keeper has imported their libraries and forks each in milliseconds.

A subject is the same to its driver as a cold one. It is forked from one parent, so all share its hash seed; what a library
computes at import is shared too, which is why the subject's own modules are never imported beforehand.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError
from harness.subjects.column import Launcher
from harness.subjects.description import Description
from harness.subjects.launch import Command, warm_environment
from harness.subjects.process_tree import Job, ProcessTree, WarmParent
from harness.subjects.tables import Warm
from harness.tracing.machine import Machine

COMMAND_HEAD = 3  # python -m module


class WarmLauncher(Launcher):
    """Forks subjects out of a warm parent; a column that is no longer sound is replaced before the next start."""

    def __init__(
        self,
        description: Description,
        workdir: Path,
        core: int | None = 0,
        *,
        traced: bool = True,
        machine: Machine | None = None,
    ) -> None:
        """Prepare as a cold launcher does. Raises UsageError for a description without a [warm] table."""
        if description.warm is None:
            raise UsageError(f"{description.path}: no [warm] table, so no warm parent can be made; start it cold")
        self._warm: Warm = description.warm
        super().__init__(description, workdir, core, traced=traced, machine=machine)

    def warm_up(self) -> None:
        """Start the column now, so that the first subject does not wait for it."""
        self._tree = self._ready_tree()

    def _job(self, command: Command, folder: str, cpu_budget_s: float | None) -> Job:
        job = super()._job(command, folder, cpu_budget_s)
        return Job(
            argv=job.argv,
            environment=job.environment,
            folder=folder,
            module=self._warm.module,
            arguments=command.argv[COMMAND_HEAD:],
            path_entries=command.path_entries,
            log_stdout=job.log_stdout,
            cpu_budget_s=cpu_budget_s,
            device=job.device,
        )

    def _ready_tree(self) -> ProcessTree:
        if self._tree is not None and self._tree.is_sound:
            return self._tree
        if self._tree is not None:
            self._tree.close()
        packages = self._description.source.packages if self._description.source else ()
        parent = WarmParent(
            environment=warm_environment(self._description, os.environ),
            preload=self._warm.preload,
            forbidden=tuple({*packages, self._warm.module}),
            source_root=str(self._description.source_root or ""),
            packages=packages,
        )
        return ProcessTree(self.machine, self._workdir, self._spawner, core=self._core, traced=self._traced, warm=parent)

    def _is_tree_for_one(self) -> bool:
        return False
