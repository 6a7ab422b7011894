from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.services.config.models.checkouts import MODELS, Box

from rltui import paths
from rltui.services.config.models.state import (
    MAX_STATES,
    Schemas,
    commit_of,
    load_schemas,
    save_schemas,
    state_of,
)

SCHEMAS = Schemas({"rl": {"type": "object"}}, {"python": "3.12.1"}, {"sft": "gone"})


def git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *own, *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


def test_the_commit_is_read_as_git_tells_it(repository: Path) -> None:
    def agrees(folder: Path) -> bool:
        return commit_of(folder) == git(folder, "rev-parse", "HEAD")

    assert agrees(repository)
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert agrees(repository)
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    assert agrees(repository)
    other = repository.parent / "other"
    git(repository, "worktree", "add", "-q", "-b", "feature/x", str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "three")
    assert agrees(other)
    git(repository, "pack-refs", "--all")
    assert agrees(other)
    git(other, "checkout", "-q", "--detach")
    assert agrees(other)
    assert commit_of(other) != commit_of(repository)


def test_without_git_there_is_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
    (tmp_path / ".git").write_text("something else")
    assert commit_of(tmp_path) is None
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/unborn\n")
    assert commit_of(tmp_path) is None


def test_the_state_follows_all_that_schemas_depend_on(box: Box) -> None:
    def state() -> str:
        return state_of(box.root, box.interpreter, MODELS)

    seen = [state()]
    assert state() == seen[0]
    source = box.root / "src/prime_rl/configs/rl.py"
    stamp = source.stat().st_mtime_ns
    os.utime(source, ns=(stamp, stamp + 1))
    seen.append(state())
    box.write("x = 1\n", "prime_rl/configs/sft.py")
    seen.append(state())
    (box.root / "uv.lock").write_text("x")
    seen.append(state())
    (box.root / ".venv/lib/python3.12/site-packages/orjson").mkdir(parents=True)
    seen.append(state())
    (box.root / ".git").mkdir()
    (box.root / ".git/HEAD").write_text("0123\n")
    seen.append(state())
    assert len(set(seen)) == len(seen)
    (box.root / "outputs").mkdir()
    assert state() == seen[-1]


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"by_role": [], "versions": {}, "unavailable": {}}', "{}"]
)
def test_damaged_schemas_are_not_there(own_user: Path, damage: str) -> None:
    save_schemas("one", SCHEMAS)
    assert load_schemas("one") == SCHEMAS
    [file] = paths.cache_dir().rglob("*.json")
    file.write_text(damage)
    assert load_schemas("one") is None


def test_old_schemas_make_room(own_user: Path) -> None:
    for number in range(MAX_STATES + 3):
        save_schemas(str(number), SCHEMAS)
        [file] = paths.cache_dir().rglob(f"{number}.json")
        os.utime(file, ns=(number, number))
    assert [number for number in range(MAX_STATES + 3) if load_schemas(str(number)) is None] == [0, 1, 2]
    assert len(list(paths.cache_dir().rglob("*"))) == MAX_STATES + 1, "nothing else is left"


def test_where_nothing_can_be_kept_nothing_is(own_user: Path) -> None:
    paths.cache_dir().parent.mkdir(exist_ok=True)
    paths.cache_dir().write_text("in the way")
    save_schemas("one", SCHEMAS)
    assert load_schemas("one") is None
