from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.requests import run_of

from rltui.client.draft import plan_record
from rltui.client.rerun import plan_rerun
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks import registry
from rltui.services.config import origins
from rltui.services.config.document import ConfigDocument
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.recorded_config import recorded_config
from rltui.services.runs.catalog import catch_up
from rltui.services.runs.index import RunIndex
from rltui.services.runs.provenance import ProvenanceCollector
from rltui.services.runs.references import find_run

LAYOUT = 'framework = "generic"\n[[component]]\nid = "trainer"\ncommand = ["cat", "{config.colours}"]\n'
CONFIG = "# the best ones\ncolour = 3\ndata_file = 'words.txt'\n"


def test_a_run_is_planned_again_from_what_was_recorded(
    own_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = own_user / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(own_user))
    (work / "run.toml").write_text(LAYOUT)
    config, words = work / "colours.toml", work / "words.txt"
    config.write_text(CONFIG)
    words.write_text("one two\n")
    record, _ = plan_record(run_of((config,), layout="./run.toml", name="a", output_dir=work / "a"))
    ControlFolder(work / "a").write_record(record)
    index = RunIndex()
    catch_up(index)
    row = find_run(index, "a")
    with plan_rerun(row) as plan:
        assert (plan.record.name, plan.record.output_dir) == ("a-again", str(work / "a-again"))
        assert plan.differences == ()
        (note,) = plan.notes
        assert "were not recorded" in note

    framework, layout = registry.get("generic"), layout_files.load(work / "run.toml")
    surveyor = ProvenanceCollector(
        ControlFolder(work / "a").path, work, work / "a", framework, layout, [config]
    )
    asyncio.run(surveyor.record(ConfigDocument([config], framework).load(), {}, None))
    words.write_text("two one\n")
    config.write_text("colour = 4\n")
    with plan_rerun(row, name="b") as plan:
        assert plan.differences == ("words.txt changed, with the same size",)
        assert plan.notes == (f"{config} has changed since that run; the recorded content is used",)
        assert plan.run.request.origin.again == row.id
        (copy,) = plan.run.config_files
        assert copy.read_text() == CONFIG
        known = origins.origin(copy)
        assert known is not None
        assert known.paths == (str(config),)
    assert not copy.exists()
    assert not (work / "b").exists()

    with pytest.raises(ConflictError, match="the experiment a already exists in"), plan_rerun(row, name="a"):
        pass
    (own_user / "state/rltui/configs" / row.configs[0].sha256[:2] / row.configs[0].sha256).unlink()
    with pytest.raises(ConfigError, match="is no longer stored"), recorded_config(row):
        pass
