"""`skill`: what a coding agent needs to know to operate runs, as a SKILL.md (agentskills.io)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from rltui import __version__
from rltui.cli.arguments import YES
from rltui.cli.command import Arguments, argument, command, load
from rltui.cli.command_help import exit_code_lines, options_by_heading, usage
from rltui.cli.consent import require_consent
from rltui.cli.help_pages import remedy_text
from rltui.core.experiment.reason_codes import GROUPS
from rltui.services.own_files import write_atomically

NAME = "rltui"
"""The name of the skill, and so of its folder."""
FOLDER = ".agents/skills"
_TEMPLATE = Path(__file__).parents[1] / "skill.md"
_REASONS = ("errors and refusals", "ends of a wait")
"""Groups of codes that an answer to a command has."""
_COMMANDS = re.compile(r"\{commands: (.+)\}")
_DIGEST = re.compile(r'(?<=^  digest: ")\w*(?="$)', re.MULTILINE)


@command(
    "skill",
    argument(
        "--install",
        "FOLDER",
        f"write it into this folder of skills (default: {FOLDER})",
        nargs="?",
        const=FOLDER,
        completes="folders",
    ),
    YES,
    examples=(
        "skill",
        "skill --install",
        "skill --install .claude/skills",
    ),
    is_local=True,
)
def skill(arguments: Arguments) -> int:
    from rltui.core.experiment.api import Loss

    if arguments.install is None:
        print(skill_text(), end="")
        return 0
    folder = Path(arguments.install).expanduser()
    path = (folder if folder.name == NAME else folder / NAME) / "SKILL.md"
    if path.exists() and not _is_untouched(path.read_text(encoding="utf-8", errors="replace")):
        plan = f"replace    {path}, which has changed since rltui wrote it\n"
        require_consent("write", arguments, "replace it?", loss=Loss.MORE, plan=plan)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, skill_text().encode())
    print(path)
    return 0


def skill_text() -> str:
    """The template, with what the parser and the tables know."""
    text = _TEMPLATE.read_text(encoding="utf-8")
    text = _COMMANDS.sub(lambda match: "\n".join(map(_command_line, match[1].split(", "))), text)
    codes = [
        f"  {code:<18} {remedy_text(row) or row.text}"
        for group in _REASONS
        for code, row in GROUPS[group].items()
    ]
    for place, lines in {
        "version": [__version__],
        "exit codes": exit_code_lines(),
        "reasons": codes,
    }.items():
        text = text.replace(f"{{{place}}}", "\n".join(lines))
    return _DIGEST.sub(_digest(text), text, count=1)


def _command_line(name: str) -> str:
    """A command, how it is typed, and its options but those that have a page of their own."""
    found = load(name)
    options = [word.typed for words in options_by_heading(found.declared).values() for word in words]
    return f"- `{usage(found).removesuffix(' [options]')}`: {found.text}. {', '.join(options)}"


def _digest(text: str) -> str:
    """A digest of all but the digest itself."""
    return hashlib.sha256(_DIGEST.sub("", text, count=1).encode()).hexdigest()[:16]


def _is_untouched(text: str) -> bool:
    """True if it is as a version of rltui wrote it."""
    match = _DIGEST.search(text)
    return match is not None and match[0] == _digest(text)
