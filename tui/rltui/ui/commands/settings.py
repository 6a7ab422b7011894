"""A person's settings, changed in their own editor."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from rltui.client.runs import Runs
from rltui.errors import ConfigError
from rltui.ui import keymap
from rltui.ui.dialogs.base import EditAgain
from rltui.ui.text import clean_line


async def edit_settings(app: App[Any], runs: Runs, key: str) -> None:
    """Open the settings at the line of `key`; what comes back is checked before it is written."""
    file = await asyncio.to_thread(runs.settings)
    text = file.text
    line = next((setting.line for setting in file.known if setting.key == key), 1)
    outcome = ""
    while not outcome:
        try:
            with app.suspend():
                text = runs.edit_settings(text, line)
            if text == file.text and not file.is_new:
                outcome = "Unchanged; nothing written"
                continue
            await asyncio.to_thread(keymap.load, Path(file.path), text=text)
            await asyncio.to_thread(runs.replace_settings, file, text)
            outcome = f"Written: {clean_line(file.path)}. Takes effect the next time the screen opens"
        except SuspendNotSupported:
            outcome = (
                f"Cannot open an editor here. Edit the file in another terminal:\n{clean_line(file.path)}"
            )
        except ConfigError as error:
            if not await app.push_screen_wait(EditAgain(error)):
                outcome = "Not written"
    app.notify(outcome, markup=False)
