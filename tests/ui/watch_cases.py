"""A run that somebody else started, and the log files that are followed."""

from __future__ import annotations

from tests.fakes.experiment import LOGS, NOW, FakeExperiment, gpu_report, running_status

from rltui.core.config.report import KnobTable
from rltui.core.experiment.api import FollowedLog, Status
from rltui.core.experiment.description import ScreenLayout

LOG_IDS = (*LOGS, "envs")
SCREEN = ScreenLayout(columns=(LOG_IDS, ("gpus",)), widths=("2fr", "1fr"))


def log(name: str, age_s: float | None, **values: object) -> FollowedLog:
    base: dict[str, object] = {"id": name, "wanted": (f"logs/latest/{name}.log", "a.log", "b.log")}
    if age_s is not None:
        base |= {
            "path": f"/run/{name}.log",
            "name": f"logs/latest/{name}.log",
            "size_bytes": 4096,
            "changed_at": NOW - age_s,
        }
    return FollowedLog.from_plain(base | values)


def watched(**values: object) -> Status:
    logs = (log("inference", 3), log("orchestrator", 0), log("trainer", 754), log("envs", None))
    base = {"alive": True, "components": (), "logs": logs, "observed": True, "title": "observed run"}
    return running_status(**(base | values))


def watching(*events: object) -> FakeExperiment:
    experiment = FakeExperiment(*(events or (watched(), gpu_report(), KnobTable())), screen=SCREEN)  # type: ignore[arg-type]
    experiment.observed = experiment.readonly = True
    return experiment
