"""A framework: a record of its name and of its parts, each a record of functions in its own module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rltui.core.config.schema import ConfigSchema
from rltui.core.experiment.layout import Layout
from rltui.core.logs.failure_cause import FailurePattern
from rltui.errors import UsageError
from rltui.frameworks.config import ConfigSide
from rltui.frameworks.dashboard import Dashboard
from rltui.frameworks.engines.base import Engine
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.evaluation import EvaluationSide
from rltui.frameworks.failures import COMMON
from rltui.frameworks.gpu_needs import GpuNeeds
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.launch import LaunchSide
from rltui.frameworks.migration import Migration
from rltui.frameworks.progress import ProgressSide
from rltui.frameworks.run_settings import RunSettings
from rltui.frameworks.servers import ServersSide


@dataclass(frozen=True, slots=True)
class Checkout:
    """Identification of the user's own checkout of the framework."""

    project: str
    """`name` in the `[project]` table of its `pyproject.toml`."""
    variable: str
    """Environment variable that names the folder: `RLTUI_PRIME_RL`."""
    programs: tuple[str, ...]
    """Console scripts. If all are on the path and there is no checkout, they are run from there."""
    generations: tuple[tuple[str, str], ...] = ()
    """(path in the tree, id of the framework that a checkout with it is), newest first; the first that exists
    counts."""
    dependents: tuple[str, ...] = ()
    """Names of packages: a project that depends on one of them counts as a checkout too."""
    lacking: Callable[[Mapping[str, str]], str] | None = None
    """Takes the versions of all installed packages, returns the reason why they lack such programs; empty if
    they have them.
    """
    instead: str = ""
    merges_tables: str = ""
    """Path in the tree whose programs do not merge several config files key by key: a later file replaces
    whole tables.
    """
    traits: tuple[tuple[str, str, str], ...] = ()
    """(name, path in the tree, text that stands in that file): abilities of its own programs in which
    releases differ.
    """


@dataclass(frozen=True, slots=True)
class Converted:
    text: str
    """The config as TOML."""
    notes: tuple[str, ...]
    """Keys that have no counterpart there, or mean something else, in words."""


@dataclass(frozen=True, slots=True)
class Given:
    """Everything that a framework's answers depend on besides the files of a config."""

    schemas: Mapping[str, ConfigSchema] = field(default_factory=dict)
    """Role → schema of the program that will read the files; they precede the shipped ones."""
    layout: Layout | None = None
    servers: tuple[str, ...] = ()
    """Addresses that a person chose for inference; empty: those of the config."""
    is_lent: bool = False
    """The server is one that the config would start, of another experiment on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Framework:
    """All knowledge of one RL framework, in one of its generations if those differ.

    The defaults are a framework that is only chosen by name, whose configs say nothing, and whose programs
    get the values of the layout.
    """

    id: str
    title: str
    generation_title: str = ""
    """The title, if it is a generation of a framework; empty: that has only one."""
    layouts: Mapping[str, str] = field(default_factory=dict)
    """Role, or role and table (`sft.eval`) → name of the shipped layout that runs a config with such a file;
    the first present wins."""
    cluster_layouts: Mapping[str, str] = field(default_factory=dict)
    """Role → name of the shipped layout that runs it as SLURM jobs; the first role present wins."""
    job_on_one_gpu: tuple[str, ...] = ()
    """Options with which the launcher that writes a job's script has all components share one GPU."""
    run_roles: frozenset[str] = frozenset()
    """Layout ids of the programs that write the run. Others are not part of it, unless the layout says so."""
    checkout: Checkout | None = None
    own_packages: tuple[str, ...] = ()
    """Packages that its programs need in the interpreter of rltui, which runs them."""
    engine: Engine = VLLM
    """The inference server that its programs start, or that a run is sent to."""
    progress: ProgressSide = ProgressSide()
    failures: Sequence[FailurePattern] = COMMON
    signs: tuple[str, ...] = ()
    """Names in the output folder, with `/` and wildcards, any of which shows that this framework wrote a run
    there.
    """
    conversions: Mapping[str, Callable[[ConfigFiles, Framework], Converted | None]] = field(
        default_factory=dict
    )
    """Id of another framework → writes the equivalent config for it; `None` while a value is faulty."""
    migration: Migration | None = None
    """The way of its configs to a later generation; `None`: there is one only."""

    config: ConfigSide = ConfigSide()
    launch: LaunchSide = LaunchSide()
    servers: ServersSide = ServersSide()
    run: RunSettings = RunSettings()
    gpu_needs: GpuNeeds = GpuNeeds()
    evaluation: EvaluationSide
    dashboard: Dashboard | None = None
    """Its own one, which shows its runs in a browser."""

    given: Given = Given()
    make: Callable[[Given], Framework] | None = None
    """Composes the same framework with something else given; `None`: that makes no difference."""
    reads_layout: bool = False
    """Whether the layout makes a difference."""

    def with_schemas(self, schemas: Mapping[str, ConfigSchema]) -> Framework:
        """The same framework for files that will be read with these schemas, by role."""
        return self._with(replace(self.given, schemas=schemas))

    def fitted(self, layout: Layout) -> Framework:
        """The same framework with facts that only the layout tells."""
        return self._with(replace(self.given, layout=layout)) if self.reads_layout else self

    def sent_to(self, urls: Sequence[str], *, is_lent: bool = False) -> Framework:
        """The same framework for a run that is to use the inference servers at these addresses, whatever its
        config says.

        `is_lent`: another experiment's on this machine, such as the config would start itself.

        Raises:
            UsageError: if it is unknown how to send its programs there.
        """
        most = self.servers.most
        if most == 0:
            raise UsageError(
                f"cannot send a run of {self.title} to the inference server at {' and '.join(urls)}",
                hint="set the address in its own config, and remove its inference server from the layout",
            )
        if most is not None and len(urls) > most:
            raise UsageError(f"{self.title} uses one inference server, not {len(urls)}")
        return self._with(replace(self.given, servers=tuple(urls), is_lent=is_lent))

    def _with(self, given: Given) -> Framework:
        return self if self.make is None else self.make(given)
