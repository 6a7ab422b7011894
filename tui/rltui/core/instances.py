"""Components that a layout writes down once and that run once per instance, such as one per environment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rltui.core.layout import ComponentSpec, Layout

PLACEHOLDER = "{instance}"
LONGEST_ID = 32
_NOT_IN_IDS = re.compile(r"[^a-z0-9]+")


def expanded(layout: Layout, instances: Mapping[str, Sequence[str]]) -> Layout:
    """The layout with each component that has `each` once per instance of that name, in their order.

    Where others name such a component (`after`, `restart.together`, the screen), all of them are meant; none
    where there is no instance.

    Raises:
        ValueError: if no component or log is left, or two components would have one id.
    """
    if not any(spec.each for spec in layout.component):
        return layout
    ids = {
        spec.id: instance_ids(spec.id, instances.get(spec.each, ())) if spec.each else (spec.id,)
        for spec in layout.component
    }
    components = [one for spec in layout.component for one in _components(spec, ids, instances)]
    columns = [_named(column, ids) for column in layout.screen.columns]
    return Layout.model_validate(
        layout.model_dump(exclude_unset=True)
        | {
            "component": components,
            "screen": layout.screen.model_dump(exclude_unset=True) | {"columns": columns},
        }
    )


def needed(layout: Layout, instances: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Of all instances there are, those that the layout has components for."""
    return {spec.each: instances.get(spec.each, ()) for spec in layout.component if spec.each}


def instance_ids(component: str, names: Sequence[str]) -> tuple[str, ...]:
    """Ids of the components that a component with `each` becomes, one per name, in their order."""
    plain = [_NOT_IN_IDS.sub("-", name.lower()).strip("-") for name in names]
    return tuple(
        _id(component, slug, name, is_clear=plain.count(slug) == 1)
        for slug, name in zip(plain, names, strict=True)
    )


def _id(component: str, slug: str, name: str, *, is_clear: bool) -> str:
    """`env-reverse-text`. With some digits of a hash where that is too long, or means several names."""
    if is_clear and slug and len(wanted := f"{component}-{slug}") <= LONGEST_ID:
        return wanted
    digits = hashlib.sha256(name.encode()).hexdigest()[:6]
    start = f"{component}-{slug}"[: LONGEST_ID - len(digits) - 1].strip("-")
    return f"{start}-{digits}"


def _components(
    spec: ComponentSpec, ids: Mapping[str, Sequence[str]], instances: Mapping[str, Sequence[str]]
) -> Iterable[dict[str, Any]]:
    values = spec.model_dump(exclude_unset=True)  # what a layout leaves out may mean more than the default
    values["after"] = _named(spec.after, ids)
    if spec.restart.together:
        values["restart"]["together"] = _named(spec.restart.together, ids)
    if not spec.each:
        return [values]
    return [
        _filled_table(values, name) | {"id": component_id, "each": ""}
        for component_id, name in zip(ids[spec.id], instances.get(spec.each, ()), strict=True)
    ]


def _named(names: Iterable[str], ids: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(one for name in names for one in ids.get(name, (name,)))


def _filled(value: object, instance: str) -> object:
    """Every text below `value` with the instance's name in place of the placeholder."""
    match value:
        case str():
            return value.replace(PLACEHOLDER, instance)
        case tuple() | list():
            return tuple(_filled(item, instance) for item in value)
        case dict():
            return _filled_table(value, instance)
        case _:
            return value


def _filled_table(values: Mapping[str, Any], instance: str) -> dict[str, Any]:
    return {key: _filled(value, instance) for key, value in values.items()}
