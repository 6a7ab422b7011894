"""What stays as it is while a supervisor lives: whose experiment, where, and made of what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rltui.core.layout import Layout
from rltui.frameworks.base import Framework
from rltui.services import layout_files
from rltui.services.models import informed
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.observed import framework_of


@dataclass(frozen=True, slots=True)
class Setup:
    """A record, with what is found by it."""

    record: ExperimentRecord
    control: ControlFolder
    layout: Layout
    framework: Framework

    @classmethod
    def of(cls, record: ExperimentRecord) -> Setup:
        """The setup of the experiment of `record`.

        Raises:
            ConfigError: if its layout or framework cannot be found or understood.
        """
        files = [Path(name) for name in record.config_files]
        return cls(
            record=record,
            control=ControlFolder(Path(record.output_dir)),
            layout=layout_files.load_for(record),
            framework=informed(framework_of(record), Path(record.workspace), files),
        )

    @property
    def components(self) -> list[str]:
        """Ids, in the order of the layout."""
        return [spec.id for spec in self.layout.component]

    @property
    def run_jobs(self) -> frozenset[str]:
        """Ids of those that write the run."""
        return self.layout.run_jobs(self.framework.run_roles)

    @property
    def workspace(self) -> Path:
        """Where the commands of the layout run."""
        return Path(self.record.workspace)
