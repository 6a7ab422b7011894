"""The config that a request for a run asks for, on disk while the run is planned and created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from rltui.base.text import join_words
from rltui.client.checking import identify
from rltui.client.draft import ConfiguredRequest, plan_record
from rltui.client.reader import ExperimentReader
from rltui.core import hints
from rltui.core.config.data import value_at
from rltui.core.experiment.request import ConfigLine, ExperimentRequest
from rltui.frameworks.base import Framework
from rltui.services.config import origins
from rltui.services.config.document import ConfigDocument
from rltui.services.config.run_config import RunConfig, RunConfigBuilder
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.recorded_config import recorded_config
from rltui.services.runs.index import RunIndex
from rltui.services.runs.references import find_run

ChooseId = Callable[[tuple[Path, ...]], str | None]
"""Returns the id of the framework of config files; `None` where they tell by themselves."""


@contextmanager
def configured(request: ExperimentRequest, choose: ChooseId | None = None) -> Iterator[ConfiguredRequest]:
    """Provide the request with its config while the context lasts; errors in it name the user's files.

    A run that is resumed continues with its own copy of the config, where it has one of the same files.

    Raises:
        ConfigError: if a file cannot be read, or an edit has an unknown key or an invalid value.
        ConflictError: if there is no such checkpoint.
    """
    request = _resumed(request)
    with ExitStack() as stack:
        run = stack.enter_context(_built(request, choose))
        if request.earlier_run != "resume":
            yield run
            return
        record, _ = plan_record(run)
        if (earlier := _with_own_copies(record)) is not None:
            record, own = earlier, earlier.config_paths
            notes = [f"the run continues with its own copy of the config: {' '.join(map(str, own))}"]
            notes += [
                f"{change}: the copy lacks later changes; set them ({hints.SET}), or start with --new"
                for change in run.copies.changed_since(own)
            ]
            config = replace(request.config, files=own, overlays=())
            own_run = stack.enter_context(_built(replace(request, config=config), choose))
            run = replace(own_run, notes=(*run.notes, *notes, *own_run.notes))
        if isinstance(request.checkpoint, str):
            step = ExperimentReader(record).checkpoint_step(request.checkpoint)
            run = replace(run, request=replace(run.request, checkpoint=step))
        yield run


@contextmanager
def _built(request: ExperimentRequest, choose: ChooseId | None) -> Iterator[ConfiguredRequest]:
    """Provide it with the config that it names, or the recorded one of the run that it names."""
    workspace = request.workspace or Path.cwd()
    id_of = choose or (lambda _: request.framework)

    def framework_of(files: tuple[Path, ...]) -> Framework:
        return identify(files, request.layout, id_of(files), workspace=workspace)[0]

    with ExitStack() as stack:
        config, notes = request.config, tuple[str, ...]()
        if request.source and not config.files:
            recorded = stack.enter_context(recorded_config(find_run(RunIndex(), request.source)))
            if not request.origin.parent:
                yield ConfiguredRequest(request, recorded)
                return
            config, notes = _forked(request, recorded, framework_of(recorded.files))
        builder = RunConfigBuilder(config, framework_of, workspace=workspace, force=request.force)
        copies = stack.enter_context(builder.build())
        chosen = replace(request, framework=id_of(copies.files))
        yield ConfiguredRequest(chosen, copies, (*notes, *copies.warnings))


def _resumed(request: ExperimentRequest) -> ExperimentRequest:
    """The request with the files of the run in its folder, if it resumes one that was made of another run."""
    if not request.source or request.earlier_run != "resume" or request.output_dir is None:
        return request
    record = ControlFolder(request.output_dir).read_record()
    return (
        request
        if record is None
        else replace(request, config=replace(request.config, files=record.config_paths))
    )


def _with_own_copies(record: ExperimentRecord) -> ExperimentRecord | None:
    """The record of the earlier run in the folder, if it has copies of its own of the same config files."""
    earlier = record.control.read_record()
    files = earlier.config_paths if earlier is not None else ()
    is_copy = any(origins.origin(path) is not None for path in files) and all(map(Path.exists, files))
    same = origins.original_files(files) == origins.original_files(record.config_paths)
    return earlier if is_copy and same else None


def _forked(
    request: ExperimentRequest, recorded: RunConfig, framework: Framework
) -> tuple[ConfigLine, tuple[str, ...]]:
    """The config line of a fork: the parent's config without what it says of where it continued and kept its
    checkpoints, and a sentence about that.
    """
    document = ConfigDocument(recorded.files, framework)
    is_resumed = request.origin.parent_step is not None
    elsewhere = framework.run.resume_elsewhere
    removed_keys = [
        *framework.run.resume_keys,
        *(key for key in elsewhere if is_resumed or key.endswith("output_dir")),
    ]
    names = {(knob.file, knob.key): knob.name for knob in document.knobs}
    cleared = {
        names.get((role, key), key): "none"
        for role, file in document.files.items()
        for key in removed_keys
        if value_at(file.data, key) is not None
    }
    edits = {**cleared, **request.config.edits}
    notes = (f"{join_words(list(cleared))} of the parent is not copied: it has its own checkpoints",)
    return ConfigLine(recorded.files, edits=edits, is_copied=True), notes if cleared else ()
