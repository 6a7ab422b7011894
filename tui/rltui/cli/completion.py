"""`completion`: what a shell needs to complete our command lines, made from the parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

from rltui.cli.parser import options_by_command
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.experiments import known_experiments
from rltui.services.runs.index import RunIndex

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
"""Words that no shell expands."""
_WITH_COMPONENTS = "start stop restart logs attach diff"
_WITH_NAMES = "status down orphans checkpoints"
_WITH_RUNS = "tag describe best archive unarchive rm restore compare export fork promote rerun"
_BASH = """\
_rltui() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    case "$prev" in -n|--name)
        COMPREPLY=( $(compgen -W "$(rltui completion names)" -- "$cur") ); return
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} $(rltui completion names)"
    else case "${{COMP_WORDS[1]}}" in
{cases}
        esac
        case "$cur" in -*) ;; *) case "${{COMP_WORDS[1]}}" in
            {components}) words="$words $(rltui completion components)";;
            {named}) words="$words $(rltui completion names)";;
            {runs}) words="$words $(rltui completion runs)";;
        esac;; esac
    fi
    COMPREPLY=( $(compgen -W "$words" -- "$cur") $(compgen -f -X '!*.toml' -- "$cur") )
}}
complete -o filenames -F _rltui rltui
"""
_ZSH = "autoload -Uz compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n"
_FISH = """\
complete -c rltui -n __fish_use_subcommand -a "{commands} (rltui completion names)"
complete -c rltui -s n -l name -x -a "(rltui completion names)"
complete -c rltui -n "__fish_seen_subcommand_from {components}" -a "(rltui completion components)"
complete -c rltui -n "__fish_seen_subcommand_from {named}" -a "(rltui completion names)"
complete -c rltui -n "__fish_seen_subcommand_from {runs}" -a "(rltui completion runs)"
"""


def completion(arguments: argparse.Namespace) -> int:
    """Print the script for a shell, or the words that the script asks for at each key."""
    match arguments.what:
        case "names":
            print("\n".join(_safe(record.name for record in known_experiments())))
        case "runs":
            print("\n".join(_safe(RunIndex().names())))
        case "components":
            print("\n".join(_safe(_components())))
        case shell:
            print(script(shell), end="")
    return 0


def script(shell: str) -> str:
    """For `bash`, `zsh` or `fish`."""
    options = options_by_command()
    commands, components = " ".join(options), _WITH_COMPONENTS
    if shell == "fish":
        lines = [
            f'complete -c rltui -n "__fish_seen_subcommand_from {command}" -l {word[2:]}'
            for command, words in options.items()
            for word in words
            if word.startswith("--")
        ]
        return (
            _FISH.format(commands=commands, components=components, named=_WITH_NAMES, runs=_WITH_RUNS)
            + "\n".join(lines)
            + "\n"
        )
    cases = "\n".join(f'        {name}) words="{" ".join(words)}";;' for name, words in options.items())
    components, named, runs = (words.replace(" ", "|") for words in (components, _WITH_NAMES, _WITH_RUNS))
    bash = _BASH.format(commands=commands, cases=cases, components=components, named=named, runs=runs)
    return (_ZSH if shell == "zsh" else "") + bash


def _components() -> set[str]:
    """Of all experiments, as far as they were ever started: no layout needs to be read."""
    controls = (ControlFolder(Path(record.output_dir)) for record in known_experiments())
    return {folder.parent.name for control in controls for folder in control.newest_attempts()}


def _safe(words: Iterable[str]) -> list[str]:
    """A shell expands what it completes with; names in a shared folder may be anything."""
    return sorted(word for word in words if _PLAIN.fullmatch(word))
