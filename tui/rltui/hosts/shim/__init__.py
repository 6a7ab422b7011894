"""Runs one attempt of a component and outlives everything but SIGKILL.

    python -I -S …/rltui/hosts/shim/__main__.py ATTEMPT_DIR

Reads `ATTEMPT_DIR/spec.json`, keeps `ATTEMPT_DIR/attempt.json` true, and mirrors the log to its own terminal.
The component writes straight to its log file, so nothing here can slow it. As sub-reaper the shim inherits
every orphan below it: no child left means no descendant left, whatever they forked, renamed or detached.

SIGTERM, SIGINT: graceful stop. SIGUSR1: kill the tree at once. SIGHUP and terminal signals are ignored.
A main process that ends by itself takes the rest of its tree along, unless the spec says `leftovers: keep`:
then the shim lives on with what is left, its `ended_at` and exit code on record, until that ends or is ended.

With `RLTUI_ADOPTS` in its environment, a shim takes up with an attempt whose own one was killed: it looks
after the processes that are left (`leftovers.py`), though they are not below it, so that how they end stays
unknown. The agent on a node (`agent.py`) starts such shims.

Three rules keep a shim as small as Python gets and independent of the package it came from:

- Standard library only, and nothing else of rltui. `dataclasses`, `typing`, `pathlib`, `subprocess` and
  `asyncio` would each cost megabytes.
- Everything is imported at the start, nothing on demand: the package may be upgraded below a living shim.
- Run by file path, but with all code in modules: these have cached bytecode, while Python keeps in memory
  what it parsed of a script.
"""
