"""An edit that adds an environment says that its server needs the experiment made anew."""

from __future__ import annotations

import pytest
from tests.fakes.frameworks import answering

from rltui.daemon.planner import changed_instances
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.generic import GENERIC
from rltui.services.runs.experiment_files import ExperimentRecord

NOW = {"env_servers.train": ("a", "c"), "env_servers.eval": ("x",)}


def instances(files: ConfigFiles) -> dict[str, tuple[str, ...]]:
    del files
    return NOW


FRAMEWORK = answering(GENERIC, instances=instances)


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ({}, ()),
        ({"env_servers.train": ("a", "c")}, ()),
        (
            {"env_servers.train": ("a", "b")},
            ("names a, c", "components for a, b", "rltui up /rl.toml -n one"),
        ),
        ({"env_servers.old": ("a",)}, ("names none",)),
    ],
)
def test_other_instances_are_a_warning(before: dict[str, tuple[str, ...]], texts: tuple[str, ...]) -> None:
    record = ExperimentRecord("one", "/o", "/w", ("/rl.toml",), "/l", "generic", 1.0, instances=before)
    problems = changed_instances(record, FRAMEWORK, {})
    assert len(problems) == bool(texts)
    for problem in problems:
        assert problem.severity == "warning"
        assert all(text in problem.message for text in texts)
