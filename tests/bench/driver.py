"""CPU time of the run's own process in a step, beyond sampling, grading and training: `python -m tests.bench.driver`.

Fakes stand for sampler, trainer and reward; what the sampler costs by itself is taken off. `apart` has the sampler in a
process of its own. What is allowed is what an earlier state was measured at: 150 us a row and 2.3 us a token.
"""

import argparse
import time
from functools import partial

from rlcore.execute.process import RoleSpec
from rlcore.execute.remote import HostedSampler, start_remotely
from rlcore.protocols import Completion, Stop
from rlcore.run.step_report import completions, rollout_rows, step_metrics
from rlcore_algorithms import grpo
from tests.execute.fakes import FakeSampler, decode, executor, rows

GROUP = 8


class Drawn(FakeSampler):
    """Draws as many tokens as it is asked for."""

    def __init__(self, tokens):
        super().__init__()
        self.tokens = tokens

    async def sample(self, request):
        return drawn(request.seed, self.tokens)


def drawn(seed, n):
    ids = [5 + (seed + i) % 40 for i in range(n)]
    return Completion(ids, [-1.0] * n, [0.0] * n, Stop.LENGTH, [0] * n)


def hosted(tokens):
    return HostedSampler(Drawn(tokens))


def measure(count, tokens, *, apart, steps=3):
    """Seconds of CPU of the best step, and messages to the sampler a step."""
    start = partial(hosted, tokens)
    sampler = start_remotely(RoleSpec("sampler", "sampler", start)) if apart else Drawn(tokens)
    begin = time.process_time()
    kept = [drawn(seed, tokens) for seed in range(count)]  # noqa: F841 - kept as those of a step are
    by_itself = 0.0 if apart else time.process_time() - begin
    made = executor(
        grpo(group_size=GROUP).graph(), sampler=sampler, score=lambda sample: 0.0, data=rows(), prompts=count // GROUP,
        group_size=GROUP, max_new_tokens=tokens,
    )  # fmt: skip
    made.roles.sync = lambda role: 0
    best = float("inf")
    for step in range(steps):
        begin = time.process_time()
        result = made.run_step(step)
        texts = completions(result.batch, decode)
        rollout_rows(result.batch, texts, str, ())
        step_metrics(result, texts, (), ())
        best = min(best, time.process_time() - begin - by_itself)
    messages = sampler.handle.sent_messages / steps if apart else 0
    made.close()
    if apart:
        sampler.close()
    return best, messages


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.bench.driver", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 512, 4096])
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 256])
    given = parser.parse_args()
    print("tokens   rows   here us/row   apart us/row   messages   allowed us/row")
    for tokens in given.tokens:
        for count in given.rows:
            (here, _), (apart, messages) = (measure(count, tokens, apart=apart) for apart in (False, True))
            print(
                f"{tokens:6} {count:6} {1e6 * here / count:13.0f} {1e6 * apart / count:14.0f} {messages:10.1f} "
                f"{150 + 2.3 * tokens:16.0f}"
            )


if __name__ == "__main__":
    main()
