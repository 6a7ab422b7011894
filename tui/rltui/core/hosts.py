"""Hosts of components outside of this machine: a node, a SLURM job, a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator

from rltui.core.kinds import one_line, parse_pattern
from rltui.core.values import TomlTable


class NodeSpec(TomlTable):
    """Another machine, on which commands can be run. It needs Python 3.9 or newer, and nothing of rltui."""

    kind: ClassVar = "node"
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    reach: tuple[str, ...] = Field(min_length=1)
    """Words before a command that shall run there, such as `["ssh", "node-2"]` or
    `["docker", "exec", "-i", "box"]`. They get no terminal, nobody is asked for a password, and what was
    started there must outlive them."""
    address: str = ""
    """By which the other nodes reach it, `{node.address}`. Empty: its name."""
    group: str = ""
    """`each = "nodes.GROUP"` of a component means the nodes that have this one, `each = "nodes"` all."""
    cwd: str = ""
    """The folder there that is `{workspace}`. Empty: the same path as here."""
    env: dict[str, str] = Field(default={})
    """For all components on it, such as `NCCL_SOCKET_IFNAME`; beside what a login shell there has."""
    send_env: tuple[str, ...] = ()
    """Variables of the shell here that go along, such as `WANDB_API_KEY`: they are in no file here."""
    python: str = "python3"
    """The Python there, `{python}`, as found by a login shell."""
    login: bool = True
    """Commands there get the environment of a login shell. `false` for containers, whose images do."""
    gpus: bool = True
    """Its GPUs are shown beside those of this machine."""


class SlurmSpec(TomlTable):
    """SLURM is asked for this where a component runs as a job. Empty values are left to the cluster."""

    kind: ClassVar = "slurm"
    partition: str = ""
    account: str = ""
    qos: str = ""
    time: str = ""
    """Its limit, as sbatch takes it: `30` (minutes), `4:00:00`, `2-12`."""
    nodes: str = ""
    """How many. On more than one, the command runs on each of them, through `srun`."""
    tasks_per_node: str = ""
    """More than one: the command runs so many times on each node, through `srun`."""
    gpus_per_node: str = ""
    cpus_per_task: str = ""
    mem: str = ""
    """Per node, such as `64G`."""
    nodelist: str = ""
    exclude: str = ""
    dependency: str = ""
    """Jobs that it waits for, such as `afterok:1234`."""
    job_name: str = ""
    """Empty: the names of experiment and component."""
    options: tuple[str, ...] = ()
    """Further options of `sbatch`, such as `--constraint=h200`."""
    script: tuple[str, ...] = ()
    """Where a command that is a launcher for SLURM writes its script, which is then submitted as it is; the
    first that it wrote counts. Left out: rltui writes a script that runs the command."""
    arguments: tuple[str, ...] = ()
    """With `script`: further words for the command."""
    preview: tuple[str, ...] = ("--dry-run",)
    """With `script`: last words for the command, with which it writes the script and submits nothing."""
    auto_auth: bool = False
    """Where `HF_TOKEN` is not set, the job gets the token that Hugging Face's programs keep for the user. It
    is read when the job is submitted, and written nowhere."""
    gpus: bool = True
    """The GPUs of its nodes are shown beside those of this machine while it runs; the `python3` there reads
    them, in a step of the job on each node (`srun --overlap`)."""
    job: str = ""
    """A job that is there already, by its number: it is followed, and nothing is submitted."""
    array: str = ""
    """Set by `rltui sweep --array`: the job array that it becomes a task of, and which one."""

    @field_validator("*")
    @classmethod
    def _is_one_line(cls, value: object) -> object:
        """Every value may stand in a script."""
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str):
                one_line(text)
        return value

    def with_given(self, options: Mapping[str, Any]) -> SlurmSpec:
        """The same with the options of a command line; lists are appended to its own.

        Raises:
            ValidationError: if one of them is no option of a job.
        """
        own_values = self.model_dump()
        extended = {
            key: (*own_values[key], *options[key]) for key in ("options", "arguments") if key in options
        }
        return SlurmSpec.model_validate({**own_values, **options, **extended})


class PodSpec(TomlTable):
    """A pod that a StatefulSet makes, such as one of a Helm release; rltui reaches it through `kubectl`.

    Where it runs a command of its own, that is followed: a stop scales the StatefulSet below the pod, and a
    start scales it up again, or deletes a pod whose end was seen, so that it is made anew. Where it only
    sleeps, the component's `command` is run in it; that needs Python 3.9 or newer in its image.
    """

    kind: ClassVar = "kube"
    name: str
    """As the StatefulSet names it, such as `my-exp-trainer-0`."""
    namespace: str = ""
    """Empty: that of the context."""
    container: str = ""
    """Empty: the pod's first."""
    context: str = ""
    """Of the kubeconfig. Empty: the current one."""
    cwd: str = ""
    """The folder there that is `{workspace}`. Empty: the one in which its image runs commands."""
    python: str = "python3"
    """The Python there, `{python}`: it looks after a `command` that is run in the pod."""
    gpus: bool = False
    """Its GPUs are shown beside those of this machine; read by that Python, through a `kubectl exec` of their
    own."""
    done: str = ""
    """A regular expression. A program that has ended in a pod that sleeps on (`…; sleep infinity`) leaves no
    exit code: where the end of its output matches this, it counts as 0, else as unknown, a failure."""

    @field_validator("done")
    @classmethod
    def _is_pattern(cls, text: str) -> str:
        return parse_pattern(text).pattern


HostSpec = NodeSpec | SlurmSpec | PodSpec
