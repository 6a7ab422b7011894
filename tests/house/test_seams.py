"""A kind of host is named where it is at home, and in the few places listed here, each with a reason.

Docstrings and comments do not count; what the program says does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.house.source import house

from rltui.core.hosts.specs import HOST_TABLES
from rltui.hosts.kinds import KINDS

SLURM = re.compile(r"slurm|sbatch|scancel|scontrol|squeue|\bsrun", re.IGNORECASE)
SLURM_PLACES: Mapping[str, str] = {
    "rltui.hosts.*": "its home: what happens while a job is there",
    "rltui.services.hosts.slurm": "its home: commands, scripts, answers",
    "rltui.services.hosts.job_arrays": "its home: one script for the jobs of a sweep",
    "rltui.services.hosts.nodes.gpu_report": "runs in a job, whose processes are known by their variables",
    "rltui.core.hosts.*": "its entry in a layout, and which options a command line has for it",
    "rltui.core.experiment.layout": "the key of that entry",
    "rltui.core.runs.queue": "variables of its commands, which a queued start keeps",
    "rltui.core.hints": "the options of a command that a message proposes",
    "rltui.cli.arguments": "the page of its options",
    "rltui.cli.jobs": "reads those",
    "rltui.cli.queue_requests": "options of the queue that mean something else for jobs",
    "rltui.cli.commands.sweep": "the option for one array",
    "rltui.cli.commands.doctor": "says whether it is there",
    "rltui.cli.completion.sources": "its partitions",
    "rltui.client.jobs": "prints what would be submitted",
    "rltui.client.draft": "refuses a run that is for a cluster and is not submitted, or the other way round",
    "rltui.ui.commands.components": "the key that shows the script of a job",
    "rltui.frameworks.*": "tables and options of frameworks whose launchers submit by themselves",
    "rltui.tinyrl.launcher": "resumes in a job that was started again",
}
KUBERNETES = re.compile(r"kube|k8s|(?<![a-z])pods?(?![a-z])", re.IGNORECASE)
KUBERNETES_PLACES: Mapping[str, str] = {
    "rltui.hosts.*": "its home: what happens while a pod is there",
    "rltui.services.hosts.kube": "its home: kubectl and its answers",
    "rltui.services.hosts.helm": "its home: releases",
    "rltui.core.hosts.kubectl": "the words of its command lines",
    "rltui.core.hosts.specs": "its entry in a layout",
    "rltui.core.experiment.layout": "the key of that entry",
    "rltui.core.hints": "the commands that a message proposes",
    "rltui.core.experiment.consent": "which of its commands a person is asked before",
    "rltui.cli.commands.k8s": "the commands of its group",
    "rltui.core.command_list": "lists those",
    "rltui.cli.releases": "does the work of those",
    "rltui.cli.commands.doctor": "says whether it is there",
    "rltui.cli.completion.sources": "the roles of a release's pods",
    "rltui.client.release": "makes an experiment of a release",
    "rltui.frameworks.charts": "the charts that frameworks ship",
}


@pytest.mark.parametrize(
    ("pattern", "places"),
    [(SLURM, SLURM_PLACES), (KUBERNETES, KUBERNETES_PLACES)],
    ids=["slurm", "kubernetes"],
)
def test_a_kind_of_host_is_named_in_its_places_alone(
    pattern: re.Pattern[str], places: Mapping[str, str]
) -> None:
    named = [module.name for module in house().modules.values() if module.says(pattern)]
    assert [name for name in named if not any(fnmatch(name, place) for place in places)] == []
    assert [place for place in places if not any(fnmatch(name, place) for name in named)] == []


def test_each_kind_of_host_of_a_layout_has_its_modules() -> None:
    assert {spec.kind for spec in HOST_TABLES.values()} == KINDS.keys()
    for kind in KINDS.values():
        assert {kind.module, kind.gpu_module} - {""} <= house().modules.keys()


def test_what_a_module_says_is_its_names_and_strings(tmp_path: Path) -> None:
    said = {
        "import slurm": True,
        "from a import b as slurm": True,
        "x = f'of {y} in SLURM'": True,
        "def f(slurm): ...": True,
        "if x:\n    f(slurm=1)": True,
        '"""SLURM."""\nx = 1\n"""SLURM."""\n# slurm': False,
    }
    for number, text in enumerate(said):
        (tmp_path / f"m{number}.py").write_text(text)
    modules = house(tmp_path).modules
    assert [modules[f"m{number}"].says(SLURM) for number in range(len(said))] == list(said.values())
