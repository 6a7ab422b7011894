"""`completion`: the script that completes command lines in a shell, and the words that fit."""

from __future__ import annotations

from rltui.cli.command import Arguments, argument, command, hidden


@command(
    "completion",
    argument("shell", "SHELL", "bash, zsh or fish", choices=("bash", "zsh", "fish")),
    hidden("word", nargs="*"),
    examples=(
        "completion bash",
        "completion zsh",
        "completion fish",
    ),
    is_local=True,
)
def completion(arguments: Arguments) -> int:
    from rltui.cli.completion import print_completion

    print_completion(arguments.shell, arguments.word)
    return 0
