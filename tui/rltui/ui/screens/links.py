"""Pages about the run that its programs have named: to be opened, or copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message
from textual.widgets import OptionList

from rltui.core.api import Link
from rltui.ui.screens.dialogs import ChoiceMenu
from rltui.ui.text import clean_line


class LinkMenu(ChoiceMenu):
    """The address of one of `links`. `y` posts it to be copied instead."""

    @dataclass
    class CopyWanted(Message):
        """A person wants to have an address."""

        url: str

    def __init__(self, links: Sequence[Link]) -> None:
        words = {
            link.url: (f"{link.title} ({link.component})" if link.component else link.title, link.url)
            for link in links
        }
        super().__init__(
            "Pages about this run",
            {url: (clean_line(label), clean_line(address)) for url, (label, address) in words.items()},
            keys="enter opens it in a browser · y copies its address · esc closes",
        )

    def action_yes(self) -> None:
        """Only its address."""
        if (highlighted := self.query_one(OptionList).highlighted_option) is not None and highlighted.id:
            self.app.post_message(self.CopyWanted(highlighted.id))
            self.dismiss(None)
