"""External servers, which no component of the run is: inference, frozen models, env servers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from rltui.base.text import join_some
from rltui.base.values import Value
from rltui.errors import UsageError

_API = "/v1"
_EVERY_INTERFACE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104
"""Host names in URLs that mean this machine."""
_EXAMPLE = "use one such as http://gpu-2:8000/v1"
_TCP = "tcp"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a server that somebody else runs, and the run's demands on it."""

    url: str
    """URL of its OpenAI API, http or https: `http://gpu-2:8000/v1`. Of an env server: `tcp://gpu-2:5000`."""
    key_variable: str = ""
    """Environment variable that holds the key of its API."""
    model: str | None = None
    """Name of the model that it must serve."""
    is_strict: bool = True
    """The run refuses a server that does not serve the model."""
    admin_url: str = ""
    """URL of its engine, if not `url`: behind a router."""
    id: str = ""
    """Name in messages; empty for the inference servers of the run, which are numbered."""
    key: str = ""
    """Dotted key of the config that names it; empty as above."""
    needed_for: Literal["", "rollouts", "evals"] = ""
    """What hangs without it; empty as above: components wait for those."""
    used_for: str = ""
    """The same in words, for people: `scores rollouts of math`."""
    component: str = ""
    """Component of the layouts that can serve it at this address, on request; empty: none can."""
    is_open: bool = True
    """False if it gets headers of the config's, which rltui does not send: its refusal says nothing."""

    @property
    def root(self) -> str:
        """Base of the engine's routes: `http://gpu-2:8000`."""
        return (self.admin_url or self.url).rstrip("/").removesuffix(_API)

    @property
    def is_here(self) -> bool:
        """It listens on this machine's own address."""
        return urlsplit(self.url).hostname in LOOPBACK_HOSTS

    @property
    def is_env_server(self) -> bool:
        """It speaks ZMQ: whether it accepts connections is all that can be asked."""
        return self.url.startswith(f"{_TCP}://")


def tcp_address(text: str) -> str:
    """The address of an env server as a person writes it.

    Raises:
        UsageError: if it is none.
    """
    try:
        url = urlsplit(text.strip())
        is_address = url.scheme == _TCP and bool(url.hostname and url.port) and not (url.path or url.username)
    except ValueError:  # no port number
        is_address = False
    if not is_address:
        raise UsageError(f"not the address of an env server: {text}", hint="use one such as tcp://gpu-2:5000")
    return text.strip()


def server_url(text: str) -> str:
    """The address of an API as a person writes it, with the path that clients need.

    Raises:
        UsageError: if it is none, or holds a secret.
    """
    try:
        url = urlsplit(text.strip())
        is_address = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # no port number
        is_address, url = False, urlsplit("")
    if not is_address:
        raise UsageError(f"not the URL of an inference server: {text}", hint=_EXAMPLE)
    if "@" in url.netloc or url.query or url.fragment:
        raise UsageError(
            f"the URL of the inference server at {url.hostname} must have host, port and path only",
            hint="put an API key into the environment variable named by api_key_var; " + _EXAMPLE,
        )
    path = url.path.rstrip("/")
    return f"{url.scheme}://{url.netloc}{path or _API}"


def reachable_host(host: str) -> str:
    """A host, as in URLs, at which a server that listens on `host` answers from this machine."""
    if host in _EVERY_INTERFACE:
        return _EVERY_INTERFACE[host]
    return f"[{host}]" if ":" in host else host


def port_of(url: str) -> int:
    """Port of an http or https address, by its scheme where it names none."""
    parsed_url = urlsplit(url)
    return parsed_url.port or (443 if parsed_url.scheme == "https" else 80)


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer to the question which models it serves."""

    models: tuple[str, ...] = ()
    status: int = 200
    fault: str = ""
    """Reason why there is none, in words; empty if there is one."""
    updates_weights: bool | None = None
    """It has the route for a trainer's weights; `None`: unknown."""


ServerState = Literal["unknown", "ready", "down", "refused"]


class ServerStatus(Value):
    """Last observed state of a server that somebody else runs."""

    id: str = "inference"
    """Name in metrics and plans; with a number if there are several."""
    url: str
    state: ServerState = "unknown"
    """`down`: it does not answer, and may yet. `refused`: it cannot serve this run, for this `reason`."""
    reason: str | None = None
    models: tuple[str, ...] = ()
    model: str | None = None
    """The model that the run requests."""
    source: str = "config"
    """Origin of the address: `config`, `--inference`, or the experiment whose server it is."""
    key_variable: str = ""
    """Environment variable that holds the key of its API; never the key."""
    key_is_set: bool = False
    since: float | None = None
    """Time of the last change of state."""
    facts: tuple[str, ...] = ()
    """Short texts on its load, as in a component's title."""
    used_for: str = ""
    """Its work in words; empty for the inference servers of the run."""
    key: str = ""
    """Dotted key of the config that names it; empty as above."""


def server_ids(count: int) -> tuple[str, ...]:
    """`inference`, and with a number from the second on."""
    return tuple("inference" if number == 0 else f"inference-{number + 1}" for number in range(count))


def judge_server(
    address: ServerAddress, answer: Answer, *, key_is_set: bool
) -> tuple[ServerState, str | None]:
    """The state of a server after its answer, and the reason in words."""
    variable = address.key_variable
    if answer.status in (401, 403) and address.is_open:
        if not variable:
            return "refused", (
                f"the server requires an API key (status {answer.status}), but the config names no"
                " variable for it"
            )
        if not key_is_set:
            return "refused", (
                f"the server requires an API key: set {variable} in the shell that starts the experiment"
            )
        return "refused", f"the server rejects the key in {variable} (status {answer.status})"
    if answer.status in (404, 405) and address.is_strict:
        return "refused", f"no OpenAI API at {address.url} (status {answer.status} for /models)"
    if answer.fault and answer.status not in (401, 403, 404, 405):
        return "down", answer.fault
    model = address.model
    if model is not None and answer.models and model not in answer.models and address.is_strict:
        return "refused", f"the server has {join_some(answer.models, 3)}, but the config asks for {model}"
    return "ready", None


def server_fault(address: ServerAddress, state: ServerState, reason: str | None) -> str:
    """Say what is wrong with a server that is not ready, and what hangs for that."""
    where = f"{address.id} at {address.url}"
    if state == "down":
        return f"{where} does not answer ({reason}): {address.needed_for} would hang"
    return f"{where}: {reason}"


def server_warnings(address: ServerAddress, answer: Answer, engine: str) -> tuple[str, ...]:
    """Warn of what the server may lack. `engine`: one that can be run without what training needs."""
    warnings = []
    if answer.updates_weights is False:
        warnings.append(
            f"{address.root} has no /update_weights and never gets the trained weights"
            f" (a plain {engine}? For a router, set admin_base_url to the engine)"
        )
    if not address.is_here:
        warnings.append(
            "new weights travel through files: the server's machine must see the output folder at the same"
            " path, and its config must set weight_broadcast.type = filesystem"
        )
    return tuple(warnings)
