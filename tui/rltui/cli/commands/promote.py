"""`promote`: what a run changed of its config is written into the files it was made of."""

from __future__ import annotations

import sys

from rltui.cli.arguments import JSON, PLAN, RUN, YES
from rltui.cli.choosing import choose_run, ready_index
from rltui.cli.colour import style_diff
from rltui.cli.command import Arguments, command, flag
from rltui.cli.consent import require_consent
from rltui.cli.output import print_json
from rltui.errors import ConflictError


@command(
    "promote",
    RUN,
    flag("--undo", "undo the last promotion"),
    PLAN,
    YES,
    JSON,
    examples=(
        "promote demo --plan",
        "promote demo --yes",
        "promote demo --undo",
    ),
    epilog="A key that changed in both configs is listed and not written; the exit code is then 4.",
)
def promote(arguments: Arguments) -> int:
    from rltui.client import promote as promoting

    plan = promoting.plan_undo if arguments.undo else promoting.plan_promotion
    promotion = plan(choose_run(ready_index(), arguments))
    diff = promotion.diff
    undo_hints: tuple[str, ...] = ()
    text = "\n".join(style_diff(diff.splitlines())) or "nothing to write"
    if not arguments.json:
        print(text)
    for line in (*promotion.notes, *(f"not written: {key}" for key in promotion.refused)):
        print(line, file=sys.stderr)
    if diff and not arguments.plan:
        require_consent("promote", arguments, "write it?", plan=f"{text}\n" if arguments.json else "")
        undo_hints = promoting.promote(promotion)
    if arguments.json:
        files = [str(change.path) for change in promotion.changes]
        document = {
            "run": promotion.run,
            "files": files,
            "diff": diff,
            "refused": promotion.refused,
            "undo": undo_hints,
        }
        print_json(document)
    for line in undo_hints:
        print(line, file=sys.stderr)
    return int(ConflictError.exit_code) if promotion.refused else 0
