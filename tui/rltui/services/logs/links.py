"""The pages about a run that its programs name in their logs: of W&B, of a dashboard.

What a program prints is not to be trusted: of an address only plain characters count, and what in it may be
a key is left out (W&B's addresses of anonymous runs hold one).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from rltui.core.api import JournalEntry, Link
from rltui.core.lines import decode_line, plain_text
from rltui.core.secrets import is_secret
from rltui.services.logs.growing_file import AppendedLines

_READ_BYTES = 4 << 20
"""Most that is read of a log at a time."""
_BACKLOG_BYTES = 64 << 20
"""What lies further back in a log that is found, or that grows faster than it is read, is passed over."""
_LINE_BYTES = 4096
"""Of a line, what is looked at."""


_LONGEST = 400
"""Characters of an address."""
_SAID = re.compile(
    r"(?:\bView (?P<view>run|project|sweep)(?: .+?)?|\b[Dd]ashboard(?: \w+){0,4}"
    r"|\b(?P<monitor>Monitor run)|\b(?P<board>TensorBoard) [\w.]+)"
    r" at:?\s+(?P<url>https?://\S+)"
)
_ALONE = re.compile(r"\s*(?P<url>https?://\S+)\s*")
_NOT_PLAIN = re.compile(r"[^\w.~:/?#\[\]@!$&'()*+,;=%-]", re.ASCII)
_AT_THE_END = ".,;:)]}'\""
DASHBOARD = "dashboard"
"""Component of which a line that is nothing but an address tells where it serves."""


def links_in_journal(entries: Iterable[JournalEntry]) -> tuple[Link, ...]:
    """Those that count now: of each component and title, the newest."""
    found: list[Link] = []
    for entry in entries:
        title, url = entry.data.get("title"), entry.data.get("url")
        if entry.kind == "link" and isinstance(title, str) and isinstance(url, str):
            found.append(Link(title=title, url=url, component=entry.component))
    return newest_links(found)


def newest_links(links: Iterable[Link]) -> tuple[Link, ...]:
    """Of each component and title the last one, in the order in which they came first."""
    return tuple({(link.component, link.title): link for link in links}.values())


class LinkFinder:
    """Looks through what was appended to logs since the last look. For one thread at a time."""

    def __init__(self) -> None:
        self._followed: dict[str, AppendedLines] = {}
        self.behind = False
        """There is more to look through at once, as of the last look."""

    def look(self, logs: Mapping[str, Path]) -> list[Link]:
        """The links in it, also those that were there before. `logs`: component → its present output."""
        for component in [name for name, lines in self._followed.items() if logs.get(name) != lines.path]:
            self._followed.pop(component).close()
        found: list[Link] = []
        for component, path in logs.items():
            lines = self._followed.get(component)
            if lines is None:
                lines = self._followed[component] = AppendedLines(
                    path, most_bytes=_READ_BYTES, line_bytes=_LINE_BYTES, backlog_bytes=_BACKLOG_BYTES
                )
            texts = (plain_text(decode_line(line)) for line in _with_addresses(lines.read()))
            links = filter(None, (link_in(text, component) for text in texts))
            found += (Link(title=title, url=url, component=component) for title, url in links)
        self.behind = any(lines.behind for lines in self._followed.values())
        return found


def _with_addresses(lines: bytes) -> Iterator[bytes]:
    """The beginnings of those lines that have an address."""
    at = 0
    while (found := lines.find(b"://", at)) >= 0:
        start, end = lines.rfind(b"\n", at, found) + 1, lines.find(b"\n", found)
        start, end = max(start, at), end if end >= 0 else len(lines)
        yield lines[start : min(end, start + _LINE_BYTES)]
        at = end + 1


def link_in(line: str, component: str = "") -> tuple[str, str] | None:
    """What a line of a log links to, such as `W&B run`, and the address. `line`: plain text."""
    if "://" not in line:
        return None
    found = _SAID.search(line)
    if found is None:
        alone = _ALONE.fullmatch(line) if component == DASHBOARD else None
        address = None if alone is None else _safe(alone["url"])
        return None if address is None else (DASHBOARD, address)
    if (address := _safe(found["url"])) is None:
        return None
    if view := found["view"]:
        is_wandb = "wandb" in line.partition("View ")[0] or "wandb" in urlsplit(address).netloc
        return f"W&B {view}" if is_wandb else f"page of the {view}", address
    return found["board"] or ("page of the run" if found["monitor"] else DASHBOARD), address


def _safe(url: str) -> str | None:
    """The address without what may be a key in it; `None` where it is none."""
    url = url.rstrip(_AT_THE_END)
    if len(url) > _LONGEST or _NOT_PLAIN.search(url):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is none, half of an IPv6 address
        return None
    if not host:
        return None
    place = f"[{host}]" if ":" in host else host
    netloc = place if port is None else f"{place}:{port}"
    query, fragment = (text if _is_harmless(text) else "" for text in (parts.query, parts.fragment))
    return SplitResult(parts.scheme, netloc, parts.path, query, fragment).geturl()


def _is_harmless(text: str) -> bool:
    return not any(is_secret(name) for name, _ in parse_qsl(text.partition("?")[2] or text))
