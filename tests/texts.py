"""Every text that a user can meet, with its place: `python -m tests.texts [--dialect] [FOLDER…]`.

Folders are relative to the repository; the default is all of it. Nothing is imported: the source is parsed.
A string is a text if it has two words, or if it is an argument that is shown, such as `title=` or the first
one of an error. Docstrings, log messages, regular expressions, SQL, CSS, types and keys are skipped. Other
texts are the lines of pages (`.md`, `.txt`), and the strings and comments of TOML files.
"""

from __future__ import annotations

import argparse
import ast
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("tui", "layouts", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
NOT_TEXTS = ("schemas", "vllm_arguments.txt", "renderers.toml", "rlconfig.json")
"""Parts of paths: data of other programs."""

WORDS = re.compile(r"[^\W\d_]{2,}[^\w\s]*\s+\S*?[^\W\d_]{2,}|\}\s+[^\W\d_]{2,}|[^\W\d_]{2,}[:,]?\s+\{")
WORD = re.compile(r"[^\W\d_]{2,}")
PATTERN = re.compile(r"\(\?[:P<=!i]|\\[bdswSWAZ.(\[]|\[\^|\.\*|\)\?|\\x1b")
SQL = re.compile(
    r"\s*(?:SELECT|INSERT|CREATE|UPDATE|DELETE|PRAGMA|ALTER|DROP|REPLACE|BEGIN|WITH|JOIN|WHERE|ORDER) "
)
TEXT_KEYWORDS = re.compile(
    r"(?:sub)?title|hints?|help|label|description|text|sentence|placeholder|message|reason|epilog|usage|heading"
    r"|tooltip|words|summary|remedy|advice|meaning|action|question"
)
"""Names of parameters that are shown: their strings are texts, also of one word."""
TEXT_CALLS = re.compile(
    r"Error$|^(?:print|notify|write|Action|Bind|Column|Key|KeyHint|Choice|fail|say|Verb)$"
)
"""Functions whose first strings are shown, also of one word."""
LOGS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
PARSERS = frozenset({"compile", "match", "search", "fullmatch", "sub", "split", "findall", "finditer"})
NO_TEXTS = re.compile(
    r"getLogger|TypeVar|NewType|cast|import_module|[gs]etattr|hasattr|startswith|endswith|remove(?:prefix|suffix)"
    r"|execute\w*|Literal|query(?:_one)?|(?:add|remove|set|has)_class|ContextVar"
)


@dataclass(frozen=True, slots=True)
class Text:
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text if self.text.isprintable() else repr(self.text)[1:-1]}"


