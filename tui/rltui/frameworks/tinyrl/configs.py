"""The config files of the embedded engine: the schemas that its own models give, our overlay and rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from rltui.core.config_schema import ConfigSchema
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.schemas import Configs, Overlay
from rltui.frameworks.tinyrl.rules import defaults, rules

if TYPE_CHECKING:
    from pydantic import BaseModel


@cache
def _schemas() -> Mapping[str, ConfigSchema]:
    """By role. The models are imported when a config is first looked into: that takes a while."""
    from rltui.tinyrl.config import RlConfig
    from rltui.tinyrl.sft_config import SftConfig

    models: Mapping[str, type[BaseModel]] = {"rl": RlConfig, "sft": SftConfig}
    return {role: ConfigSchema(model.model_json_schema(), none=None) for role, model in models.items()}


def _schema(file: ConfigFile) -> ConfigSchema:
    return _schemas()[file.role]


CONFIGS = Configs(
    Overlay.parse((resources.files(__package__) / "data" / "concepts.toml").read_text(encoding="utf-8")),
    schema=_schema, namespaces={"rl": "", "sft": "sft"}, reader="the embedded engine", rules=rules,
    defaults=defaults,
)  # fmt: skip
