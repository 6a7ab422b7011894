"""`checkpoints use`: trained weights become the model of a config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.arguments import EDIT, FRAMEWORK, RUN
from rltui.cli.choosing import choose
from rltui.cli.command import Arguments, argument, command
from rltui.cli.commands.checkpoints import WEIGHTS, weights_choice
from rltui.cli.edits import FileEdits, edit_experiment, edit_request, execute_edit
from rltui.cli.progress import working
from rltui.core import hints
from rltui.errors import ConfigError, UsageError
from rltui.services.experiment.registry import known_experiments

if TYPE_CHECKING:
    from rltui.frameworks.base import Framework
    from rltui.frameworks.inputs import ConfigFiles


@command(
    "checkpoints use",
    RUN,
    WEIGHTS,
    argument("--config", "CONFIG", "config to edit (default: the run's own)", completes="configs"),
    *EDIT,
    FRAMEWORK,
    examples=(
        "checkpoints use demo best",
        "checkpoints use demo 24 --config rl.toml --plan",
    ),
)
def use(arguments: Arguments) -> int:
    """Make what was trained the model of a config, such as the result of SFT that of RL."""
    from rltui.client.reader import ExperimentReader
    from rltui.services.config.files import named
    from rltui.services.runs import weights
    from rltui.services.runs.observed import framework_of

    if isinstance(choice := weights_choice(arguments.weights), Path):
        folder = weights.complete_folder(choice)
    else:
        source = choose(arguments, acts=True).record
        step = ExperimentReader(source).checkpoint_step(choice)
        with working(f"exporting the weights of checkpoint {step}"):
            folder = weights.folder_of_step(source, step, only_look=arguments.plan)
    if arguments.config is None:
        record = choose(arguments, acts=True).record
        files_of_run = ExperimentReader(record).document().load()
        edits = _of_model(files_of_run, framework_of(record), folder, called=record.name)
        return edit_experiment(record, edit_request("set", arguments, edits=edits), arguments)
    files = named([Path(arguments.config)])
    file_edits = FileEdits(files, arguments.framework)
    request = edit_request(
        "set",
        arguments,
        edits=_of_model(file_edits.files, file_edits.framework, folder, called=arguments.config),
    )
    readers = [
        candidate for candidate in known_experiments() if set(map(str, files)) <= set(candidate.config_files)
    ]
    if readers:  # whose history knows it then: it can be undone
        return edit_experiment(max(readers, key=lambda candidate: candidate.created_at), request, arguments)
    if arguments.restart:
        raise UsageError(f"no run uses {arguments.config}", hint="leave out --restart")
    execute_edit(file_edits.request_plan, request, arguments)
    return 0


def _of_model(files: ConfigFiles, framework: Framework, folder: Path, *, called: str) -> dict[str, str]:
    """Values that make the folder the model: for every key that has named the same one.

    Raises:
        ConfigError: if the config is of a run that makes models, rather than one that begins with this.
    """
    from rltui.core.config.data import deep_leaves

    if set(files) == {"sft"}:
        raise ConfigError(
            f"{called} is the config of SFT, which would start from its own result",
            hint=f"name the config to start from these weights: {hints.USE_CHECKPOINT}",
        )
    model_keys = {
        (f"{role}.{key}" if len(files) > 1 and role not in ("rl", "sft") else key): value
        for role, file in files.items()
        for key, value in deep_leaves(file.data).items()
        if role != "sft" and framework.run.is_model(key) and isinstance(value, str)
    }
    first_key = next(iter(model_keys.values()), None)
    return {key: str(folder) for key, value in model_keys.items() if value == first_key} or {
        "model.name": str(folder)
    }