def _called(node: ast.expr) -> str:
    """Name of a function, without the object."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _owner(node: ast.expr) -> str:
    return _called(node.value) if isinstance(node, ast.Attribute) else ""


def _spelled(node: ast.expr) -> str | None:
    """The text of a literal, with `{name}` for what is filled in."""
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join(
                f"{{{_called(part.value) or '…'}}}"
                if isinstance(part, ast.FormattedValue)
                else _spelled(part) or ""
                for part in values
            )
    return None


def _is_text(text: str, *, is_shown: bool) -> bool:
    if PATTERN.search(text) or SQL.match(text):
        return False
    return bool((WORD if is_shown else WORDS).search(text))


class _Collector:
    def __init__(self, file: str) -> None:
        self.file = file
        self.texts: list[Text] = []

    def visit(self, node: ast.AST, *, is_shown: bool = False) -> None:
        """Takes the texts below `node`; `is_shown` where a single word is one, too."""
        match node:
            case ast.Expr(value=ast.Constant(value=str())):  # a docstring
                return
            case ast.Constant(value=str()) | ast.JoinedStr():
                if (text := _spelled(node)) is not None and _is_text(text, is_shown=is_shown):
                    self.texts.append(Text(self.file, node.lineno, text))
                for part in node.values if isinstance(node, ast.JoinedStr) else ():
                    if isinstance(part, ast.FormattedValue):
                        self.visit(part.value)
                return
            case ast.Call():
                self._call(node)
                return
            case ast.Subscript(value=value, slice=index):
                self.visit(value)
                if not isinstance(index, ast.Constant) and not NO_TEXTS.fullmatch(_called(value)):
                    self.visit(index)
                return
            case ast.Assign(targets=[ast.Name(id="CSS" | "DEFAULT_CSS" | "__all__" | "__slots__"), *_]):
                return
            case ast.AnnAssign(target=target, value=value):
                if value is not None and _called(target) not in ("CSS", "DEFAULT_CSS"):
                    self.visit(value)
                return
            case ast.arg():
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for child in (*node.decorator_list, node.args, *node.body):
                    self.visit(child)
                return
            case ast.IfExp() | ast.BoolOp() | ast.BinOp() | ast.Tuple() | ast.List() | ast.Starred():
                for child in ast.iter_child_nodes(node):
                    self.visit(child, is_shown=is_shown)
                return
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def _call(self, node: ast.Call) -> None:
        name, owner = _called(node.func), _owner(node.func)
        is_log = name in LOGS and "log" in owner.lower()
        if is_log or (name in PARSERS and owner == "re") or NO_TEXTS.fullmatch(name):
            return
        self.visit(node.func)
        shows = bool(TEXT_CALLS.search(name))
        for argument in node.args:
            self.visit(argument, is_shown=shows)
        for keyword in node.keywords:
            self.visit(keyword.value, is_shown=bool(TEXT_KEYWORDS.fullmatch(keyword.arg or "")))


def of_python(path: Path, file: str) -> list[Text]:
    with tokenize.open(path) as source:
        tree = ast.parse(source.read())
    collector = _Collector(file)
    collector.visit(tree)
    return collector.texts


TOML_TEXT = re.compile(r"""(?P<comment>\#\s.*)|(?P<quote>"{3}|'{3}|"|')(?P<text>.*?)(?:(?P=quote)|$)""")


def of_toml(path: Path, file: str) -> Iterator[Text]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for match in TOML_TEXT.finditer(line):
            text = match["comment"] or match["text"]
            if _is_text(text, is_shown=False):
                yield Text(file, number, text.strip())


def of_page(path: Path, file: str) -> Iterator[Text]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip():
            yield Text(file, number, line.strip())


def of_file(path: Path) -> list[Text]:
    file = str(path.relative_to(ROOT))
    match path.suffix:
        case ".py":
            return of_python(path, file)
        case ".toml":
            return list(of_toml(path, file))
        case ".md" | ".txt":
            return list(of_page(path, file))
        case _:
            return []


def collect(folders: Sequence[str] = FOLDERS) -> list[Text]:
    """The texts of folders and files of the repository, by file and line."""
    paths = [
        path
        for folder in folders
        for path in ([ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*")))
        if not any(part in NOT_TEXTS for part in path.parts)
    ]
    return [text for path in paths for text in of_file(path)]


DIALECT = (
    r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|such|different)\w+",
    r"\bno \w+ says\b",
    r"\btold\b",
    r"\bstands?\b(?! for\b)",
    r"\bgo(?:es|ing)? on\b",
    r"\b(?:nothing|all|some|none|any|much|part|little|more|most|something) of it\b",
    r", or no more\b",
    r"\b(?:any|no) ?more to\b|\bany ?more\b",
    r"\bbehind\b",
    r"\bbesides?\b",
    r"\banew\b",
    r"\bso that (?:it|they) counts?\b",
    r"\bso (?:many|much|few)\b",
    r"\bnobody\b",
    r"\bwho(?:m|ever)\b",
    r"\breckon",
    r"\bthere (?:is|are) (?:no such|none)\b",
    r"\bwhat (?:lives|runs|holds|remains|comes|becomes?|became)\b(?!\?)",
    r"\b(?:of one's own|for ever|again and again|of today|at hand|as it (?:stands|lies))\b",
    r"\b(?:of which|with one key)\b",
    r"\b(?:likewise|unasked|hence|upon|thereby|therewith|thereof|wherewith|learnt|nothing but)\b",
    r"\bin (?:its|their) stead\b|\bin spite of\b",
    r"\btak(?:en?|es) in hand\b|\bsees? to it\b",
    r"\bas \w+(?: \w+)? as can be\b",
    r"\btells\b",
    r"\bcounts?\?|\bmakes? (?:it|them) count\b|\bchanges? counts?\b",
    r"\bt(?:akes?|ook|aken) (?:it|them|that) back\b",
    r"\b(?:cannot be lent|having it|looking wh\w+|left unwritten|put into the)\b",
    r"\bno further\b|\b(?:is|being) made\b",
    r"\bworking out (?:what|how)\b",
    r"\bsays? nothing\b",
    r"\b(?:is|are) to be\b",
    r"\b(?:lies|lie|lay) (?:in|at|on|under|there)\b",
    r"\blet(?:s)? (?:it|them) be\b",
    r"\bis worth\b",
    r"\bsuch (?:a )?one\b",
    r"\b(?:does|do) without\b",
    r"\bminds?\b",
    r"\bwho (?:is|has|wants|knows|sees|starts|reads)\b(?!\?)",
    r"\bcomes? to (?:that|it|nothing)\b|\bthat comes to\b",
)
"""What a native engineer would not write. One expression for each habit."""


def dialect(texts: Sequence[Text]) -> list[Text]:
    """Those that are not written as the field writes."""
    habit = re.compile("|".join(DIALECT), re.IGNORECASE)
    return [text for text in texts if habit.search(text.text)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints every text that a user can meet, with its place.")
    parser.add_argument("folders", nargs="*", default=FOLDERS, metavar="FOLDER")
    parser.add_argument("--dialect", action="store_true", help="only texts that are to be rewritten")
    arguments = parser.parse_args()
    texts = collect(arguments.folders)
    for text in dialect(texts) if arguments.dialect else texts:
        print(text)


if __name__ == "__main__":
    main()
