"""`python -m rlcore.testing.parity FILE.json`."""

import sys

from rlcore.testing.parity import main

sys.exit(main(sys.argv[1:]))
