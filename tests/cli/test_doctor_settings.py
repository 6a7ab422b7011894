from __future__ import annotations

from tests.conftest import Box


def finding(box: Box) -> dict[str, object]:
    found: list[dict[str, object]] = box.json("doctor")
    return next(item for item in found if item["name"] == "settings")


def test_doctor_reads_the_settings(box: Box) -> None:
    path = box.root / "config/rltui/settings.toml"
    assert finding(box)["text"] == f"defaults; yours would be in {path}"
    path.parent.mkdir()
    path.write_text("[alerts]\nbel = true\n")
    broken = finding(box)
    assert (broken["ok"], broken["essential"]) == (False, False)
    assert f"{path}:2:1: alerts.bel: unknown key; did you mean bell?" in str(broken["text"])
    path.write_text('[alerts]\ncommand = ["no-such-notifier"]\n')
    assert "there is no program 'no-such-notifier'" in str(finding(box)["text"])
    path.write_text('[alerts]\ncommand = ["sh", "-c", "true"]\n')
    assert finding(box) == {"name": "settings", "ok": True, "text": str(path), "essential": True}
