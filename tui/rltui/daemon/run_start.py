"""Before the jobs of a run start: where they resume, and what they must not see again."""

from __future__ import annotations

import uuid
from pathlib import Path

from rltui.core.api import Plan, Request
from rltui.daemon.picture import Picture
from rltui.daemon.telling import Teller
from rltui.errors import RltuiError
from rltui.services.own_files import write_atomically
from rltui.services.runs.run_folder import RunFolder


class RunStart:
    """Remembers the checkpoint that jobs started from now on continue from, and which run that is."""

    def __init__(self, picture: Picture, folder: RunFolder, id_file: Path, teller: Teller) -> None:
        """`id_file` keeps the id of the run for the next supervisor."""
        self._picture = picture
        self._folder = folder
        self._id_file = id_file
        self._teller = teller
        self.resume_step = folder.latest_checkpoint()
        self.run_id = self._known_id()
        """Changes only when the run begins anew; empty before its first start."""

    def prepare(self, plan: Plan, request: Request) -> None:
        """Choose the resume point and move aside what new processes must not see.

        Does nothing where a job of the run goes on, since it uses these files.

        Raises:
            RltuiError: if files cannot be moved.
        """
        jobs = self._picture.run_jobs()
        if not {job.spec.id for job in jobs} & set(plan.start) or any(job.life.busy for job in jobs):
            return
        self.resume_step = self._step(plan, request)
        aside = self._folder.move_stale_aside(self.resume_step)
        self._picture.progress.rewind(self.resume_step)
        if self.resume_step is None or not self.run_id:
            self.run_id = uuid.uuid4().hex
            write_atomically(self._id_file, self.run_id.encode())
        point = "the beginning" if self.resume_step is None else f"checkpoint {self.resume_step}"
        moved = f"; earlier files are in {aside}" if aside else ""
        self._teller.journal.add("resume", f"from {point}{moved}", step=self.resume_step)

    def _step(self, plan: Plan, request: Request) -> int | None:
        there = self._folder.checkpoints()
        if plan.resume_from is None:
            return there[-1] if there and request.resume == "latest" else None
        if plan.resume_from in there:
            return plan.resume_from
        if plan.resume_from == 0:
            return None
        raise RltuiError(f"checkpoint {plan.resume_from} is gone; {self._folder.path} has: {there}")

    def _known_id(self) -> str:
        try:
            return self._id_file.read_text()
        except (OSError, ValueError):  # none yet, or not readable: the next beginning writes one
            return ""
