"""Started by file path under `-I -S`, so the package's root is not on `sys.path` yet."""

import sys

# Last: nothing that lies beside rltui may stand in for the standard library.
sys.path.append(__file__.rsplit("/", 4)[0])

from rltui.hosts.shim.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
