"""A component of a layout once per instance: of what a framework names (env servers), or of its nodes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rltui.core.experiment.layout import ComponentSpec, Layout
from rltui.core.hosts.specs import NodeSpec

_PLACEHOLDER = "{instance}"
_LONGEST_ID = 32
_NOT_IN_IDS = re.compile(r"[^a-z0-9]+")


def expand_instances(
    layout: Layout, instances: Mapping[str, Sequence[str]], *, without: Collection[str] = ()
) -> Layout:
    """The layout with each component that has `each` once per instance of that name, in their order, and
    `without` the components and logs of these ids, whose programs run on other machines. Instances of `nodes`
    are the layout's own; such components are ranks of one program, and restart together unless the layout
    says else.

    If others name such a component (`after`, `restart.together`, the screen), all of them are meant; none if
    there is no instance.

    Raises:
        ValueError: if no component or log is left, or two components would have one id.
    """
    if not without and not any(spec.each for spec in layout.component):
        return layout
    of_nodes = {spec.each: layout.nodes_of(spec.each) for spec in layout.component}
    instances = {
        **instances,
        **{selector: [node.name for node in nodes] for selector, nodes in of_nodes.items() if nodes},
    }
    ids = {
        spec.id: instance_ids(spec.id, instances.get(spec.each, ())) if spec.each else (spec.id,)
        for spec in layout.component
    } | dict.fromkeys(without, ())
    here = [spec for spec in layout.component if spec.id not in without]
    components = [
        instance
        for spec in here
        for instance in _components(spec, ids, instances, of_nodes.get(spec.each, ()))
    ]
    logs = [spec for spec in layout.log if spec.id not in without]
    columns = [_with_instances(column, ids) for column in layout.screen.columns]
    return Layout.model_validate(
        layout.model_dump(exclude_unset=True)
        | {
            "component": components,
            "log": logs,
            "screen": layout.screen.model_dump(exclude_unset=True) | {"columns": columns},
        }
    )


def used_instances(layout: Layout, instances: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The subset of a framework's instances that the layout has components for."""
    names = (spec.each for spec in layout.component if spec.each and not layout.nodes_of(spec.each))
    return {name: instances.get(name, ()) for name in names}


def instance_ids(component: str, names: Sequence[str]) -> tuple[str, ...]:
    """Ids of the components that a component with `each` becomes, one per name, in their order."""
    slugs = [_NOT_IN_IDS.sub("-", name.lower()).strip("-") for name in names]
    return tuple(
        _id(component, slug, name, is_clear=slugs.count(slug) == 1)
        for slug, name in zip(slugs, names, strict=True)
    )


def _id(component: str, slug: str, name: str, *, is_clear: bool) -> str:
    """`env-reverse-text`, with some digits of a hash if that is too long, or means several names. The
    instance without a name, the one for all, has the component's own id.
    """
    if not name:
        return component
    if is_clear and slug and len(id_ := f"{component}-{slug}") <= _LONGEST_ID:
        return id_
    digits = hashlib.sha256(name.encode()).hexdigest()[:6]
    prefix = f"{component}-{slug}"[: _LONGEST_ID - len(digits) - 1].strip("-")
    return f"{prefix}-{digits}"


def _components(
    spec: ComponentSpec,
    ids: Mapping[str, Sequence[str]],
    instances: Mapping[str, Sequence[str]],
    nodes: Sequence[NodeSpec],
) -> Iterable[dict[str, Any]]:
    """`nodes`: the nodes that are its instances, if it is one per node."""
    values = spec.model_dump(exclude_unset=True)  # what a layout leaves out may mean more than the default
    values["after"] = _with_instances(spec.after, ids)
    if spec.restart.together:
        values["restart"]["together"] = _with_instances(spec.restart.together, ids)
    if not spec.each:
        return [values]
    common = {}
    if nodes:
        values.setdefault("node", _PLACEHOLDER)
        common = {"{nodes}": str(len(nodes)), "{head.address}": nodes[0].address or nodes[0].name}
        if "together" not in spec.restart.model_fields_set:
            restart = {"because": "they are ranks of one program"} | values.get("restart", {})
            values["restart"] = restart | {"together": ids[spec.id]}
    return [
        _fill_table(values, {**common, _PLACEHOLDER: name, **({"{rank}": str(rank)} if nodes else {})})
        | {"id": component_id, "each": ""}
        for rank, (component_id, name) in enumerate(
            zip(ids[spec.id], instances.get(spec.each, ()), strict=True)
        )
    ]


def _with_instances(names: Iterable[str], ids: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(id_ for name in names for id_ in ids.get(name, (name,)))


def _fill(value: object, texts: Mapping[str, str]) -> object:
    """Every text below `value` with the placeholders replaced by their `texts`."""
    match value:
        case str():
            for placeholder, text in texts.items():
                value = value.replace(placeholder, text)
            return value
        case tuple() | list():
            return tuple(_fill(item, texts) for item in value)
        case dict():
            return _fill_table(value, texts)
        case _:
            return value


def _fill_table(values: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    return {key: _fill(value, texts) for key, value in values.items()}
