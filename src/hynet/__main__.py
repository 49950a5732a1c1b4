"""`python -m hynet` is the command line."""

import sys

from hynet.cli import main

sys.exit(main())
