"""Every command that a message advises, each with the state that it is for. Pure, and cheap to import.

No message spells a command out: it renders one of these values. So a test parses them all, and tests follow
each from the state that printed it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_PART = re.compile(r"\[[^\[\]]*\]|\S+")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Hint:
    """A command for one state. Rendered by calling it, or as text where it has no placeholders."""

    state: str
    """Id of the state that prints it."""
    command: str
    """Arguments of `rltui`. `{name}` stands for a value, of a list for its items, `[…]` is left out where a
    value in it is `None`; words in capitals are for the reader to fill in.
    """

    def __call__(self, **values: object) -> str:
        """The command line, with `values` quoted as a shell needs it."""
        words = ["rltui"]
        for part in _PART.findall(self.command):
            is_option = part.startswith("[")
            if is_option and any(values.get(name) is None for name in _PLACEHOLDER.findall(part)):
                continue
            for token in part.strip("[]").split():
                words += _filled(token, values)
        return " ".join(words)

    def __str__(self) -> str:
        return self()


def _filled(token: str, values: Mapping[str, object]) -> list[str]:
    if not (names := _PLACEHOLDER.findall(token)):
        return [token]
    import shlex  # rarely needed

    value = values[names[0]]
    if token == f"{{{names[0]}}}" and not isinstance(value, str) and isinstance(value, Sequence):
        return [shlex.quote(str(item)) for item in value]
    return [shlex.quote(_PLACEHOLDER.sub(lambda match: str(values[match[1]]), token))]


# --- a run that went bad, or died ---------------------------------------------------------------------------

UNDO_RESTART = Hint("died-after-edit", "undo --restart [-n {name}]")
UNDO_AND_GO_BACK = Hint("bad-since-newest-edit", "undo --restart --from {step} [-n {name}]")
SET_AND_GO_BACK = Hint("bad-since-older-edit", "set {words} --restart --from {step} [-n {name}]")
GO_BACK = Hint("bad-without-edit", "restart --from {step} [-n {name}]")
RESTART_KILLED = Hint("killed-from-outside", "restart {component} [-n {name}]")


def way_back(step: int, edit: str, edits: Mapping[str, str | None], *, name: str | None) -> str:
    """`back to checkpoint 40, without lr 1 → 2: rltui undo --restart --from 40`, as of a `RollbackOffer`."""
    if edits:
        words = [
            word
            for key, value in edits.items()
            for word in (("--unset", key) if value is None else (f"{key}={value}",))
        ]
        command = SET_AND_GO_BACK(words=words, step=step, name=name)
    else:
        command = (UNDO_AND_GO_BACK if edit else GO_BACK)(step=step, name=name)
    return f"back to checkpoint {step}{f', without {edit}' if edit else ''}: {command}"
