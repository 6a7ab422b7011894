"""The request that lets a living inference server go on, as its orchestrator would have sent it."""

from __future__ import annotations

from collections.abc import Mapping

from rltui.core.template import TemplateValue
from rltui.frameworks.base import ServiceCall


def resume_call(values: Mapping[str, TemplateValue]) -> ServiceCall:
    """To the engine itself: one that an orchestrator left paused, as it died, is known to no router.

    `values`: the layout's, with `host.inference` and `port.engine`.
    """
    url = f"http://{values['host.inference']}:{values['port.engine']}/resume"
    return ServiceCall("inference", url, "resume an engine that was left paused")
