"""PRIME-RL: one framework, in three generations that are run differently.

The possible content of a file is defined by the checkout's own models, or by the schema that it fits;
`generation.py` has the differences in how the programs are run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from rltui.core.config.schema import ConfigSchema
from rltui.frameworks.answers import unknown
from rltui.frameworks.base import Framework, Given
from rltui.frameworks.inputs import ConfigFile
from rltui.frameworks.migration import Migration
from rltui.frameworks.prime_rl import (
    configs,
    derived_values,
    generation,
    log_lines,
    meaning,
    migration,
    rules,
    values,
)
from rltui.frameworks.prime_rl.evaluation import evaluation_of
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.gpu_needs import gpu_needs_of
from rltui.frameworks.prime_rl.launch import PrimeRlLaunch
from rltui.frameworks.prime_rl.learning import learning_of
from rltui.frameworks.prime_rl.run_config import RunConfigReader
from rltui.frameworks.prime_rl.run_settings import WRITERS, run_settings_of
from rltui.frameworks.prime_rl.servers import PrimeRlServers
from rltui.frameworks.prime_rl.tables import table_problems
from rltui.frameworks.progress import ProgressSide
from rltui.frameworks.schemas import Grammar, SchemaConfig

_PROGRESS = ProgressSide(
    facts=log_lines.FACTS,
    log_row=log_lines.log_row,
    log_marks=log_lines.MARKS,
    phases=log_lines.PHASES,
)
"""The same in every generation: only the latest writes a metrics file, too."""
_MIGRATION = Migration(
    releases=migration.RELEASES,
    find=migration.find,
    roles=migration.roles_of,
    source=migration.source_of,
    migrate=migration.migrate,
    of_schemas=migration.of_schemas,
    reader=migration.reader,
    by_models=meaning.by_models,
    schemas=meaning.schemas,
    shipped=meaning.shipped,
    moved=meaning.moved,
    set_values=meaning.set_values,
)


def framework(g: Generation, given: Given = Given()) -> Framework:  # noqa: B008 - a value that nobody changes
    """Compose one generation, or a project that contains it."""
    run, reader = RunConfigReader(g, given.servers, given.is_lent), SchemaConfig(_grammar(g, given.schemas))
    needs, servers = gpu_needs_of(run, reader), PrimeRlServers(run, reader)
    return Framework(
        id=g.id,
        title=g.title,
        generation_title="" if g.is_contained else g.title,
        layouts=g.layouts,
        cluster_layouts=g.cluster_layouts,
        job_on_one_gpu=g.job_on_one_gpu,
        run_roles=frozenset({*WRITERS, "online-eval"}),
        checkout=g.checkout,
        progress=_PROGRESS,
        failures=log_lines.FAILURES,
        signs=g.signs,
        migration=_MIGRATION,
        config=replace(
            reader.side,
            role=partial(configs.role_in, g.id),
            fit=unknown if g.is_contained else partial(configs.fit_in, g.id),
            is_likely=configs.is_of_summer,
            explain=configs.not_alone,
            required=tuple(frozenset({role}) for role in g.roles),
            models=g.models,
            merges_deeply=g.merges_deeply,
        ),
        launch=PrimeRlLaunch(run, needs.engine, servers.further).side,
        servers=servers.side,
        run=run_settings_of(run),
        gpu_needs=needs,
        evaluation=evaluation_of(run),
        dashboard=g.dashboard,
        given=given,
        make=partial(framework, g),
    )


def _grammar(g: Generation, schemas: Mapping[str, ConfigSchema]) -> Grammar:
    def schema(file: ConfigFile) -> ConfigSchema:
        """The checkout's, else the one that the file fits best."""
        if own := schemas.get(file.role):
            return own
        if file.role in configs.PARTS:
            return configs.best_alone(file.role, file.data)[0]
        return configs.best(g.schemas, file.role, file.data, until=g.schemas_until)[0]

    return Grammar(
        reader="prime-rl",
        overlay=configs.OVERLAY,
        namespaces=g.roles,
        schema=schema,
        free=configs.FREE,
        foreign=configs.FOREIGN,
        switches=configs.SWITCHES,
        rules=rules.rules,
        readers=values.servers_of,
        following=lambda _, values_, names: derived_values.defaults(values_, names),
        further=table_problems,
        derived=lambda _, values_, names: derived_values.derived(values_, names),
        batch_knobs=lambda _, names: derived_values.batch_knobs(names),
        bottleneck_knobs=lambda _, names: derived_values.bottleneck_knobs(names),
        learning=learning_of,
        advice=lambda _, values_: rules.advice(values_),
    )


CURRENT, MERGED, SPLIT = map(framework, (generation.CURRENT, generation.MERGED, generation.SPLIT))
