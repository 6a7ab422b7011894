"""The proposals of agents in the folder of a run. Its supervisor writes them; anybody may read them."""

from __future__ import annotations

from pathlib import Path

from rltui.base.values import InvalidValueError, Value
from rltui.core.experiment.api import AgentProposal
from rltui.errors import RltuiError
from rltui.services.own_files import read_own, write_atomically

_MOST_ANSWERED = 50
"""Number of answered proposals that are kept, the newest."""


class Proposals(Value):
    proposals: tuple[AgentProposal, ...] = ()
    """Oldest first."""
    count: int = 0
    """Number of those that there ever were."""

    @property
    def open(self) -> tuple[AgentProposal, ...]:
        """Those that wait for a person."""
        return tuple(proposal for proposal in self.proposals if proposal.state == "open")

    def get(self, id_: str) -> AgentProposal | None:
        return next((proposal for proposal in self.proposals if proposal.id == id_), None)

    def with_proposal(self, proposal: AgentProposal) -> Proposals:
        """With this one in place of the one of its id, or behind the others."""
        others = [other for other in self.proposals if other.id != proposal.id]
        if len(others) == len(self.proposals):
            return self.replace(proposals=(*others, proposal), count=self.count + 1)
        answered = [other.id for other in others if other.state != "open"][:-_MOST_ANSWERED]
        kept = (proposal if other.id == proposal.id else other for other in self.proposals)
        return self.replace(proposals=tuple(other for other in kept if other.id not in answered))


def read_proposals(control: Path) -> Proposals:
    """Raises RltuiError if they are damaged, or cannot be read."""
    path = proposals_file(control)
    try:
        return Proposals.from_json(read_own(path))
    except (FileNotFoundError, NotADirectoryError):
        return Proposals()
    except InvalidValueError as error:
        hint = "remove the file: its proposals are lost"
        raise RltuiError(f"{path} is damaged: {error}", hint=hint) from None
    except OSError as error:
        raise RltuiError(f"cannot read {path}: {error.strerror}") from error


def save_proposals(control: Path, proposals: Proposals) -> None:
    """Raises RltuiError if they cannot be written."""
    write_atomically(proposals_file(control), proposals.to_json())


def proposals_file(control: Path) -> Path:
    return control / "proposals.json"
