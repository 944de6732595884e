"""Speed and memory of the math rewards: `python -m tests.bench.math_grader`.

CPU seconds of this process and of the worker processes that it started; every answer is another one, so that nothing
is remembered from an earlier answer.
"""

import itertools
import json
import os
import resource
import time
from pathlib import Path

from rlcore_answers.extraction import extract
from rlcore_answers.grading import Math, gsm8k
from rlcore_answers.parser import parse, readable

PLAIN, MIXED = 20_000, 400
LEAST = {"plain numbers": 2_000, "mixed LaTeX": 100}
"""Grades that a CPU second must have room for."""
CORPUS = Path(__file__).parents[1] / "rewards" / "math_corpus.jsonl"
HOSTILE = (r"9^{9^{9^{9}}}", r"5^{5^{5^{5^5}}}-4", r"100000!!", r"10^{10^{10}}")
TEMPLATES = (
    (r"\frac{{{0}}}{{{1}}}", r"{0}/{1}"),
    (r"\frac{{{0}\sqrt{{{1}}}}}{{2}}", r"\sqrt{{{1}}}\cdot\frac{{{0}}}{{2}}"),
    (r"(x+{0})^2", r"x^2+2\cdot{0}x+{0}^2"),
    (r"[{0},{0}.5)\cup({1},\infty)", r"{0}\le x<{0}.5 \text{{ or }} x>{1}"),
    (r"{0}x+{1}y=6", r"2\cdot{0}x+2\cdot{1}y=12"),
    (r"\{{{0},{1},\pi\}}", r"\{{\pi,{1},{0}\}}"),
    (r"\left({0},\frac{{1}}{{{1}}}\right)", r"({0},1/{1})"),
    (r"\begin{{pmatrix}}{0}&{1}\\0&1\end{{pmatrix}}", r"\begin{{bmatrix}}{0}&{1}\\0&1\end{{bmatrix}}"),
    (r"\sin^2(x)+{0}\pi", r"{0}\pi+1-\cos^2 x"),
    (r"x={0}\pm\sqrt{{{1}}}", r"{0}+\sqrt{{{1}}}, {0}-\sqrt{{{1}}}"),
    (r"{0}\text{{ cm}}^2", r"{0}.0"),
    (r"\int_0^1 {0}x\,dx", r"\frac{{{0}}}{{2}}"),
)
"""Golds and equal answers; the last kind is compared by sympy."""


def cpu():
    """CPU seconds of this process and its living and dead descendants."""
    own = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in (0, -1))
    return own + sum(alive(int(child)) for child in descendants(os.getpid()))


def descendants(process):
    """Ids of the processes under a process."""
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in file.read_text().split():
            yield child
            yield from descendants(child)


def alive(process):
    """CPU seconds of a living process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def grades_a_second(reward, cases):
    """Grades a CPU second, and how many were right."""
    begin = cpu()
    right = sum(reward(f"So it is \\boxed{{{answer}}}.", gold)["score"] for gold, answer in cases)
    return len(cases) / max(cpu() - begin, 1e-9), right


def main():
    """Print a table; return 1 if anything is slower than it may be."""
    reward, failed = Math(), 0
    plain = [(str(n), f"{n:,}" if n % 2 else f"{n}.0") for n in range(1, PLAIN + 1)]
    cases = zip(itertools.cycle(TEMPLATES[:-1]), range(MIXED), strict=False)
    mixed = [(gold.format(n + 2, n + 1003), answer.format(n + 2, n + 1003)) for (gold, answer), n in cases]
    corpus = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    written = [(row["gold"], row["answer"]) for row in corpus if row["form"] == "answer" and readable(row["gold"])]
    by_sympy = [(gold.format(n, 0), answer.format(n, 0)) for n in range(1, 41) for gold, answer in TEMPLATES[-1:]]
    print(f"{'answers':24} {'number':>7} {'right':>7} {'a CPU second':>13}  at least")
    rows = (("plain numbers", plain), ("mixed LaTeX", mixed), ("corpus", written), ("by sympy, from nothing", by_sympy))
    for name, answers in rows:
        parse.cache_clear()
        rate, right = grades_a_second(reward, answers)
        failed += rate < LEAST.get(name, 0)
        print(f"{name:24} {len(answers):7} {right:7.0f} {rate:13,.0f}  {LEAST.get(name, '-')}")
    rate, right = grades_a_second(gsm8k, plain)
    print(f"{'gsm8k, plain numbers':24} {len(plain):7} {right:7.0f} {rate:13,.0f}  {LEAST['plain numbers']}")
    for name, text in (("1 MB of braces", "{" * 10**6), ("1 MB of boxes", "\\boxed{" * (10**6 // 7))):
        begin = time.process_time()
        extract(text)
        print(f"{name:24} {1e3 * (time.process_time() - begin):7.0f} ms")
    for answer in HOSTILE:
        before, begin = resource.getrusage(0).ru_maxrss, time.process_time()
        score = reward(f"\\boxed{{{answer}}}", "5")["score"]
        grown = (resource.getrusage(0).ru_maxrss - before) / 1024
        print(f"{answer:24} {1e3 * (time.process_time() - begin):7.2f} ms  {grown:.1f} MiB  score {score}")
    reward.close()
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
