"""Command line of the programs: `python -m rltui.tinyrl PROGRAM @ file.toml [@ overlay.toml] [--dotted.key
value ...]`.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import FrameType

from pydantic import BaseModel

from rltui.tinyrl.config import EVAL_OPTIONS, EvalConfig, RlConfig, SftConfig
from rltui.tinyrl.config_file import describe_keys, load_config, parse_arguments
from rltui.tinyrl.errors import TinyrlError
from rltui.tinyrl.log_lines import warning

_PROGRAMS = {
    "rl": "run the next three together, each with a log file: one command for a batch system",
    "inference": "serve the model over HTTP",
    "orchestrator": "draw rollouts, score them, ship batches",
    "trainer": "update the weights",
    "sft": "make the model RL starts from",
    "eval": "ask a model that is served, and score its answers",
}
_NEEDED_MODULES = ("torch", "safetensors", "tokenizers", "jinja2", "starlette", "uvicorn", "httpx", "tqdm")
_EVAL_MODULES = ("tokenizers", "jinja2", "httpx", "tqdm")


def _usage() -> str:
    programs = "\n".join(f"  {name:<14}{help_text}" for name, help_text in _PROGRAMS.items())
    return f"usage: tinyrl PROGRAM @ file.toml [@ overlay.toml] [--dotted.key value ...]\n\n{programs}\n"


def _check_modules(needed: tuple[str, ...] = _NEEDED_MODULES) -> None:
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise TinyrlError(
            f"the embedded engine needs {', '.join(missing)}, not installed here: pip install 'rltui[local]'"
        )


def _stop(number: int, _: FrameType | None) -> None:
    """Exit at once, in any state: files become visible in one step, so nothing is left half-written."""
    warning(f"Received {signal.Signals(number).name}, stopping")
    raise SystemExit(128 + number)


def _prepare(program: str, argv: list[str]) -> Callable[[], int] | None:
    """Check everything that can be checked before torch is loaded."""
    arguments = parse_arguments(argv, EVAL_OPTIONS if program == "eval" else None)
    if arguments.wants_help:
        config_types: dict[str, type[BaseModel]] = {"sft": SftConfig, "eval": EvalConfig}
        config_type = config_types.get(program, RlConfig)
        lines = [f"usage: tinyrl {program} @ file.toml [@ overlay.toml] [--dotted.key value ...]", ""]
        lines += [f"{program}: {_PROGRAMS[program]}", "", "Every key of the file is an option:", ""]
        for key, default, help_text in describe_keys(config_type):
            lines += [f"  --{key.replace('_', '-')}  ({default})", f"      {help_text}"]
        sys.stdout.write("\n".join(lines) + "\n")
        return None
    if program == "sft":
        sft_config = load_config(SftConfig, arguments)
        _check_modules()
        return lambda: _run_sft(sft_config)
    if program == "eval":
        eval_config = load_config(EvalConfig, arguments)
        _check_modules(_EVAL_MODULES)
        return lambda: _run_eval(eval_config)
    config = load_config(RlConfig, arguments)
    _check_modules()
    if program == "rl":
        return lambda: _run_rl(config, argv)
    if program == "inference":
        from rltui.tinyrl.inference.listener import bind

        listener = bind(config.inference.server.host, config.inference.server.port)
        return lambda: _run_inference(config, listener)
    return (
        (lambda: _run_orchestrator(config)) if program == "orchestrator" else (lambda: _run_trainer(config))
    )


def _run_sft(config: SftConfig) -> int:
    from rltui.tinyrl import sft

    return sft.run(config)


def _run_eval(config: EvalConfig) -> int:
    from rltui.tinyrl import evaluation

    return evaluation.run(config)


def _run_rl(config: RlConfig, argv: list[str]) -> int:
    from rltui.tinyrl import launcher

    return launcher.run(config, argv)


def _run_inference(config: RlConfig, listener: socket.socket) -> int:
    from rltui.tinyrl.inference import server

    return server.run(config, listener)


def _run_orchestrator(config: RlConfig) -> int:
    from rltui.tinyrl import orchestrator

    return orchestrator.run(config)


def _run_trainer(config: RlConfig) -> int:
    from rltui.tinyrl import trainer

    return trainer.run(config)


def main() -> int:
    """Run one program; returns its exit code."""
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
        run = _prepare(program, rest)
        return 0 if run is None else run()
    except TinyrlError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
