"""Links to pages about a run that its programs print in their logs: of W&B, of a dashboard.

Program output is not trusted: addresses with other than plain characters are ignored, and parts that may be
a key are removed (W&B's addresses of anonymous runs have one).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from rltui.base.secrets import is_secret
from rltui.core.experiment.api import Link
from rltui.core.experiment.journal import JournalEntry
from rltui.core.logs.lines import decode_line, plain_text
from rltui.services.logs.growing_file import AppendedLines

_READ_BYTES = 4 << 20
"""Limit of one read of a log."""
_BACKLOG_BYTES = 64 << 20
"""Older content is skipped in a log that is new, or that grows faster than it is read."""
_LINE_BYTES = 4096
"""Length of the part of a line that is searched."""


_LONGEST = 400
"""Limit of an address in characters."""
_LABELLED = re.compile(
    r"(?:\bView (?P<view>run|project|sweep)(?: .+?)?|\b[Dd]ashboard(?: \w+){0,4}"
    r"|\b(?P<monitor>Monitor run)|\b(?P<board>TensorBoard) [\w.]+)"
    r" at:?\s+(?P<url>https?://\S+)"
)
_BARE = re.compile(r"\s*(?P<url>https?://\S+)\s*")
_NOT_PLAIN = re.compile(r"[^\w.~:/?#\[\]@!$&'()*+,;=%-]", re.ASCII)
_TRAILING = ".,;:)]}'\""
DASHBOARD = "dashboard"
"""Id of the component whose lines may consist of an address alone."""


def links_in_journal(entries: Iterable[JournalEntry]) -> tuple[Link, ...]:
    """The valid links: the newest of each component and title."""
    links: list[Link] = []
    for entry in entries:
        title, url = entry.data.get("title"), entry.data.get("url")
        if entry.kind == "link" and isinstance(title, str) and isinstance(url, str):
            links.append(Link(title=title, url=url, component=entry.component))
    return newest_links(links)


def newest_links(links: Iterable[Link]) -> tuple[Link, ...]:
    """The last link of each component and title, in the order of their first appearance."""
    return tuple({(link.component, link.title): link for link in links}.values())


class LinkFinder:
    """Searches what was appended to logs since the last poll. For one thread at a time."""

    def __init__(self) -> None:
        self._followed: dict[str, AppendedLines] = {}
        self.has_more = False
        """True if there is more to search at once, as of the last poll."""

    def poll(self, logs: Mapping[str, Path]) -> list[Link]:
        """The links in new lines, including lines from before the first poll. `logs`: component → its
        current output.
        """
        for component in [name for name, lines in self._followed.items() if logs.get(name) != lines.path]:
            self._followed.pop(component).close()
        links: list[Link] = []
        for component, path in logs.items():
            lines = self._followed.get(component)
            if lines is None:
                lines = self._followed[component] = AppendedLines(
                    path, most_bytes=_READ_BYTES, line_bytes=_LINE_BYTES, backlog_bytes=_BACKLOG_BYTES
                )
            plain_lines = (plain_text(decode_line(line)) for line in _with_addresses(lines.read()))
            pairs = filter(None, (find_link(text, component) for text in plain_lines))
            links += (Link(title=title, url=url, component=component) for title, url in pairs)
        self.has_more = any(lines.has_more for lines in self._followed.values())
        return links


def _with_addresses(lines: bytes) -> Iterator[bytes]:
    """The beginnings of the lines that contain an address."""
    position = 0
    while (hit := lines.find(b"://", position)) >= 0:
        start, end = lines.rfind(b"\n", position, hit) + 1, lines.find(b"\n", hit)
        start, end = max(start, position), end if end >= 0 else len(lines)
        yield lines[start : min(end, start + _LINE_BYTES)]
        position = end + 1


def find_link(line: str, component: str = "") -> tuple[str, str] | None:
    """The title of the link in a line, such as `W&B run`, and its address. `line`: plain text."""
    if "://" not in line:
        return None
    match = _LABELLED.search(line)
    if match is None:
        bare = _BARE.fullmatch(line) if component == DASHBOARD else None
        address = None if bare is None else safe_url(bare["url"])
        return None if address is None else (DASHBOARD, address)
    if (address := safe_url(match["url"])) is None:
        return None
    if view := match["view"]:
        is_wandb = "wandb" in line.partition("View ")[0] or "wandb" in urlsplit(address).netloc
        return f"W&B {view}" if is_wandb else f"page of the {view}", address
    return match["board"] or ("page of the run" if match["monitor"] else DASHBOARD), address


def safe_url(url: str) -> str | None:
    """The address without parts that may be a key; `None` if it is no address."""
    url = url.rstrip(_TRAILING)
    if len(url) > _LONGEST or _NOT_PLAIN.search(url):
        return None
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError:  # a port that is none, half of an IPv6 address
        return None
    if not host:
        return None
    host_text = f"[{host}]" if ":" in host else host
    netloc = host_text if port is None else f"{host_text}:{port}"
    query, fragment = (text if _is_harmless(text) else "" for text in (split.query, split.fragment))
    return SplitResult(split.scheme, netloc, split.path, query, fragment).geturl()


def _is_harmless(text: str) -> bool:
    return not any(is_secret(name) for name, _ in parse_qsl(text.partition("?")[2] or text))
