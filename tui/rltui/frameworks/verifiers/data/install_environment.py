"""Run by the user's interpreter, with the id of an environment: installs its package where it is missing.

As `vf-rl` types it, which does so before every start: with an owner from the hub by `prime env install`, else
from ./environments by `vf-install`.
"""

import importlib.util
import subprocess
import sys


def main() -> int:
    """Exit code 0 if the package can be imported."""
    name = sys.argv[1]
    module = name.rpartition("/")[2].replace("-", "_")
    if importlib.util.find_spec(module) is not None:
        print(f"{name} is installed")
        return 0
    command = ["prime", "env", "install", name] if "/" in name else ["vf-install", name]
    print(f"{name} is not installed: {' '.join(command)}", flush=True)
    try:
        code = subprocess.run(command, check=False).returncode
    except FileNotFoundError:
        print(f"cannot install {name}: {command[0]} is not on the path", file=sys.stderr)
        return 1
    importlib.invalidate_caches()
    if importlib.util.find_spec(module) is None:  # vf-install says 0 whatever became of it
        print(f"cannot install {name}: {' '.join(command)} installed no module {module}", file=sys.stderr)
        return code or 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
