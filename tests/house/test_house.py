"""Imports of the source have no circles, and no two classes a name; layers are held by import-linter and
`tests/test_layers.py`.

`python -m tests.house.measure` prints what can be counted besides: figures to read, none of them a limit.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.house.source import house


def test_the_source_has_no_import_circles() -> None:
    assert house().circles() == []


def test_no_two_classes_share_a_name() -> None:
    """Classes of one module alone, `_Line`, are read beside their use."""
    text = "".join(module.text for module in house().modules.values())
    names = Counter(re.findall(r"^class ([A-Z]\w*)", text, re.MULTILINE))
    assert [name for name, count in names.items() if count > 1] == []


def test_circles_are_found_wherever_the_import_stands(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/__init__.py").write_text("")
    (tmp_path / "p/a.py").write_text("from p import b\n")
    (tmp_path / "p/b.py").write_text("def f():\n    from p.c import x\n")
    (tmp_path / "p/c.py").write_text("import p.a\nx = 1\n")
    (tmp_path / "p/d.py").write_text("import p.a\n")
    read = house(tmp_path)
    assert read.circles() == [["p.a", "p.b", "p.c"]]
    assert read.splinters() == ["p.b", "p.c"]
