"""A run and its components as `rltui describe` and the dialog of the TUI show them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from rltui.base.secrets import MASK
from rltui.base.values import Value

KnobText = bool | int | float | str | list[object] | None


class ScreenLayout(Value):
    """The table `screen` of a layout, with its keys and defaults."""

    columns: tuple[tuple[str, ...], ...] = ()
    widths: tuple[str, ...] = ()
    ask_to_start: bool = True


class Panels(Value):
    """The panels of an experiment's overview."""

    screen: ScreenLayout
    component_ids: tuple[str, ...]
    """Components that start by themselves, in the order of the layout."""
    log_ids: tuple[str, ...]


class Readiness(Value):
    """The table `ready` of a component, with its keys."""

    http: str | None = None
    tcp: str | None = None
    log: str | None = None
    file: str | None = None
    timeout_s: float


class AttemptDescription(Value):
    """One start of a component."""

    number: int
    """Counted from 1."""
    started_at: float | None = None
    ended_at: float | None = None
    is_running: bool = False
    exit_code: int | None = None
    signal: str | None = None
    """Name of the signal that ended it, such as `SIGKILL`."""
    error: str | None = None
    """Reason why it could not be started."""
    stop_requested: bool = False
    log: str = ""
    """Path of its output."""
    config_files: tuple[str, ...] = ()
    """Copies of the config files that the attempt was started with."""


class ComponentDescription(Value):
    """A component as its newest attempt was started, or as its first would be."""

    id: str
    kind: str = "job"
    problem: str = ""
    """Reason why nobody can say how it would be started."""
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """Variables that are set for it besides those of the user's shell; values of secrets are hidden."""
    cwd: str = ""
    host: str = ""
    """Host that it runs on, in words; empty: this machine."""
    pid: int | None = None
    """Pid of the main process, while it lives."""
    session: str = ""
    """Window of the private tmux server, as `SESSION:WINDOW`."""
    ports: tuple[int, ...] = ()
    devices: str = ""
    """Devices in the form of `CUDA_VISIBLE_DEVICES`."""
    ready: Readiness | None = None
    """The readiness probe; `None`: ready as soon as its process runs."""
    after: tuple[str, ...] = ()
    """Components that it waits for."""
    restarts_with: tuple[str, ...] = ()
    """Components that restart with it."""
    because: tuple[str, ...] = ()
    """Why they do."""
    restart_policy: str = "never"
    config_files: tuple[str, ...] = ()
    """Config files that it reads: the copies of its newest attempt, or the run's."""
    values: Mapping[str, KnobText] = {}
    """Key → value of every knob that it reads, as it runs, or would."""
    attempts: tuple[AttemptDescription, ...] = ()
    """Oldest first."""

    @property
    def command(self) -> str:
        """The command, quoted for a shell."""
        return shlex.join(self.argv)

    @property
    def pasted(self) -> str:
        """A line for a shell that runs its command in its folder, with its variables: those whose value is
        masked come from the shell that it is pasted into.
        """
        variables = [f"{name}={value}" for name, value in self.env.items() if value != MASK]
        words = ["env", *variables, *self.argv] if variables else self.argv
        return f"cd {shlex.quote(self.cwd)} && {shlex.join(words)}"


class RunDescription(Value):
    name: str
    run_id: str = ""
    framework: str = ""
    layout_file: str = ""
    output_dir: str = ""
    run_dir: str = ""
    """Folder that the framework writes the run into."""
    workspace: str = ""
    config_files: tuple[str, ...] = ()
    created_at: float = 0.0
    command: str = ""
    """The command that starts it again once it is down."""
    socket: str = ""
    """Path of the socket that the supervisor listens on."""
    supervisor_log: str = ""
    step: int | None = None
    """Steps that the trainer has done."""
    served: int | None = None
    """Version of the weights that the engine samples with, as last told."""
    session: str = ""
    """Session of the private tmux server, whose socket has the name `tmux_socket`."""
    tmux_socket: str = ""
    components: tuple[ComponentDescription, ...] = ()
