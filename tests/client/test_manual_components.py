"""From what a person asks for to the request that starts a manual component."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.test_publish import weights

from rltui.client.manual_components import publication, publish_request, shell_request
from rltui.errors import ConfigError, UsageError
from rltui.services.experiment.files import ExperimentRecord

LAYOUT = """
[[component]]
id = "inference"
kind = "service"
command = ["x"]
gpus = "0"
[[component]]
id = "orchestrator"
command = ["x"]
[[component]]
id = "trainer"
command = ["x"]
gpus = "1"
"""


@pytest.fixture
def record(tmp_path: Path) -> ExperimentRecord:
    (tmp_path / "three.toml").write_text(LAYOUT)
    return ExperimentRecord(
        "one", str(tmp_path), str(tmp_path), (), str(tmp_path / "three.toml"), "generic", 1.0
    )


def test_a_shell_is_as_the_component_that_trains(
    record: ExperimentRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/zsh")
    request = shell_request(record, like=None)
    assert (request.components, request.given) == (
        ("shell",),
        {"like": "trainer", "command": ("/bin/zsh",)},
    )
    shell = shell_request(record, like="inference", command=("nvidia-smi", "-l"))
    assert shell.given == {"like": "inference", "command": ("nvidia-smi", "-l")}
    with pytest.raises(UsageError, match="unknown component: publish"):
        shell_request(record, like="publish")


@pytest.mark.parametrize(
    "repo", ["m", "a/b/c", "-a/m", "a/m.", "a/m--n", "a/..", "a/m.git", "--token=x/m", f"a/{'m' * 96}"]
)
def test_what_is_no_repository_is_refused(record: ExperimentRecord, repo: str) -> None:
    with pytest.raises(UsageError, match="not a repository"):
        publication(record, 40, repo)


def test_what_is_uploaded_is_chosen_as_hf_does(record: ExperimentRecord, tmp_path: Path) -> None:
    folder = weights(tmp_path)
    (folder / ".cache").mkdir()
    (folder / ".cache/x.json").touch()
    (folder / "original").mkdir()
    (folder / "original/params.json").write_text("{}")
    whole = publication(record, 40, "alice/m")
    assert whole.files == ("config.json", "model.safetensors", "original/params.json")
    assert whole.size_bytes == sum((folder / name).stat().st_size for name in whole.files)
    chosen = publication(record, folder, "a/m", include=["*.json"], exclude=["orig*"], revision="v1")
    assert chosen.files == ("config.json",)
    assert publish_request(chosen).given == {
        "repo": "a/m",
        "folder": str(folder),
        "options": ("--include=*.json", "--exclude=STABLE", "--exclude=orig*", "--revision=v1",
                    "--commit-message=one: step 40"),
    }  # fmt: skip
    with pytest.raises(UsageError, match="nothing to upload in"):
        publication(record, 40, "a/m", include=["*.bin"])
    with pytest.raises(ConfigError, match="no weights of step 41"):
        publication(record, 41, "a/m")
