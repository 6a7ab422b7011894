"""`mcp` without the extra."""

from __future__ import annotations

import pytest

from rltui.cli import main
from rltui.cli.commands import mcp


def test_without_the_extra_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mcp, "find_spec", lambda _: None)
    assert main(["mcp"]) == 1
    assert "pip install 'rltui[mcp]'" in capsys.readouterr().err
