"""`layouts`: the layouts there are."""

from __future__ import annotations

from pathlib import Path

from rltui.cli.arguments import JSON
from rltui.cli.command import Arguments, command
from rltui.cli.output import print_json
from rltui.cli.table import Column, print_table


@command(
    "layouts",
    JSON,
)
def list_layouts(arguments: Arguments) -> int:
    from rltui.services import layout_files

    files = layout_files.available(Path.cwd())
    rows = [(path.stem, layout_files.load(path), path) for path in files]
    if arguments.json:
        documents = [
            {
                "name": name,
                "title": layout.title,
                "path": str(path),
                "components": [spec.id for spec in layout.component],
            }
            for name, layout, path in rows
        ]
        print_json(documents)
        return 0
    columns = (Column("LAYOUT"), Column("TITLE", least=20), Column("FILE", least=16, cut="start", goes=1))
    print_table(columns, [(name, layout.title, _short_path(path)) for name, layout, path in rows])
    return 0


def _short_path(path: Path) -> str:
    """The path as a person would type it."""
    home, working_dir = Path.home(), Path.cwd()
    if path.is_relative_to(working_dir):
        return str(path.relative_to(working_dir))
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
