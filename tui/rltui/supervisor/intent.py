"""Writes the pending work to disk whenever it changes."""

from __future__ import annotations

from rltui.services.experiment.intent import Intent, IntentFile, intent_of
from rltui.supervisor.commands import Commands
from rltui.supervisor.runtime import Runtime


class IntentWriter:
    """Subscribed to the bus: what a component or a command still has to do is on disk before it is done."""

    def __init__(self, runtime: Runtime, commands: Commands) -> None:
        self._runners = runtime.processes.runners
        self._commands = commands
        self._file = IntentFile(runtime.setup.control.intent_file)
        runtime.events.on_lifecycle(lambda *_: self.save())
        runtime.events.on_change("pending", self.save)

    def read(self) -> Intent:
        """The intent that an earlier supervisor left."""
        return self._file.read()

    def save(self) -> None:
        """Write the pending work down, where it has changed or the file is damaged."""
        lives = {name: runner.lifecycle for name, runner in self._runners.items()}
        commands = self._commands
        intent = intent_of(lives, commands.pending, commands.applied_edit, commands.down)
        actors = {name: self._runners[name].actor for name in (*intent.waiting, *intent.backoff)}
        self._file.write(intent.replace(actors={name: actor for name, actor in actors.items() if actor}))
