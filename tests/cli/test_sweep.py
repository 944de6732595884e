"""Sweeps: several runs of one command, each a whole run folder, and one list of them."""

import json
import logging
import sys
from pathlib import Path

import pytest

TASK = Path(__file__).parents[1] / "bench/sums.py"
SIZES = (f"data={TASK}:sums", "data.held_out=2", "data.count=8", f"reward={TASK}:is_sum", "steps=1",
         "prompts=2", "algorithm.group_size=2", "max_new_tokens=2", "tracker=null")  # fmt: skip

MINE = '''
def digits(completion):
    """The share of digits."""
    return sum(c.isdigit() for c in completion) / max(len(completion), 1)

def broken(logprob, mask):
    """A loss that nobody can take a gradient of once a real policy is asked."""
    if not bool((logprob[mask] == -0.5).all()):
        raise RuntimeError("no such luck")
    return logprob
'''


@pytest.fixture
def sweep(model, tmp_path, rlcore):
    """Trains a sweep of tiny runs; returns status, output, errors and the list of its runs."""

    def run(*words, resume=False):
        name = f"resume={tmp_path}/runs/s" if resume else "run.name=s"
        found = rlcore("train", "-m", f"model={model}", *SIZES, f"run.folder={tmp_path}/runs", name, *words)
        file = tmp_path / "runs" / "s" / "sweep.json"
        return *found, json.loads(file.read_text())["runs"] if file.is_file() else None

    return run


def test_one_that_fails_stops_no_other_and_the_same_command_finishes_what_is_missing(sweep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    handlers = list(logging.getLogger().handlers)
    words = (f"loss={tmp_path}/mine.py:broken,clipped",)
    status, out, _, runs = sweep(*words)
    assert status == 1
    assert [run["status"] for run in runs] == [1, 0]
    assert "no such luck" in runs[0]["error"]
    assert runs[1]["overrides"] == ["loss=clipped"]
    done = tmp_path / "runs" / "s" / runs[1]["folder"]
    assert runs[1]["folder"] == "1_loss=clipped"
    assert {"config.yaml", "resolved.yaml", "rollouts.jsonl", "model", "summary.json"} <= {
        p.name for p in done.iterdir()
    }
    assert runs[1]["summary"]["steps"] == 1
    heading, failed, trained, file = out.splitlines()
    assert (heading.split(), trained.split()[:2]) == (
        ["run", "overrides", "success", "after"],
        ["1_loss=clipped", "loss=clipped"],
    )
    assert trained.index("  loss=") + 2 == heading.index("overrides") == failed.index("  loss=") + 2
    assert file == f"sweep: {tmp_path}/runs/s/sweep.json"
    before = (done / "rollouts.jsonl").stat().st_mtime_ns
    (tmp_path / "mine.py").write_text(MINE.replace("raise", "pass #"))
    for module in [name for name in sys.modules if name.startswith("rlcore_file_mine")]:
        del sys.modules[module]
    status, _, _, runs = sweep(*words, resume=True)
    assert (status, [run["status"] for run in runs]) == (0, [0, 0])
    assert (done / "rollouts.jsonl").stat().st_mtime_ns == before, "what was whole is left alone"
    assert Path.cwd() == tmp_path
    assert logging.getLogger().handlers == handlers
    assert not {".hydra", "outputs", "multirun"} & {p.name for p in tmp_path.iterdir()}


def test_all_runs_of_a_grid_are_bound_before_the_first_trains(sweep, tmp_path):
    status, _, err, runs = sweep("algorithm=grpo,dapoo", "advantage.epsilon=0.1,x")
    assert (status, runs) == (1, None)
    assert "3 of 4 runs of the sweep cannot be trained; none was begun" in err
    assert "Did you mean 'dapo'" in err
    assert "expected a number" in err
    assert not (tmp_path / "runs").exists()


def test_a_grid_is_checked_without_training(model, rlcore, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("check", "-m", f"model={model}", *SIZES)
    status, out, _ = rlcore(*words, "advantage=leave_one_out,[group_norm,whiten]", "seed=1,2")
    assert status == 0
    assert [line.split("  ")[1] for line in out.splitlines()] == [
        f"advantage={name} seed={seed}" for name in ("leave_one_out", '["group_norm", "whiten"]') for seed in (1, 2)
    ]
    status, out, err = rlcore(*words, "algorithm=grpo,rloo", "algorithm.group_size=1,2")
    assert (status, out) == (1, "")
    assert "2 of 4 runs of the sweep cannot be trained" in err
    assert "group_size must be at least 2" in err
    status, _, err = rlcore(*words, "hydra/sweeper=optuna", "learning_rate=interval(1e-6,1e-3)")
    assert (status, "check one run without -m" in err) == (1, True)
    assert not list(tmp_path.iterdir())


def test_a_metric_that_no_run_has_is_named(sweep):
    status, _, _, runs = sweep("seed=1", "sweep.metric=succes_after")
    assert status == 1
    assert "Did you mean 'success_after'" in runs[0]["error"]


@pytest.mark.slow
def test_two_algorithms_by_three_seeds_with_joblib(sweep, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    status, _, err, runs = sweep(
        "algorithm=grpo,rloo", "seed=1,2,3", f"reward={tmp_path}/mine.py:digits",
        "hydra/launcher=joblib", "hydra.launcher.n_jobs=2",
    )  # fmt: skip
    assert status == 0, (err, runs)
    assert {tuple(run["overrides"]) for run in runs} == {
        (f"algorithm={name}", f"seed={seed}") for name in ("grpo", "rloo") for seed in (1, 2, 3)
    }
    assert len({run["folder"] for run in runs}) == 6


@pytest.mark.slow
def test_optuna_searches(sweep, tmp_path):
    status, _, err, runs = sweep(
        "hydra/sweeper=optuna", "hydra.sweeper.n_trials=3", "hydra.sweeper.n_jobs=1", "hydra.sweeper.sampler.seed=1",
        "learning_rate=interval(1e-6,1e-3)", "sweep.metric=score_after",
    )  # fmt: skip
    assert (status, len(runs)) == (0, 3), (err, runs)
    results = (tmp_path / "runs" / "s" / "optimization_results.yaml").read_text()
    assert "learning_rate" in results


@pytest.mark.slow
def test_a_chain_with_options_in_two_links_and_a_reward_of_a_file_are_swept(sweep, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    chain = "[{name: group_norm, scale_by_std: false}, {name: whiten, epsilon: 0.1}]"
    status, _, err, runs = sweep(f"advantage=leave_one_out,{chain}", f"reward={tmp_path}/mine.py:digits,math")
    assert status == 0, (err, runs)
    assert len(runs) == 4
    kept = [(tmp_path / "runs" / "s" / run["folder"] / "resolved.yaml").read_text() for run in runs]
    assert sum("epsilon: 0.1" in text and "scale_by_std: false" in text for text in kept) == 2
