"""Speed and learning on sums, one JSON line: `python -m tests.bench.learning --model FOLDER [key=value ...]`.

Figures stand twice: wall seconds, and this process's CPU seconds (all its threads), which are the ones to compare on a
machine that is shared. The work of a step is split into generate, logprob (scoring passes), update, and the rest.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rlcore.cli.shared import as_json
from rlcore.hooks import hookimpl

SUMS = Path(__file__).with_name("sums.py")
SCORING = ("old_logprob", "ref_logprob", "value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("words", nargs="*", metavar="key=value", help="further settings, e.g. algorithm=dr_grpo")
    parser.add_argument("--model", required=True, help="as model= names it")
    for name, default in (("steps", 40), ("prompts", 16), ("group", 8), ("max-new", 16), ("threads", 1), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--eval", type=int, default=512, help="held-out problems, sampled before and after; 0: none")
    parser.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="float32")
    parser.add_argument(
        "--ignore-eos", action="store_true", help="every completion has exactly --max-new tokens: fixed work"
    )
    parser.add_argument("--task", choices=["add", "add_chat"], default="add")


class Clock:
    """Watches a run: when each step ended and what each node took, in wall and CPU seconds."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float]] = []
        self.nodes: dict[str, list[float]] = {}
        self._last = (0.0, 0.0)

    @hookimpl
    def run_started(self, run: Any, folder: Any) -> None:
        """Begin; what is done before the first step is not counted."""
        self._last = _now()

    @hookimpl
    def node_finished(self, step: int, node: str, seconds: float, rows: int) -> None:
        """Take a node's time: wall as the executor gives it, CPU since the one before."""
        now = _now()
        spent = self.nodes.setdefault(node, [0.0, 0.0])
        spent[0] += seconds
        # Evaluation stands between the start and the first step: the first node's share would hold it.
        spent[1] += min(now[1] - self._last[1], seconds * 64) if self.steps else 0.0
        self._last = now

    @hookimpl
    def step_finished(self, step: int, metrics: Any) -> None:
        """Take the time of a step's end."""
        self._last = _now()
        self.steps.append(self._last)


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def main(words: list[str] | None = None) -> int:
    """Run it and print the line."""
    from rlcore.config import load
    from rlcore.registry import registry
    from rlcore.run import Run

    parser = argparse.ArgumentParser(prog="python -m tests.bench.learning")
    add_arguments(parser)
    args = parser.parse_intermixed_args(words)
    with tempfile.TemporaryDirectory() as folder:
        training = Run.of(load(_overrides(args, folder)), quiet=True)
        clock = Clock()
        manager = registry().manager
        manager.register(clock, name="bench")
        try:
            training.train()
        finally:
            manager.unregister(clock)
        print(as_json(_figures(args, training, clock)), flush=True)
    return 0


def _overrides(args: argparse.Namespace, folder: str) -> list[str]:
    rows = max(64, args.steps * args.prompts)
    return [
        f"model={args.model}",
        f"data={SUMS}:sums",
        f"data.count={rows}",
        f"data.seed={args.seed + 1}",
        f"data.task={args.task}",
        f"data.split={'train' if args.eval else 'all'}",
        f"data.held_out={max(args.eval, 1)}",
        f"reward={SUMS}:{'is_sum' if args.task == 'add' else 'ends_in_sum'}",
        f"steps={args.steps}",
        f"prompts={args.prompts}",
        f"algorithm.group_size={args.group}",
        f"max_new_tokens={args.max_new}",
        f"learning_rate={args.lr}",
        f"threads={args.threads}",
        f"seed={args.seed}",
        f"training.precision={args.precision}",
        f"run.folder={folder}",
        "tracker=[]",
        *(["sampling.ignore_eos=true"] if args.ignore_eos else []),
        *args.words,
    ]


def _figures(args: argparse.Namespace, training: Any, clock: Clock) -> dict[str, Any]:
    import importlib.metadata
    import resource
    import sys

    history, steps = training.history, len(training.history)
    gaps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(clock.steps[:-1], clock.steps[1:], strict=True)]
    total = [row["seconds/step"] for row in history]
    # CPU of a node is known from the second step on.
    per = {name: (wall / steps, cpu / max(steps - 1, 1)) for name, (wall, cpu) in clock.nodes.items()}
    scores = [row.get("score") for row in history if row.get("score") is not None]
    share = max(1, len(scores) // 8)
    tokens = sum(row.get("rollout/tokens", 0.0) for row in history)
    generate = _sum(per, lambda n: n == "rollout")
    logprob = _sum(per, lambda n: n in SCORING)
    update = _sum(per, lambda n: n.endswith("update"))
    whole = [sum(total) / max(steps, 1), _mean([g[1] for g in gaps])]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    return {
        "tool": "tests.bench.learning",
        "rlcore": importlib.metadata.version("rlcore"),
        "torch": importlib.metadata.version("torch"),
        "transformers": importlib.metadata.version("transformers"),
        "args": {k: v for k, v in vars(args).items() if k not in ("model",)},
        "algorithm": training.algorithm.name,
        "params": sum(p.numel() for p in training.load().model.module.parameters()),
        "step_s_wall_median": _median([g[0] for g in gaps]),
        "step_s_cpu_median": _median([g[1] for g in gaps]),
        "per_step_s_[wall,cpu]": {
            "generate": generate,
            "logprob": logprob,
            "reward_and_glue": [
                round(max(w - g - s - u, 0.0), 4) for w, g, s, u in zip(whole, generate, logprob, update, strict=True)
            ],
            "update": update,
            "total": [round(w, 4) for w in whole],
        },
        "tokens_per_step": tokens / max(steps, 1),
        "gen_tok_s_[wall,cpu]": [round(tokens / max(steps, 1) / max(g, 1e-9), 1) for g in generate],
        "end_to_end_tok_s_[wall,cpu]": [round(tokens / max(steps, 1) / max(w, 1e-9), 1) for w in whole],
        "reward_first": round(_mean(scores[:share]), 4),
        "reward_last": round(_mean(scores[-share:]), 4),
        "reward_curve": [round(s, 3) for s in scores],
        "pass_before": training.summary.get("success_before"),
        "pass_after": training.summary.get("success_after"),
        "peak_rss_mib": round(peak, 1),
    }


def _sum(per: dict[str, tuple[float, float]], wanted: Any) -> list[float]:
    return [round(sum(pair[i] for name, pair in per.items() if wanted(name)), 4) for i in (0, 1)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _median(values: list[float]) -> float:
    return round(sorted(values)[len(values) // 2], 4) if values else float("nan")


if __name__ == "__main__":
    raise SystemExit(main())
