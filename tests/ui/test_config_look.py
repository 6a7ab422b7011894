"""What the config work looks like: three pictures by default, the others with `-m slow`."""

from __future__ import annotations

from typing import Protocol

import pytest
from tests.params import slow_but
from tests.ui.config_cases import PICTURES
from tests.ui.conftest import make_app, press, settle
from textual.pilot import Pilot

ALWAYS = ("config-huge", "config-small", "editor-fraction")


class SnapCompare(Protocol):
    def __call__(self, app: object, **options: object) -> bool: ...


@pytest.mark.parametrize("name", slow_but(PICTURES.keys(), *ALWAYS))
def test_look(name: str, snap_compare: SnapCompare) -> None:
    make, size, keys = PICTURES[name]

    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, *keys)
        await pilot.pause(0.3)  # the editor plans what was typed

    app = make_app(make())
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)
