"""`python -m rlcore.cli`."""

import sys

from rlcore.cli import main

sys.exit(main())
