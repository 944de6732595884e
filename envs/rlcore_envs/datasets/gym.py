"""Tasks of Reasoning Gym (Stojanovski et al. 2025, arXiv:2505.24760): made from a seed, graded by their own rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlcore.data import DrawnRows, Row
from rlcore.errors import DataError, nearest
from rlcore_envs.datasets.seeded_tasks import TaskSplit, check_range, draw_rows

# Problems to draw from for each row asked for: one in ten is held out, and some repeat. Some tasks make all of them, or
# refuse more than there are, so that it cannot be simply very many.
DRAWN_PER_ROW, DRAWN_AT_LEAST = 20, 1000


def reasoning_gym(
    *,
    task: str = "",
    split: TaskSplit = "train",
    rows: int = 1024,
    seed: int = 0,
    config: dict[str, Any] | None = None,
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
) -> DrawnRows:
    """Return rows of a task of the package `reasoning-gym`; the reward `reasoning_gym_answer` grades them.

    A row has `prompt`, `target`, `question`, `metadata` (the task's own) and `data_source` "reasoning_gym/TASK". A
    question is on one side of the split whatever the seed. Not every task can give many different questions.

    Args:
        task: its name in the package, such as `leg_counting`.
        split: of the problems; `warm` rows have a `completion`, the answer.
        rows: how many.
        seed: of the draw, handed to the package; equal options and package versions give equal rows.
        config: the task's own options, among them its difficulty: `data.config.max_animals=5`.
        system_prompt: a system message; makes each prompt a conversation.
        template: a text with `{prompt}` where the question goes.
        chat: make each prompt a conversation without a system message.

    Raises:
        DataError: the package is missing, no task of that name, options that it refuses, or too few questions.
    """
    check_range("reasoning_gym", rows=(rows, 1, 2**31))
    size = max(DRAWN_PER_ROW * rows, DRAWN_AT_LEAST)
    dataset = create_dataset(task, seed, {"size": size, **(config or {})})

    def problems() -> Iterator[tuple[str, Row]]:
        for index in range(len(dataset)):
            entry = dataset[index]
            row: Row = {
                "prompt": entry["question"],
                "target": entry["answer"],
                "question": entry["question"],
                "metadata": {"source_dataset": task, **entry["metadata"]},
                "data_source": f"reasoning_gym/{task}",
            }
            if split == "warm":
                row["completion"] = str(entry["answer"])
            yield entry["question"], row

    form = {"system_prompt": system_prompt, "template": template, "chat": chat}
    return draw_rows(problems(), name="reasoning_gym", split=split, rows=rows, patience=1000, prompt_format=form)


def create_dataset(task: str, seed: int, config: Mapping[str, Any]) -> Any:
    """Return the package's own data set. Raises DataError for a task or options that it does not have."""
    package = import_gym()
    known = sorted(package.factory.DATASETS)
    if task not in known:
        raise DataError(
            f"data=reasoning_gym: no task {task!r}.{nearest(task, known)} Set data.task to one of: {', '.join(known)}"
        )
    try:
        return package.create_dataset(task, **{"seed": seed, **config})
    except (TypeError, ValueError, AssertionError) as error:
        raise DataError(f"data=reasoning_gym: task {task!r} refuses its options {dict(config)}: {error}") from error


def import_gym() -> Any:
    """Return the package. Raises DataError saying how to install it."""
    try:
        import reasoning_gym as package
    except ImportError as error:
        raise DataError(
            f"data=reasoning_gym needs the package 'reasoning-gym', which is not installed ({error}):"
            " pip install 'rlcore[reasoning-gym]'"
        ) from error
    return package


def reasoning_gym_answer(
    completion: str, question: str, target: Any, metadata: Mapping[str, Any], *, tagged: bool = False
) -> float:
    """Return the task's own grade of the completion, from 0 to 1; some tasks give a little for an answer that is none.

    `tagged` grades what the last `<answer>...</answer>` holds, and nothing else; otherwise the answer is the whole
    completion, without space around it. An answer that the task's rules stumble over is worth 0.

    Raises:
        Exception: whatever the rules raise, if they stumble over the row's own answer too.
    """
    answer: str | None = completion.strip()
    if tagged:
        _, opened, rest = completion.rpartition("<answer>")
        body, closed, _ = rest.partition("</answer>")
        answer = body.strip() if opened and closed else None
    entry = {"question": question, "answer": target, "metadata": dict(metadata)}
    grade = scorer(metadata["source_dataset"])
    try:
        return float(grade(answer, entry))
    except Exception:  # noqa: BLE001 - the rules read what a policy wrote, in a hundred ways
        grade(str(target), entry)
        return 0.0


@functools.lru_cache(maxsize=128)
def scorer(task: str) -> Callable[[str | None, dict[str, Any]], float]:
    """Return the task's own grading."""
    grade: Callable[[str | None, dict[str, Any]], float] = import_gym().get_score_answer_fn(task)
    return grade
