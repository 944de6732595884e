from concurrent.futures import ThreadPoolExecutor


def scores(reward, rows, completions):
    def one(row, completion):
        return reward(completion, **row)["score"]

    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(one, rows, completions))


def test_every_canonical_solution_scores_one_and_an_empty_body_nothing(grade, humaneval):
    reward = grade()
    assert len(humaneval) == 164
    right = scores(reward, humaneval, [row["canonical_solution"] for row in humaneval])
    wrong = scores(reward, humaneval, ["    pass\n"] * len(humaneval))
    assert [row["task_id"] for row, score in zip(humaneval, right, strict=True) if score != 1.0] == []
    assert [row["task_id"] for row, score in zip(humaneval, wrong, strict=True) if score != 0.0] == []


def test_a_whole_function_in_a_fenced_block_counts_as_the_continuation_does(grade, humaneval):
    # 32, 38 and 50 are tested with a function that only the prompt defines.
    rows = [humaneval[number] for number in (0, 32, 38, 50)]
    whole = [row["prompt"][row["prompt"].rindex(f"def {row['entry_point']}") :] for row in rows]
    completions = [
        f"It is this:\n```python\n{head}{row['canonical_solution']}```\nDone."
        for head, row in zip(whole, rows, strict=True)
    ]
    assert scores(grade(), rows, completions) == [1.0] * 4


def test_the_prompts_code_is_found_in_a_conversation(grade, humaneval):
    row = humaneval[32]
    asked = {"role": "user", "content": f"Complete this function.\n```python\n{row['prompt']}```\nBe brief."}
    reward = grade()
    given = {"test": row["test"], "entry_point": row["entry_point"], "prompt": "<user>...", "messages": [asked]}
    assert reward(f"```python\n{row['prompt']}{row['canonical_solution']}\n```", **given)["score"] == 1.0
    assert reward(row["canonical_solution"], **given)["score"] == 1.0
