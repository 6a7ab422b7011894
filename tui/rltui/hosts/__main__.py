"""The shim starts this in place of a component."""

import sys

from rltui.hosts.remote_runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
