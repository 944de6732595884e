"""Speed of every registered estimator: `python -m tests.bench.estimators [NAME ...]`.

The unit u is `torch.ones(B, T)` in the same process, at 16,384 rows of 1,024 tokens: the time to write one column. Each
function is called directly, in groups of 8, rows of 1 to 1,024 tokens; what is shown is CPU time, the best of several.
`--verl PATH` shows verl's beside ours instead: PATH is a folder into which verl 0.9.1 was installed
(docs/runs/estimators_beside_verl.md says how).
"""

import argparse
import sys
import time

import torch

from rlcore import get, names
from rlcore.component import invoke, reads

ROWS, TOKENS, SAMPLES = 16_384, 1_024, 8
LIMITS = {"row": 1, "token": 4, "recursion": 10}
"""Units that a result may cost: one value a row, one a token, one a token that depends on the next."""

RECURSIONS = ("gae", "greedy_baseline", "process_leave_one_out", "reward_to_go", "token_baseline")
APART = ("whiten", "clip", "scale", "weighted_sum")
"""Steps of a chain, which are no estimators."""


def columns(rows=ROWS, tokens=TOKENS):
    """Columns of a ragged batch: 0 beyond each row's length."""
    generator = torch.Generator().manual_seed(0)
    length = torch.randint(1, tokens + 1, (rows,), generator=generator)
    real = torch.arange(tokens) < length[:, None]

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    reward = torch.randint(0, 2, (rows,), generator=generator).float()
    token_reward = torch.zeros(rows, tokens)
    token_reward[torch.arange(rows), length - 1] = reward
    made = {
        "old_logprob": -normal(rows, tokens).abs_(),
        "value": normal(rows, tokens),
        "advantage": normal(rows, tokens),
        "process_reward": normal(rows, tokens),
        "old_square_sum": torch.rand(rows, tokens, generator=generator),
    }
    for value in made.values():
        value.mul_(real)
    return {
        **made,
        "reward": reward,
        "score": reward,
        "score_components": torch.stack([reward, normal(rows)], 1),
        "greedy_reward": torch.randint(0, 2, (rows,), generator=generator).float(),
        "token_reward": token_reward,
        "group": torch.arange(rows) // SAMPLES,
        "length": length,
        "mask": real,
        "sampled": real,
    }


def seconds(call, times):
    """The best CPU time of several calls."""
    best = float("inf")
    for _ in range(times):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best


def measured(name, given, times=5):
    """Units of one estimator, and what it gives: a value per row, per token, or a recursion over them."""
    estimator = get("advantage", name)
    result = invoke(estimator, given)
    advantage = getattr(result, "advantage", result)
    kind = "row" if advantage.dim() == 1 else "recursion" if name in RECURSIONS else "token"
    unit = min(seconds(lambda: torch.ones(ROWS, TOKENS), 3 * times), 1.0)
    cost = seconds(lambda: invoke(estimator, given), times)
    return cost / unit, unit, cost, kind


def main(words):
    """Print a table; return 1 if anything costs more than it may."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.estimators")
    parser.add_argument("name", nargs="*", help="estimators to measure; all by default")
    parser.add_argument("--verl", metavar="PATH", help="a folder with verl 0.9.1, to be measured beside")
    asked = parser.parse_args(words)
    torch.set_num_threads(1)
    if asked.verl:
        from tests.bench.verl_estimators import beside

        beside(asked.verl, columns, seconds)
        return 0
    given, failed = columns(), []
    print(f"{'estimator':28} {'gives':10} {'CPU ms':>8} {'u':>7}  may cost   (u = torch.ones({ROWS}, {TOKENS}))")
    for name in asked.name or names("advantage"):
        if not {read.name for read in reads(get("advantage", name)) if not read.optional} <= given.keys():
            print(f"{name:28} reads what is not made here")
            continue
        units, unit, cost, kind = measured(name, given)
        limit = None if name in APART else LIMITS[kind]
        too_much = limit is not None and units > limit
        failed += [name] if too_much else []
        may = "-" if limit is None else f"{limit} u{'  TOO MUCH' if too_much else ''}"
        print(f"{name:28} {kind:10} {1e3 * cost:8.1f} {units:7.2f}  {may}", flush=True)
    print(f"u = {1e3 * unit:.1f} ms")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
