from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rltui import paths
from rltui.core.runs.provenance import DataPrint, Provenance, differences
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFile
from rltui.services.experiment.layout_files import load
from rltui.services.runs.provenance import ProvenanceCollector, latest

GPU = {"3": "NVIDIA H200"}


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def surveyor(workspace: Path) -> ProvenanceCollector:
    (workspace / "out" / ".rltui").mkdir(parents=True, exist_ok=True)
    return ProvenanceCollector(
        control=workspace / "out" / ".rltui",
        workspace=workspace,
        output_dir=workspace / "out",
        framework=registry.get("tinyrl"),
        layout=load(paths.shipped_dir("layouts") / "tinyrl.toml"),
        config_files=[workspace / "rl.toml"],
    )


def config(**values: object) -> dict[str, ConfigFile]:
    return {"rl": ConfigFile("rl", "/rl.toml", values)}


def test_what_a_run_starts_with_is_kept_start_by_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub" / "datasets--org--math" / "refs"
    hub.mkdir(parents=True)
    (hub / "main").write_text("abcdef0123456789")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    work = tmp_path / "work"
    (work / "data").mkdir(parents=True)
    data, code = work / "data" / "train.jsonl", work / "reward.py"
    data.write_text("{}\n")
    code.write_text("x = 1\n")
    (work / "rl.toml").write_text("")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "one")
    ours = surveyor(work)
    files = config(dataset={"name": "org/math", "kind": "fake/one"}, prompts="data/train.jsonl")
    assert latest(ours.control) is None

    first = asyncio.run(ours.record(files, GPU, "570.1"))
    assert (first.branch, first.is_dirty, first.untracked) == ("main", False, ())
    assert first.commit == git(work, "rev-parse", "HEAD").strip()
    assert (first.gpus, first.gpu_names, first.versions["driver"]) == (("3",), ("NVIDIA H200",), "570.1")
    assert first.versions["python"].startswith("3.")
    assert set(first.data) == {"org/math", "data/train.jsonl"}
    assert first.data["org/math"].revision == "abcdef0123456789"
    assert latest(ours.control) == first

    code.write_text("x = 2\n" + "# a long comment that goes on\n" * 50_000)
    (work / "new.py").write_text("")
    (work / "rl.toml").write_text("a = 1")
    data.write_text("[]\n")
    (hub / "main").write_text("9876543210fedcba")
    with (ours.control / "provenance.jsonl").open("a") as file:
        file.write('{"at": 1')  # the disk was full
    assert latest(ours.control) == first
    second = asyncio.run(ours.record(files, {}, None))
    assert latest(ours.control) == second
    kept = (ours.control / "diffs" / f"{second.diff}.patch").read_bytes()
    assert second.diff_bytes > len(kept) == 1 << 20
    assert b"diff --git a/reward.py b/reward.py" in kept
    assert b"rl.toml" not in kept, "the config is kept as it was run"
    assert differences(second, first) == (
        "the workspace has uncommitted changes, had none",
        "new untracked files: new.py",
        "driver is not installed, was 570.1",
        "org/math is at revision 9876543210, was at abcdef0123",
        "data/train.jsonl changed, with the same size",
        "the GPUs are none, were 1 × NVIDIA H200",
    )
    assert differences(second, second) == ()


def test_without_git_there_is_still_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    found = asyncio.run(surveyor(tmp_path).collect(config(), GPU, None))
    assert (found.commit, found.is_dirty, found.untracked) == ("", False, ())
    assert found.host
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(surveyor(tmp_path).collect(config(), {}, None)).commit == ""
    assert not (tmp_path / "out" / ".rltui" / "provenance.jsonl").exists()


def test_differences_are_named() -> None:
    then = Provenance(
        at=1.0, commit="a" * 40, is_dirty=True, diff="d" * 64, versions={"vllm": "0.31"}, host="one"
    )
    now = replace(
        then, commit="b" * 40, is_dirty=False, diff="", branch="dev", versions={"torch": "2.9"}, host="two"
    )
    assert differences(now, then) == (
        "the workspace is at commit bbbbbbbbbb (dev), was at aaaaaaaaaa",
        "the workspace no longer has the run's uncommitted changes (saved in .rltui/diffs/dddddddddd….patch)",
        "torch is 2.9, was not installed",
        "vllm is not installed, was 0.31",
        "the machine is two, was one",
    )
    small, large = DataPrint(size=3, mtime=1.0, sha256="a"), DataPrint(size=3, mtime=2.0)
    assert small.difference(replace(small, mtime=5.0)) == ""
    assert large.difference(small) == "has been modified since"
    assert DataPrint().difference(small) == "no longer exists"
    assert replace(small, size=3 << 20).difference(small) == "has 3 MiB, had 0 MiB"
