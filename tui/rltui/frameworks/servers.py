"""Servers that somebody else runs: a record of functions about those that a config uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rltui.base.template import Missing
from rltui.core.experiment.servers import ServerAddress
from rltui.frameworks.answers import no_items, no_text, unknown
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import ServiceCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersSide:
    """The answers about servers. The default is a framework whose runs have a server of their own."""

    most: int | None = 0
    """Number of servers that a run can be sent to, whatever its config says; `None`: any."""
    addresses: Callable[[ConfigFiles], tuple[ServerAddress, ...]] = no_items
    """The servers that the run uses and somebody else runs; none if it has its own.

    Raises ConfigError if the config names no address.
    """
    further: Callable[[ConfigFiles], tuple[ServerAddress, ...]] = no_items
    """The other servers that the run needs, such as frozen models and env servers of its sources.

    Raises ConfigError if the config has an address that is none.
    """
    absent: Callable[[ConfigFiles], tuple[str, ...]] = no_items
    """Components of layouts that nobody is known to run, for lack of a config file."""
    weights_by: Callable[[ConfigFiles], str] = no_text
    """Transport of new weights to the server, which is configured for it; empty if it accepts any."""
    weights_reset: Callable[[ConfigFiles, RunContext, str], ServiceCall | Missing | None] = unknown
    """Call to a server that was trained with before another run begins with it, at this root address;
    `None` if the run itself resets it, `Missing` if nothing does.
    """

    def external(self, files: ConfigFiles) -> tuple[str, ...]:
        """Components of layouts that somebody else runs, or nobody. Raises like `addresses`."""
        inference = ("inference",) if self.addresses(files) else ()
        return tuple(dict.fromkeys((*inference, *self.absent(files))))
