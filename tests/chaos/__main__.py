"""Kill runs and see that nothing is lost: `python -m tests.chaos --faults 50 --seed 0`, or one fault by its name."""

import argparse
import collections
import tempfile
from pathlib import Path

from tests.chaos.faults import Fault, drawn, nursery

MISSED = "ended before it was struck"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=50, help="how many are drawn (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one; the others count on (default: 0)")
    parser.add_argument("--fault", help="repeat this one alone: SETTING:PROCESS:STEP:PHASE:SEED, as it was printed")
    given = parser.parse_args()
    ends, wrong, seed = collections.Counter(), [], given.seed
    with tempfile.TemporaryDirectory() as folder, nursery(Path(folder)) as runs:
        # One that struck nothing does not count: another is drawn.
        while sum(ends.values()) - ends[MISSED] < (1 if given.fault else given.faults) and ends[MISSED] < 200:
            fault = Fault.parse(given.fault) if given.fault else drawn(seed)
            seed += 1
            print(fault, end="  ", flush=True)
            try:
                struck = runs.strike(fault)
                end = f"{fault.process} killed" if struck["exit"] else MISSED
            except AssertionError as error:
                wrong.append(fault)
                end = f"WRONG: {error}"
            ends[end[:40]] += 1
            print(end, flush=True)
            if given.fault:
                break
    print("; ".join(f"{end}: {count}" for end, count in ends.items()))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
