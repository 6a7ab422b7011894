"""The words of kubectl's command lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kubectl:
    """A cluster and a namespace. Empty: kubectl's default."""

    context: str = ""
    namespace: str = ""

    def argv(self, *arguments: str) -> tuple[str, ...]:
        options = [f"--context={self.context}"] if self.context else []
        options += [f"--namespace={self.namespace}"] if self.namespace else []
        return ("kubectl", *options, *arguments)

    def execute(
        self, pod: str, container: str, command: Sequence[str], *, tty: bool = False
    ) -> tuple[str, ...]:
        """Arguments that run `command` in a pod; with `tty`, in this terminal."""
        container_option = [f"--container={container}"] if container else []
        return self.argv("exec", "-it" if tty else "-i", pod, *container_option, "--", *command)
