"""Finding H2: which folders' programs may be run unasked."""

from __future__ import annotations

from pathlib import Path

from rltui import paths
from rltui.services import trust


def test_trust_is_given_and_taken_by_folder(own_user: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "a\nb", tmp_path / "other"
    for each in (folder / "inner", other):
        each.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    assert not trust.is_trusted(folder)
    trust.grant([folder, other])
    trust.grant([folder])
    assert len((own_user / "state/rltui/trusted").read_text().splitlines()) == 2
    assert trust.is_trusted(folder / "inner")
    assert trust.is_trusted(tmp_path / "link")
    assert not trust.is_trusted(tmp_path)
    trust.revoke(tmp_path / "link")
    assert not trust.is_trusted(folder / "inner")
    assert trust.is_trusted(other)
    trust.revoke(tmp_path)
    assert not trust.is_trusted(other)


def test_the_users_layouts_and_ours_are_trusted(own_user: Path) -> None:
    assert trust.is_trusted(own_user / "config/rltui/layouts")
    assert trust.is_trusted(paths.shipped_dir("layouts"))


def test_a_damaged_list_trusts_what_can_be_read(own_user: Path, tmp_path: Path) -> None:
    trust.grant([tmp_path / "a"])
    with (own_user / "state/rltui/trusted").open("ab") as file:
        file.write(b"\xff\n[1]\nhalf\n")
    trust.grant([tmp_path / "b"])
    assert trust.is_trusted(tmp_path / "a")
    assert trust.is_trusted(tmp_path / "b")
    assert not trust.is_trusted(tmp_path)
