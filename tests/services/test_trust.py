"""Finding H2: which folders' programs may be run unasked."""

from __future__ import annotations

from pathlib import Path

from rltui import paths
from rltui.services import checkout


def test_trust_is_given_and_taken_by_folder(own_user: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "a\nb", tmp_path / "other"
    for each in (folder / "inner", other):
        each.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    assert not checkout.is_trusted(folder)
    checkout.trust([folder, other])
    checkout.trust([folder])
    assert len((own_user / "state/rltui/trusted").read_text().splitlines()) == 2
    assert checkout.is_trusted(folder / "inner")
    assert checkout.is_trusted(tmp_path / "link")
    assert not checkout.is_trusted(tmp_path)
    checkout.distrust(tmp_path / "link")
    assert not checkout.is_trusted(folder / "inner")
    assert checkout.is_trusted(other)
    checkout.distrust(tmp_path)
    assert not checkout.is_trusted(other)


def test_the_users_layouts_and_ours_are_trusted(own_user: Path) -> None:
    assert checkout.is_trusted(own_user / "config/rltui/layouts")
    assert checkout.is_trusted(paths.shipped_dir("layouts"))


def test_a_damaged_list_trusts_what_can_be_read(own_user: Path, tmp_path: Path) -> None:
    checkout.trust([tmp_path / "a"])
    with (own_user / "state/rltui/trusted").open("ab") as file:
        file.write(b"\xff\n[1]\nhalf\n")
    checkout.trust([tmp_path / "b"])
    assert checkout.is_trusted(tmp_path / "a")
    assert checkout.is_trusted(tmp_path / "b")
    assert not checkout.is_trusted(tmp_path)
