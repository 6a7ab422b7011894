"""Config files that changed since a person looked: the three sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rltui.core.config_data import Leaves, changed_keys, deep_leaves, key_conflicts
from rltui.core.config_report import FileConflict, KeyConflict
from rltui.core.knobs import shown
from rltui.core.toml import edit
from rltui.core.toml.values import format_value
from rltui.errors import ConfigError, ConflictError
from rltui.services import toml_source
from rltui.services.edit_preview import EditPreview
from rltui.services.file_diff import text_diff
from rltui.services.toml_source import Source


def find_conflicts(
    preview: EditPreview, base: Mapping[str, str], content_of: Callable[[str], bytes | None]
) -> tuple[FileConflict, ...]:
    """Files that are not what `base` (path → SHA-256) says any more.

    `content_of` finds contents by SHA-256; where it does not know one, that side is left empty.
    """
    return tuple(
        _conflict(preview, role, content_of(base[str(source.path)]))
        for role, source in preview.before.sources.items()
        if base.get(str(source.path), source.sha) != source.sha
    )


def _conflict(preview: EditPreview, role: str, content: bytes | None) -> FileConflict:
    theirs = preview.before.sources[role]
    base = _source(theirs, content)
    base_leaves = None if base is None else deep_leaves(base.data)
    yours = _wanted(preview, role, base_leaves)
    return FileConflict(
        file=str(theirs.path),
        theirs="" if base is None else text_diff(base.text, theirs.text, theirs.path.name),
        yours="" if base is None else text_diff(base.text, _yours(preview, role, base), theirs.path.name),
        keys=key_conflicts(base_leaves, deep_leaves(theirs.data), yours),
    )


def _source(like: Source, content: bytes | None) -> Source | None:
    try:
        return None if content is None else toml_source.parse(like.path, content)
    except ConfigError:  # what was looked at then could not be read either
        return None


def _wanted(preview: EditPreview, role: str, base: Leaves | None) -> Leaves:
    """What the edit sets in a file. A whole text also takes back what others changed."""
    if preview.wanted is not None:
        return preview.wanted.get(role, {})
    yours = deep_leaves(preview.after.sources[role].data)
    theirs = deep_leaves(preview.before.sources[role].data)
    changed = changed_keys(theirs if base is None else base, yours if base is None else theirs)
    return {key: yours.get(key) for key in changed}


def _yours(preview: EditPreview, role: str, base: Source) -> str:
    if preview.wanted is None:
        return preview.after.sources[role].text
    try:
        return edit.edit(base.text, preview.wanted.get(role, {}))
    except ConfigError:  # the edit fits only what is there now
        return base.text


def conflict_error(conflicts: Sequence[FileConflict], *, again: str) -> ConflictError:
    """The three sides in words. `again`: how to write all the same where no key was changed by both."""
    details: list[str] = []
    for conflict in conflicts:
        details.extend(f"{key.key}: {_sides(key)}" for key in conflict.keys)
        if conflict.theirs:
            details.extend(("changed by somebody else:", *conflict.theirs.splitlines()))
        if conflict.yours:
            details.extend(("your edit:", *conflict.yours.splitlines()))
    names = " and ".join(conflict.file for conflict in conflicts)
    clash = any(conflict.keys for conflict in conflicts)
    return ConflictError(
        f"{names} changed since you looked",
        details=details,
        hint="nothing was written; look at both sides and decide"
        if clash
        else f"nothing was written; {again}",
    )


def _sides(key: KeyConflict) -> str:
    return f"was {_text(key.base)}, is {_text(key.theirs)} now, you want {_text(key.yours)}"


def _text(value: object) -> str:
    if value is None:
        return "not set"
    return shown(value) if isinstance(value, dict) else format_value(value)
