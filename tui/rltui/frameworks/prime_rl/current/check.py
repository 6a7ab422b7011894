"""Everything that can be wrong with a config of this generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.knobs import Knob
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.config_data import effective, value_at
from rltui.frameworks.grammar import Grammar
from rltui.frameworks.prime_rl.current import renamed
from rltui.frameworks.prime_rl.current.conflicts import conflict_problems
from rltui.frameworks.prime_rl.current.knobs import DEFAULT_BATCH, KNOBS, defaults, more_knobs
from rltui.frameworks.prime_rl.current.knobs_orchestrator import BATCH
from rltui.frameworks.prime_rl.current.parts import part_problems
from rltui.frameworks.prime_rl.current.ports import port_problems
from rltui.frameworks.prime_rl.current.renderers import renderer_problems
from rltui.frameworks.prime_rl.current.rules_rl import RL_RULES, is_single
from rltui.frameworks.prime_rl.current.rules_sft import SFT_RULES
from rltui.frameworks.prime_rl.current.schema import SHAPES
from rltui.frameworks.prime_rl.current.schema_table import keys
from rltui.frameworks.prime_rl.current.shape import NONE, shape_problems
from rltui.frameworks.prime_rl.current.source_rules import source_problems
from rltui.frameworks.prime_rl.current.sources import sources
from rltui.frameworks.prime_rl.current.spelling import spelled, switches
from rltui.frameworks.prime_rl.current.vllm_arguments import argument_hints
from rltui.frameworks.rules import Checks, rules_of_other_date, value_problems

_NAMESPACES = {"rl": "", "sft": "sft"}
_RENAMED = {"rl": renamed.RL, "sft": renamed.SFT}
NO_TENSOR_PARALLEL = {"sft.model.tp": 1}
"""A knob of earlier generations; the trainers of this one share layers by FSDP alone."""
AS_OF = "21 August 2026"
"""The commit whose models these tables are: 559b44772."""
_ANYTHING = ".*"
"""Below a table whose keys are not all known."""


class _Checks(Checks):
    """With tables that are there by default among the values, and what shared rules ask for."""

    def values(self, files: ConfigFiles) -> dict[str, Any]:
        values = {**Checks.values(self, files), **switches(files), **NO_TENSOR_PARALLEL}
        if values[BATCH.batch_size] is None and values[BATCH.token_batch_size] is None:
            values[BATCH.batch_size] = DEFAULT_BATCH
        if (images := values.get("model.vlm")) is not None:
            values.setdefault("trainer.model.vlm", images)
        return values


def _grammar(role: str) -> Grammar:
    found = sorted(set(keys(SHAPES[role])))
    free = [key.removesuffix(_ANYTHING) for key, kind in found if kind == "free"]
    return Grammar(
        "prime-rl",
        known=tuple(key for key, kind in found if kind == "value"),
        namespace=_NAMESPACES[role],
        free=tuple(free),
        tables=tuple(key for key, kind in found if kind == "table" and key not in free),
        renamed=_RENAMED[role],
        as_of=AS_OF,
    )


CHECKS = _Checks(
    {role: _grammar(role) for role in SHAPES},
    KNOBS,
    defaults,
    (*RL_RULES, *SFT_RULES),
    lax=True,
    none=NONE,
    as_of=AS_OF,
)


def check(files: ConfigFiles) -> tuple[Problem, ...]:
    """Keys, types and bounds, rules between knobs, then what concerns whole tables, sources and ports."""
    plain = spelled(files)
    found = [*CHECKS(plain)]
    of_sources = more_knobs(files)
    found.extend(value_problems(of_sources, plain, lax=True, none=NONE, as_of=AS_OF))
    told = {problem.key for problem in found if problem.severity == "error"}
    rules = [problem for problem in _shapes(files) if problem.key not in told]
    for role, file in plain.items():
        if role in SHAPES:
            rules.extend(part_problems(file, _NAMESPACES[role]))
            rules.extend(argument_hints(file, _NAMESPACES[role]))
    if "rl" in files:
        rules.extend(conflict_problems(files["rl"]))
    if not any(problem.severity == "error" for problem in (*found, *rules)):
        rules.extend(_of_values(plain, of_sources))
    else:
        rules.extend(source_problems(plain, {}))
    return (*found, *rules_of_other_date(found, rules))


def _shapes(files: ConfigFiles) -> Iterator[Problem]:
    for role, file in files.items():
        if role in SHAPES:
            yield from shape_problems(file, SHAPES[role], _NAMESPACES[role], as_of=AS_OF)


def _of_values(files: ConfigFiles, of_sources: tuple[Knob, ...]) -> Iterator[Problem]:
    """What is only looked at while all values are sound."""
    values: Mapping[str, Any] = CHECKS.values(files) | effective(of_sources, files, defaults(files))
    yield from source_problems(files, values)
    for role, file in files.items():
        if role in SHAPES:
            yield from renderer_problems(values, is_rl=role == "rl", path=file.path)
    if "rl" in files and is_single(values):
        rl = files["rl"]
        servers = sum(one.file == "rl" for one in sources(files))
        router = value_at(rl.data, "inference.router")
        yield from port_problems(values, path=rl.path, servers=servers, router=router)
