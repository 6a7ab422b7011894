"""Run by the framework's interpreter, never imported: asks its config classes whether files are valid.

Its argument is how many seconds of processor time it may take.
stdin: `{role: {"text": TOML, "models": ["module:Class", …]}}`. stdout: `{role: answer}`, where an answer has
one of `valid`, `errors` (place and message each), `missing` (a package that the config itself asks for),
`failed`, `unavailable` (none of the classes could be imported). Only the standard library; what other code
prints goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import tomllib
from typing import Any


def main() -> None:
    """Answer, once."""
    limit_s = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
    channel = os.dup(1)
    os.dup2(2, 1)
    jobs = json.load(sys.stdin)
    answers = {role: answer(job["text"], job["models"]) for role, job in jobs.items()}
    with os.fdopen(channel, "w", encoding="utf-8") as out:
        json.dump(answers, out)


def answer(text: str, models: list[str]) -> dict[str, Any]:
    """What the first of `models` that can be imported says of a TOML text."""
    reasons = []
    for name in models:
        module, _, attribute = name.partition(":")
        try:
            model = getattr(importlib.import_module(module), attribute)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever their code does at import
            reasons.append(in_words(error))
        else:
            return verdict(model, tomllib.loads(text))
    return {"unavailable": "; ".join(dict.fromkeys(reasons))}


def verdict(model: Any, data: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a class of theirs
    """What one class says."""
    try:
        model.model_validate(data)
    except ImportError as error:
        return {"missing": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - validators of theirs raise what they like
        if not hasattr(error, "errors"):
            return {"failed": in_words(error)}
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return {"errors": [{"at": item["loc"], "type": item["type"], "text": item["msg"]} for item in found]}
    return {"valid": True}


def in_words(error: BaseException) -> str:
    """`ImportError: No module named …`."""
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
