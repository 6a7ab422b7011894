"""Who acts: the person or agent and the process behind a change, as journal, queue and requests keep it."""

from __future__ import annotations

from typing import Any, Literal

from rltui.base.interpreter import ACTOR, AGENT
from rltui.base.values import Value
from rltui.core.experiment.actor_names import actor_name, actor_text

ActorKind = Literal["tui", "cli", "agent", "host"]


class Actor(Value):
    kind: ActorKind
    """`host`: a person on another machine, through `--host`."""
    user: str
    """Name of the account on this machine."""
    name: str = ""
    """The agent's name, or the one that a person goes by here."""
    pid: int
    terminal: str = ""
    """Such as `pts/3`; empty: none."""
    ssh: str = ""
    """Address that an ssh session came from; empty: none."""
    reason: str = ""
    """The reason that it gave with `--reason`."""

    @property
    def is_agent(self) -> bool:
        return self.kind == "agent"

    def is_same(self, other: Actor | None) -> bool:
        """The same person, or the same agent, by whatever process and terminal."""
        if other is None or (self.is_agent, self.user) != (other.is_agent, other.user):
            return False
        return not self.is_agent or self.name == other.name

    @property
    def fields(self) -> dict[str, Any]:
        """The actor as a file has it."""
        return self.part(*self.__struct_fields__)

    @property
    def variables(self) -> dict[str, str]:
        """Variables by which a program that acts for it is known; none for a person without a name."""
        return {AGENT if self.is_agent else ACTOR: self.name} if self.name else {}

    @property
    def text(self) -> str:
        return actor_text(self.fields)

    @property
    def short(self) -> str:
        return actor_name(self.fields)
