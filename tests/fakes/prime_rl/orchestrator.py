"""The program `orchestrator`."""

from __future__ import annotations

from tests.fakes.prime_rl.generation import Generation
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.orchestrator_current import CurrentOrchestrator
from tests.fakes.prime_rl.orchestrator_files import FilesOrchestrator
from tests.fakes.prime_rl.resolve import component


def orchestrator(generation: Generation, arguments: list[str]) -> int:
    """Run until the last step; returns the exit code."""
    tree = component(generation, "orchestrator", parse(generation, "orchestrator", arguments))
    if generation.is_late:
        return CurrentOrchestrator(generation, tree).run()
    FilesOrchestrator(generation, tree).run()
    return 0
