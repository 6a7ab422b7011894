"""Hosts of components outside of this machine: a node, a SLURM job, a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator

from rltui.base.kinds import one_line, parse_pattern
from rltui.base.tables import TomlTable
from rltui.core.hosts.kubectl import Kubectl


class HostSpec(TomlTable):
    """A host in a layout. `hosts/` knows how something is run there."""

    kind: ClassVar[str]
    title: ClassVar[str]
    stop_note: ClassVar[str] = ""
    """The further effect of a stop, for the plan that a person sees."""
    is_submitted: ClassVar[bool] = False
    """True if what runs there is a job that waits in the queue of a cluster."""
    literal: ClassVar[frozenset[str]] = frozenset()
    """Keys whose values hold no placeholders, though they may look so."""

    @property
    def templates(self) -> tuple[str, ...]:
        """Return the values that may hold placeholders of a framework."""
        return ()

    @property
    def placeholders(self) -> Mapping[str, str]:
        """Values of placeholders, as they are there."""
        return {}

    @property
    def shows_gpus(self) -> bool:
        """True if its GPUs are read there, whether or not a component runs; those of nodes are read by the
        layout's list of nodes.
        """
        return False

    def with_given(self, options: Mapping[str, Any]) -> Self:
        """The same with the options of a command line; lists are appended to its own.

        Raises:
            ValidationError: if one of them is no option of its kind.
        """
        values = self.model_dump()
        for key, given in options.items():
            own = values.get(key)
            values[key] = (*own, *given) if isinstance(own, tuple) else given
        return self.model_validate(values)

    def entry(self, fill: Callable[[object], object]) -> dict[str, Any]:
        """Return its values for a launch, with its `kind`; `fill` replaces their placeholders.

        Where commands can be run on the host, the entry has `reach`, the words before such a command, and
        `login`, `env` and `send_env`, which say in what environment.
        """
        filled = {
            key: value if key in self.literal else fill(value) for key, value in self.model_dump().items()
        }
        return {"kind": self.kind, **filled}

    def terminal_reach(self, entry: Mapping[str, Any]) -> Sequence[str] | None:
        """The words before a command that gets the terminal here; `None` where no command leads there."""
        reach: Sequence[str] | None = entry.get("reach")
        return reach


class NodeSpec(HostSpec):
    """Another machine that can run commands. It needs Python 3.9 or newer, but no rltui."""

    kind: ClassVar = "node"
    title: ClassVar = "node"
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    reach: tuple[str, ...] = Field(min_length=1)
    """Words that run the command after them there, such as `["ssh", "node-2"]` or `["docker", "exec", "-i",
    "box"]`. They get no terminal and cannot ask for a password; programs there must outlive them."""
    address: str = ""
    """Address for the other nodes, `{node.address}`. Empty: its name."""
    group: str = ""
    """Its group: `each = "nodes.GROUP"` means the nodes of a group, `each = "nodes"` all nodes."""
    cwd: str = ""
    """The folder that is `{workspace}` there. Empty: the same path as here."""
    env: dict[str, str] = Field(default={})
    """Variables for all of its components, such as `NCCL_SOCKET_IFNAME`, in addition to those of a login
    shell."""
    send_env: tuple[str, ...] = ()
    """Variables of the shell here to pass on, such as `WANDB_API_KEY`; they are not written to any file. A
    component with a `tty` gets those that the ssh server there accepts (`AcceptEnv`)."""
    python: str = "python3"
    """The Python there, `{python}`, as found by a login shell."""
    login: bool = True
    """Commands get the environment of a login shell. `false` for containers, whose images set it."""
    gpus: bool = True
    """Show its GPUs with those of this machine."""

    @property
    def placeholders(self) -> Mapping[str, str]:
        values = {"node.name": self.name, "node.address": self.address or self.name, "python": self.python}
        return {**values, **({"workspace": self.cwd} if self.cwd else {})}


class SlurmSpec(HostSpec):
    """Options of the SLURM job that runs a component. Empty values are left to the cluster."""

    kind: ClassVar = "slurm"
    title: ClassVar = "SLURM job"
    is_submitted: ClassVar = True
    partition: str = ""
    account: str = ""
    qos: str = ""
    time: str = ""
    """Time limit, as in sbatch: `30` (minutes), `4:00:00`, `2-12`."""
    nodes: str = ""
    """Number of nodes. On several, the command runs on each of them, through `srun`."""
    tasks_per_node: str = ""
    """If more than 1, the command runs this many times on each node, through `srun`."""
    gpus_per_node: str = ""
    cpus_per_task: str = ""
    mem: str = ""
    """Per node, such as `64G`."""
    nodelist: str = ""
    exclude: str = ""
    dependency: str = ""
    """Jobs to wait for, such as `afterok:1234`."""
    job_name: str = ""
    """Empty: the names of run and component."""
    options: tuple[str, ...] = ()
    """Other options of `sbatch`, such as `--constraint=h200`."""
    script: tuple[str, ...] = ()
    """Where a SLURM launcher writes its script, which is submitted as it is; the first existing path is
    used. Default: rltui writes a script that runs the command."""
    arguments: tuple[str, ...] = ()
    """With `script`: more words for the command."""
    preview: tuple[str, ...] = ("--dry-run",)
    """With `script`: the last words of the command, with which it writes the script and submits nothing."""
    auto_auth: bool = False
    """If `HF_TOKEN` is not set, pass the token of Hugging Face's programs to the job. It is read when the
    job is submitted, and not stored."""
    gpus: bool = True
    """Show the GPUs of its nodes while it runs; `python3` reads them there, in a step of the job on each
    node (`srun --overlap`)."""
    job: str = ""
    """Number of an existing job to follow; nothing is submitted."""
    array: str = ""
    """Set by `rltui sweep --array`: the job array, and its task in it."""

    @field_validator("*")
    @classmethod
    def _is_one_line(cls, value: object) -> object:
        """Every value may stand in a script."""
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str):
                one_line(text)
        return value


class PodSpec(HostSpec):
    """A pod of a StatefulSet, such as one of a Helm release; rltui reaches it through `kubectl`.

    A command that the pod starts itself is followed: a stop scales the StatefulSet down, a start scales it
    up again, or deletes a pod whose program has ended so that it is created again. In a pod that only
    sleeps, the component's `command` runs; that needs Python 3.9 or newer in its image.
    """

    kind: ClassVar = "kube"
    title: ClassVar = "pod"
    stop_note: ClassVar = (
        "a pod that runs the component directly is removed (its StatefulSet is scaled down), a sleeping pod "
        "stays"
    )
    literal: ClassVar = frozenset({"done"})
    name: str
    """Name of the pod, such as `my-exp-trainer-0`."""
    namespace: str = ""
    """Empty: that of the context."""
    container: str = ""
    """Empty: the pod's first."""
    context: str = ""
    """Context of the kubeconfig. Empty: the current one."""
    cwd: str = ""
    """The folder that is `{workspace}` there. Empty: the working folder of its image."""
    python: str = "python3"
    """The Python there, `{python}`: it runs a small program that looks after the `command`."""
    gpus: bool = False
    """Show its GPUs with those of this machine; that Python reads them, through `kubectl exec`."""
    done: str = ""
    """A regular expression. A program that has ended in a pod that stays up (`…; sleep infinity`) leaves no
    exit code: if the end of its output matches, it counts as 0, otherwise as a failure."""

    @field_validator("done")
    @classmethod
    def _is_pattern(cls, text: str) -> str:
        return parse_pattern(text).pattern

    @property
    def templates(self) -> tuple[str, ...]:
        return self.name, self.namespace

    @property
    def placeholders(self) -> Mapping[str, str]:
        return {"python": self.python, "workspace": self.cwd or "."}

    @property
    def shows_gpus(self) -> bool:
        return self.gpus

    def entry(self, fill: Callable[[object], object]) -> dict[str, Any]:
        filled = super().entry(fill)
        return {**filled, "reach": _exec_words(filled), "login": False, "env": {}, "send_env": ()}

    def terminal_reach(self, entry: Mapping[str, Any]) -> Sequence[str] | None:
        return _exec_words(entry, tty=True)


def _exec_words(entry: Mapping[str, Any], *, tty: bool = False) -> tuple[str, ...]:
    kubectl = Kubectl(entry["context"], entry["namespace"])
    return kubectl.execute(entry["name"], entry["container"], (), tty=tty)


HOST_TABLES: Mapping[str, type[HostSpec]] = {"node": NodeSpec, "slurm": SlurmSpec, "pod": PodSpec}
"""Key of a component in a layout → the kind of host on which it then runs."""
