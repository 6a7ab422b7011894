"""Command line of the programs: `python -m rltui.tinyrl PROGRAM @ file.toml [@ overlay.toml] [--dotted.key
value ...]`.
"""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from types import FrameType

from pydantic import BaseModel

from rltui.tinyrl import TinyrlError
from rltui.tinyrl.config import EVAL_OPTIONS, EvalConfig, RlConfig, SftConfig
from rltui.tinyrl.config_file import ConfigType, describe_keys, load_config, parse_arguments
from rltui.tinyrl.inference.listener import bind
from rltui.tinyrl.log_lines import warning

_PROGRAMS = {
    "rl": "run the next three together, each with its own log file, as one batch job",
    "inference": "serve the model over HTTP",
    "orchestrator": "sample rollouts, score them, send batches",
    "trainer": "update the weights",
    "sft": "train the model that RL starts from",
    "eval": "evaluate a served model",
}
_NEEDED_MODULES = ("torch", "safetensors", "tokenizers", "jinja2", "starlette", "uvicorn", "httpx", "tqdm")
_EVAL_MODULES = ("tokenizers", "jinja2", "httpx", "tqdm")


def _usage() -> str:
    programs = "\n".join(f"  {name:<14}{help_text}" for name, help_text in _PROGRAMS.items())
    return f"usage: tinyrl PROGRAM @ file.toml [@ overlay.toml] [--dotted.key value ...]\n\n{programs}\n"


def _stop(number: int, _: FrameType | None) -> None:
    """Exit at once, in any state: files become visible in one step, so nothing is left half-written."""
    warning(f"Received {signal.Signals(number).name}, stopping")
    raise SystemExit(128 + number)


def _run(program: str, argv: list[str]) -> int:
    """Check everything that can be checked before torch is loaded, then run the program."""
    arguments = parse_arguments(argv, EVAL_OPTIONS if program == "eval" else None)
    if arguments.wants_help:
        config_types: dict[str, type[BaseModel]] = {"sft": SftConfig, "eval": EvalConfig}
        config_type = config_types.get(program, RlConfig)
        lines = [f"usage: tinyrl {program} @ file.toml [@ overlay.toml] [--dotted.key value ...]", ""]
        lines += [f"{program}: {_PROGRAMS[program]}", "", "Every key of the file is an option:", ""]
        for key, default, help_text in describe_keys(config_type):
            lines += [f"  --{key.replace('_', '-')}  ({default})", f"      {help_text}"]
        sys.stdout.write("\n".join(lines) + "\n")
        return 0

    def checked_config(config_type: type[ConfigType]) -> ConfigType:
        config = load_config(config_type, arguments)
        needed = _EVAL_MODULES if program == "eval" else _NEEDED_MODULES
        if missing := [name for name in needed if find_spec(name) is None]:
            raise TinyrlError(
                f"the embedded engine needs {', '.join(missing)}, not installed: pip install 'rltui[local]'"
            )
        return config

    if program == "sft":
        sft_config = checked_config(SftConfig)
        from rltui.tinyrl import sft

        return sft.run(sft_config)
    if program == "eval":
        eval_config = checked_config(EvalConfig)
        from rltui.tinyrl import evaluation

        return evaluation.run(eval_config)
    config = checked_config(RlConfig)
    if program == "rl":
        from rltui.tinyrl import launcher

        return launcher.run(config, argv)
    if program == "inference":
        listener = bind(config.inference.server.host, config.inference.server.port)
        from rltui.tinyrl.inference import server

        return server.run(config, listener)
    if program == "orchestrator":
        from rltui.tinyrl import orchestrator

        return orchestrator.run(config)
    from rltui.tinyrl import trainer

    return trainer.run(config)


def main() -> int:
    argv = sys.argv[1:]
    if not argv or argv[0] in {"-h", "--help"}:
        sys.stdout.write(_usage())
        return 0 if argv else 2
    program, *rest = argv
    if program not in _PROGRAMS:
        sys.stderr.write(f"unknown program `{program}`\n{_usage()}")
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        return _run(program, rest)
    except TinyrlError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
