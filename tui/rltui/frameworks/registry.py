"""The list of frameworks, and detection of the one that a config, or an output folder, belongs to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from rltui.base.text import did_you_mean, join_words
from rltui.errors import ConfigError, NotFoundError

if TYPE_CHECKING:  # 40 ms, which who asks for a family need not pay
    from rltui.frameworks.base import Checkout, Framework
    from rltui.frameworks.inputs import ConfigFiles, Parsed

_FRAMEWORKS = {
    "tinyrl": ("rltui.frameworks.tinyrl:TINYRL", "tinyrl"),
    "medarc": ("rltui.frameworks.medarc:MEDARC", "prime-rl"),
    "prime-rl": ("rltui.frameworks.prime_rl:CURRENT", "prime-rl"),
    "prime-rl-merged": ("rltui.frameworks.prime_rl:MERGED", "prime-rl"),
    "prime-rl-split": ("rltui.frameworks.prime_rl:SPLIT", "prime-rl"),
    "verifiers": ("rltui.frameworks.verifiers:VF_RL", "verifiers"),
    "generic": ("rltui.frameworks.generic:GENERIC", "generic"),
}
"""Id → location, and the framework that it is a generation of, or whose programs it runs; in the order of
detection: of generations the newest first. Each is imported on first use: they have schemas and rules that
few commands need.
"""
IDS = tuple(_FRAMEWORKS)
FILE_PER_PROGRAM = "prime-rl-split"
"""The framework whose programs have a config file each; its other generations have one for all of them."""
EVALUATOR = "verifiers"
"""The framework whose program writes results of evaluations without a run."""
LOOKED_INTO = ("logs", "configs", "monitors", "control", "logs/trainer")
"""Folders whose entries are evidence of the writer of an output folder, besides its own entries."""


class AmbiguousConfigError(ConfigError):
    """Several frameworks would take the files. `candidates` holds their ids, the newest generation first."""

    def __init__(self, paths: Collection[str], candidates: Collection[Framework]) -> None:
        super().__init__(
            f"{' and '.join(paths)} may be for {' or '.join(framework.title for framework in candidates)}",
            details=[f"--framework {framework.id}: {framework.title}" for framework in candidates],
            hint="several frameworks fit: choose one with --framework",
        )
        self.candidates = tuple(framework.id for framework in candidates)


class UnknownConfigError(ConfigError):
    pass


def get(framework_id: str, *, named_in: str = "") -> Framework:
    """The framework of that id.

    Raises:
        ConfigError: if there is none in the file that it is `named_in`.
        NotFoundError: if there is none that a command line names.
    """
    if framework_id not in _FRAMEWORKS:
        hint = did_you_mean(framework_id, IDS) or f"known: {', '.join(IDS)}"
        if named_in:
            raise ConfigError(f"{named_in}: framework: unknown framework: {framework_id}", hint=hint)
        raise NotFoundError(f"unknown framework: {framework_id}", hint=hint)
    framework: Framework = resolve_name(_FRAMEWORKS[framework_id][0])
    return framework


def family_of(framework_id: str) -> str:
    """The id that all generations of a framework share, and projects that run its programs."""
    return _FRAMEWORKS[framework_id][1] if framework_id in _FRAMEWORKS else framework_id


def other_generations(framework: Framework) -> Iterator[Framework]:
    """The frameworks of its family, without itself."""
    names = (name for name in IDS if family_of(name) == family_of(framework.id) and name != framework.id)
    return map(get, names)


def _all_frameworks() -> Iterator[Framework]:
    """Each is imported when it is its turn."""
    return map(get, IDS)


def detect(parsed: Parsed, *, installed: str | None = None) -> Framework:
    """The framework that the files fit: `installed`, the one whose checkout is at hand, if its programs read
    such files, else the one that knows most of their keys.

    Raises:
        AmbiguousConfigError: if several do, and that does not help.
        UnknownConfigError: if there is none; the details describe each file.
    """
    certain = (framework for framework in _all_frameworks() if framework.config.is_certain)
    if match := next((framework for framework in certain if framework.config.fit(parsed) is not None), None):
        return match
    if installed is not None:
        roles = [get(installed).config.role(path, data) for path, data in parsed]
        if None not in roles and len(set(roles)) == len(roles):
            return get(installed)
    fits = {
        framework: fit for framework in _all_frameworks() if (fit := framework.config.fit(parsed)) is not None
    }
    best = [framework for framework, fit in fits.items() if fit == min(fits.values())]
    if len(best) == 1:
        return best[0]
    if best:
        raise AmbiguousConfigError([path for path, _ in parsed], best)
    if len(parsed) == 1 and (explanation := _not_alone(*parsed[0])):
        raise UnknownConfigError(f"{parsed[0][0]} {explanation}")
    known_text = ", ".join(
        f"{framework.id} ({framework.title})" for framework in _all_frameworks() if framework.layouts
    )
    raise UnknownConfigError(
        "unknown framework: no known framework fits this config",
        details=[*(f"{path}: {_shape(path, data)}" for path, data in parsed), f"known: {known_text}"],
        hint='write a layout with framework = "generic" and your own commands, and pass it with --layout',
    )


def _shape(path: str, data: Mapping[str, Any]) -> str:
    """A description of a file that does not fit with the others."""
    lookalike = next(
        (framework for framework in _all_frameworks() if framework.config.fit([(path, data)]) == 0), None
    )
    if lookalike is not None:
        return f"looks like the {lookalike.config.role(path, data)} file of {lookalike.title}"
    if explanation := _not_alone(path, data):
        return explanation
    return f"has {', '.join(list(data)[:6])}" if data else "is empty"


def _not_alone(path: str, data: Mapping[str, Any]) -> str:
    explanations = (framework.config.explain(path, data) for framework in _all_frameworks())
    return next(filter(None, explanations), "")


def likely(error: AmbiguousConfigError, parsed: Parsed) -> str | None:
    """The default candidate if no checkout is at hand; of several generations the newest."""
    return next(
        (name for name in error.candidates if any(get(name).config.is_likely(data) for _, data in parsed)),
        None,
    )


def conversions() -> str:
    """Return a sentence on the files that can be converted, and to what."""
    targets = {
        framework.config.program: [*dict.fromkeys(map(family_of, framework.conversions))]
        for framework in _all_frameworks()
        if framework.conversions
    }
    ways = [f"those of {program} to {join_words(names)}" for program, names in targets.items()]
    later = (name for name in IDS if family_of(name) == name and get(name).migration is not None)
    ways += [f"those of {name} to a later release" for name in later]
    return f"files that can be converted: {join_words(ways)}"


def with_checkout() -> tuple[Framework, ...]:
    """The frameworks that are run from a checkout of their own, each in one generation."""
    return tuple(
        framework
        for framework in _all_frameworks()
        if framework.checkout is not None and family_of(framework.id) == framework.id
    )


def checkouts() -> tuple[Checkout, ...]:
    """The checkouts of all frameworks that are run from one, each once."""
    return tuple(
        dict.fromkeys(framework.checkout for framework in _all_frameworks() if framework.checkout is not None)
    )


def layout_for(framework: Framework, files: ConfigFiles) -> str:
    """Name of the shipped layout that runs a config.

    Raises:
        ConfigError: if there is none: the framework needs a layout of the user's.
    """
    return _layout_for_role(
        framework.layouts, files, f"{framework.title} has no default layout", hint="choose one with --layout"
    )


def cluster_layout_for(framework: Framework, files: ConfigFiles) -> str:
    """Name of the shipped layout that runs it as SLURM jobs.

    Raises:
        ConfigError: if there is none: programs that work together on one box have no single command.
    """
    return _layout_for_role(
        framework.cluster_layouts,
        files,
        f"{framework.title} has no layout for SLURM",
        hint="write one with `slurm = {}` for the component that runs as a job, and pass it with --layout",
    )


def _layout_for_role(layouts: Mapping[str, str], files: ConfigFiles, lack: str, *, hint: str) -> str:
    layout = next((layout for key, layout in layouts.items() if _is_present(key, files)), None)
    if layout is None:
        raise ConfigError(lack, hint=hint)
    return layout


def _is_present(key: str, files: ConfigFiles) -> bool:
    role, _, table = key.partition(".")
    return role in files and (not table or isinstance(files[role].data.get(table), Mapping))


def framework_of_tree(names: Collection[str]) -> str | None:
    """Id of the framework that wrote an output folder with these entries; `None` if nothing tells.

    `names`: relative to the folder, with `/`: its own entries and those of the folders in `LOOKED_INTO`. A
    folder that was used again has entries of an older generation, too: the newest counts.
    """
    candidates = (
        framework.id
        for framework in _all_frameworks()
        if any(fnmatchcase(n, sign) for sign in framework.signs for n in names)
    )
    return next(candidates, None)
