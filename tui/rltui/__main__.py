"""Entry point of `python -m rltui`."""

import sys

from rltui.cli import main

sys.exit(main())
