"""Compares our numbers with those of other frameworks: `python -m rlcore_algorithms.parity FILE.json ...`."""

import sys

from rlcore_algorithms.parity import main

sys.exit(main(sys.argv[1:]))
