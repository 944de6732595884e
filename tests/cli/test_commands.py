"""The command line, in this process: what it prints, where, and with which status."""

import gc
import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rlcore import Run, __version__
from rlcore.cli import COMMANDS, main
from rlcore.data import DrawnRows

TASK = Path(__file__).parents[1] / "bench/sums.py"
EXPERIMENT = ("model=m", "data=svamp", "reward=numeric_answer")


def test_no_argument_shows_help(rlcore):
    status, out, _ = rlcore()
    assert status == 0
    assert all(command in out for command in COMMANDS)


def test_the_version(rlcore):
    assert rlcore("--version")[:2] == (0, f"rlcore {__version__}\n")


@pytest.mark.parametrize("command", [*COMMANDS, "data"])
def test_every_command_has_help(rlcore, command):
    status, out, _ = rlcore(command, "--help")
    assert status == 0
    assert out.startswith(f"usage: rlcore {command}")


def test_a_package_may_bring_a_command(rlcore, monkeypatch, tmp_path):
    (tmp_path / "brought.py").write_text(
        '"""`rlcore greet`: greet whoever asks."""\n'
        "def add_arguments(parser):\n    parser.add_argument('name')\n"
        "def run(args):\n    print('hello', args.name)\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entries = {name: EntryPoint(name, f"{name}ght", "rlcore.commands") for name in ("brou", "brokenbrou")}
    monkeypatch.setattr("rlcore.cli.further_commands", lambda: entries)
    assert rlcore("brou", "you")[:2] == (3, "hello you\n")
    assert "greet whoever asks" in rlcore()[1]
    status, _, err = rlcore("brokenbrou")
    assert (status, "brokenbrought cannot be imported: ModuleNotFoundError" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["trian"], 2, "Did you mean 'train'"),
        (["train", "--jsn"], 2, "--jsn"),
        (["--nonsense"], 2, "--nonsense"),
        (["train", "foo"], 1, "neither a file"),
        (["train", "foo.yaml"], 1, "no file 'foo.yaml'"),
        (["graph", *EXPERIMENT, "algorithm=dapoo"], 1, "Did you mean 'dapo'"),
        (["check", *EXPERIMENT, "steps=3.5"], 1, "steps=3.5: expected a whole number"),
        (["check", *EXPERIMENT], 1, "model 'm' is no folder"),
        (["info", "gea"], 1, "Did you mean 'gae'"),
        (["check", *EXPERIMENT, "seed=1,2"], 1, "add -m"),
        (["train", "--resolve", *EXPERIMENT], 1, "--resolve has no effect without --cfg"),
        (["train", *EXPERIMENT, "--config-dir", "nowhere"], 1, "is no folder"),
        (["rollouts", "nowhere"], 1, "is no run"),
        (["eval", "."], 1, "is no run"),
        (["replay", "nowhere/step_1"], 1, "is no failed step"),
        (["sft", "model=m", "data=svamp", "algorithm=grpo"], 1, "short for `rlcore train algorithm=sft`"),
        (["model", "tiny_countdwn"], 1, "Did you mean 'tiny_countdown'"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_mistake_is_one_message_and_no_traceback(rlcore, words, status, said):
    got, out, err = rlcore(*words)
    assert (got, out) == (status, "")
    assert said in err
    assert "Traceback" not in err


def test_a_traceback_is_there_for_whoever_asks(monkeypatch):
    monkeypatch.setenv("RLCORE_TRACEBACK", "1")
    with pytest.raises(LookupError):
        main(["info", "gea"])


def test_plugins_are_listed_with_what_they_offer(rlcore):
    status, out, _ = rlcore("plugins", "--names")
    assert status == 0
    assert "algorithms" in out
    assert "rlcore_algorithms" in out
    assert "dapo" in out


def test_info_shows_reads_options_source_and_text(rlcore):
    _, out, _ = rlcore("info", "gae")
    for part in (
        "advantage gae",
        "reads: token_reward, value",
        "option lam = 1.0   (a number)",
        "gae.py:",
        "equation 16",
    ):
        assert part in out


def test_info_of_a_setting_says_its_default_its_type_and_what_it_means(rlcore):
    assert rlcore("info", "learning_rate")[1] == "setting learning_rate = 1e-06   (a number)\n"
    assert rlcore("info", "eval.data")[1].splitlines() == [
        "setting eval.data = null   (text or null)",
        "  A file, or the name of a split of the run's data set; None: its `heldout` split, if it has one.",
    ]


def test_info_of_every_setting(rlcore):
    from rlcore.config.keys import setting_keys

    for key in setting_keys():
        status, out, err = rlcore("info", key)
        assert (status, err) == (0, ""), key
        assert out.startswith(f"setting {key} = "), key


def test_info_answers_kinds_sections_and_options(rlcore):
    for name, lines in {
        "sampler": ("kind sampler: samples completions", "  chosen by sampler=NAME; default: embedded"),
        "value_loss": ("kind loss: ", "default: the algorithm's own; null switches it off"),
        "training": ("section training: ", "setting training.token_budget = 8192"),
        "reward_manager.seconds": ("option reward_manager.seconds of default = 60.0",),
        "algorithm.group_size": ("option algorithm.group_size of every algorithm = 8", "of dapo = 16"),
        "clip_high": ("option loss.clip_high of clipped = 0.2", "option algorithm.clip_high of dapo = 0.28"),
    }.items():
        status, out, _ = rlcore("info", name)
        assert status == 0, name
        for line in lines:
            assert line in out, name


def test_info_of_a_kind_shows_its_protocol_and_the_records_that_it_is_handed_and_returns(rlcore):
    for kind, lines in {
        "reward_manager": (
            "  protocol RewardManager   from rlcore.protocols",
            "    score(self, samples: Sequence[Sample]) -> list[Graded]   (must be written)",
            "        Return one grade per sample, in order.",
            "    close(self) -> None\n",
            "    failed: int = 0",
            "  record Sample   from rlcore.protocols",
            "    data: Mapping[str, Any]",
            "  record Graded   from rlcore.protocols",
            "    error: str | None = None",
        ),
        "sampler": ("  record Request ", "  record SamplingParams ", "    values: FINISHED = 0, LENGTH = 1"),
        "loss": ("  to write one: rows, 0 off the mask -> `[B, T]`", "    metrics: Mapping[str, MetricValue]"),
        "order": (
            "  protocol Order   from rlcore.data.order",
            "next(self, count: int) -> list[int]   (must be written)",
        ),
    }.items():
        out = rlcore("info", kind)[1]
        for line in lines:
            assert line in out, kind


def test_info_of_every_protocol_and_record_of_every_kind(rlcore):
    from rlcore import protocols
    from rlcore.kinds import KINDS

    for kind in KINDS.values():
        assert "\n  to write one: " in rlcore("info", kind.name)[1]
        if kind.protocol:
            name = kind.protocol.partition(":")[2]
            assert rlcore("info", name)[1].startswith(f"protocol {name} ")
    for name in ("Sample", "Graded", "Completion", "LossOutput", "Stop", "Update"):
        status, out, err = rlcore("info", name)
        assert (status, err) == (0, "")
        assert out.startswith(f"record {name} ")
        for field in getattr(getattr(protocols, name), "__annotations__", ()):
            assert f"\n  {field}: " in out
    assert "Did you mean 'Graded'" in rlcore("info", "graded_")[2] + rlcore("info", "Graded_")[2]


def test_info_of_nothing_names_at_most_five_near_ones(rlcore):
    for name in ("clip_hihg", "loss_", "xyzzy"):
        status, out, err = rlcore("info", name)
        assert (status, out) == (1, "")
        assert len(err) < 400
        near = re.search(r"Near it: (.*?)\.(?: |$)", err)
        assert near is None or len(near[1].split(", ")) <= 5


def test_info_alone_is_an_overview_with_all_settings(rlcore):
    from rlcore.config.keys import setting_keys

    out = rlcore("info")[1]
    assert "loss: gives a loss per token" in out
    assert all(f"  {key} = " in out for key in setting_keys())


def test_the_configuration_is_printed_as_it_was_said_and_as_the_run_will_use_it(rlcore):
    import yaml

    said = yaml.safe_load(rlcore("train", "--cfg", "job", *EXPERIMENT, "loss.clip_low=0.1")[1])
    assert (said["loss"], said["steps"], said["algorithm"]) == ({"clip_low": 0.1}, None, {"name": "grpo"})
    whole = yaml.safe_load(rlcore("graph", "--cfg", "job", "--resolve", *EXPERIMENT, "loss.clip_low=0.1")[1])
    assert (whole["loss"]["clip_low"], whole["loss"]["clip_high"]) == (0.1, 0.2)
    assert "launcher" in yaml.safe_load(rlcore("train", "--cfg", "hydra", *EXPERIMENT)[1])["hydra"]


def test_info_names_the_paper_whose_equation_a_part_is(rlcore):
    for name, paper in (
        ("token_mean", "paper: Yu et al. 2025, DAPO, arXiv:2503.14476, equation 12"),
        ("k3", "paper: Schulman 2020, joschu.net/blog/kl-approx.html"),
        ("verl-0.9/grpo", None),
        ("nll", None),
    ):
        lines = [line.strip() for line in rlcore("info", name)[1].splitlines()]
        assert [line for line in lines if line.startswith("paper:")] == ([paper] if paper else [])


def test_every_mathematical_part_that_speaks_of_an_equation_names_its_paper():
    from rlcore.cli.info import paper_of
    from rlcore.component import source_of
    from rlcore.kinds import KINDS
    from rlcore.registry import registry

    for kind in (name for name, kind in KINDS.items() if kind.form == "component"):
        for entry in registry().entries(kind):
            source = source_of(registry().get(kind, entry.name))
            if re.search(r"Source: (as written in )?(equation|section|algorithm)", source.__doc__ or ""):
                assert paper_of(source), entry.name


def test_info_of_everything_registered(rlcore):
    from rlcore.registry import registry

    for entry in registry().entries():
        if entry.kind not in ("tracker", "trainer"):
            assert rlcore("info", entry.name, "--kind", entry.kind)[0] == 0


def test_info_of_a_function_in_a_file(rlcore, tmp_path):
    (tmp_path / "mine.py").write_text('def mine(completion, target, *, part: float = 0.5):\n    """Half."""\n')
    _, out, _ = rlcore("info", f"{tmp_path}/mine.py:mine")
    assert "reads: completion, target" in out
    assert "option part = 0.5" in out


def test_the_graph_is_printed_before_anything_loads(rlcore):
    _, out, _ = rlcore("graph", *EXPERIMENT, "algorithm=ppo")
    assert "loads: critic, sampler, trainer" in out
    assert rlcore("graph", *EXPERIMENT, "--mermaid", "algorithm=ppo")[1].startswith("flowchart TD")


def test_check_says_what_it_found(rlcore, model):
    words = (f"data={TASK}:sums", f"reward={TASK}:is_sum", "steps=3", "max_new_tokens=8")
    status, out, err = rlcore("check", f"model={model}", *words)
    assert (status, err) == (0, "")
    assert "1024 rows to train on, 512 held out" in out
    assert "max_new_tokens: 8\n" in out, "the configuration as the run will use it"
    assert out.endswith("ok\n")


def test_check_draws_no_more_rows_than_the_run_would_use(rlcore, monkeypatch):
    drawn = []
    draw = DrawnRows._draw
    monkeypatch.setattr(DrawnRows, "_draw", lambda rows: drawn.append(1) or draw(rows))
    assert "128 rows to train on, 16 held out" in rlcore("check", "data.rows=128", "eval.limit=16")[1]
    assert len(drawn) == 128 + 16


def test_check_looks_for_no_garbage_and_leaves_the_collector_on(rlcore, monkeypatch):
    collects = []
    check = Run.check
    monkeypatch.setattr(Run, "check", lambda run: collects.append(gc.isenabled()) or check(run))
    assert rlcore("check", "data.rows=128", "eval.limit=16")[0] == 0
    assert collects == [False]
    assert gc.isenabled()


MESSAGES = '{"prompt": [{"role": "user", "content": "1+1="}], "target": "2"}\n'


@pytest.mark.parametrize("packaged", [False, True])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("data.path={}/messages.jsonl",), "a prompt of messages needs a chat template"),
        (("data.path={}/texts.jsonl", "max_new_tokens=9000"), "max_new_tokens=9000 make .* more than the model's"),
        (("data.path={}/texts.jsonl", "max_prompt_tokens=2"), "no prompt is left: all 1"),
    ],
    ids=["messages", "room", "length"],
)
def test_check_refuses_what_train_refuses_without_reading_weights(rlcore, model, tmp_path, words, said, packaged):
    import shutil

    (tmp_path / "messages.jsonl").write_text(MESSAGES)
    (tmp_path / "texts.jsonl").write_text('{"prompt": "1+1=2+", "target": "2"}\n')
    bare = tmp_path / "model"
    shutil.copytree(model, bare)
    (bare / "model.safetensors").unlink()
    place = "tiny_countdown" if packaged else bare
    rest = ("prompts=1", "data=file", "reward=math", "steps=1", f"run.folder={tmp_path}/runs")
    words = (f"model={place}", *rest, *(word.format(tmp_path) for word in words))
    status, out, err = rlcore("check", *words)
    assert (status, out) == (1, "")
    assert re.search(said, err)
    if packaged:
        trained = rlcore("train", *words, "--quiet")[2]
        assert trained.replace("rlcore train", "") == err.replace("rlcore check", "")


def test_check_says_what_it_cannot_try_where_the_model_is_elsewhere(rlcore):
    out = rlcore("check", "model=hf:nobody/nothing", "data=countdown", "reward=expression_answer")[1]
    assert "not tried: chat template and prompt lengths (the model is not on this machine)" in out
    assert "hf:nobody/nothing (fetched at first use)" in out
    assert "not tried" not in rlcore("check")[1]


def test_training_ends_with_its_summary(rlcore, model, tmp_path):
    sizes = (
        "steps=1",
        "prompts=2",
        "algorithm.group_size=2",
        "max_new_tokens=2",
        f"run.folder={tmp_path}",
        "tracker=[]",
    )
    sums = (f"data={TASK}:sums", "data.held_out=4", f"reward={TASK}:is_sum")
    status, out, _ = rlcore("train", f"model={model}", *sums, "--json", *sizes, "--quiet")
    lines = out.splitlines()
    summary = json.loads(lines[-1])
    assert status == 0
    assert summary.keys() >= {"success_before", "success_after", "seconds", "cpu_seconds", "steps", "run"}
    assert lines[0].startswith("success on held-out problems")
    assert f"run: {summary['run']}" in lines
    assert "advantage=leave_one_out" in out
    assert "rlcore eval" in out
    # What the run has already, or cannot do, is not worth trying.
    apart = ("data.held_out=0", "advantage=leave_one_out", "--quiet", *sizes)
    out = rlcore("train", f"model={model}", *sums[::2], *apart)[1]
    assert "rlcore rollouts" in out
    assert "advantage=leave_one_out" not in out
    assert "rlcore eval" not in out


def test_a_run_is_read_evaluated_checked_and_resumed(rlcore, trained):
    _, out, _ = rlcore("rollouts", trained, "--worst", "--count", "2")
    assert out.count("--- score") == 2
    assert "2 of 4 samples of step 2" in out
    assert "4 samples of step 1" in rlcore("rollouts", trained, "--step", "1")[1]
    assert "it has: steps 1 to 2" in rlcore("rollouts", trained, "--step", "9")[2]
    status, out, _ = rlcore("eval", trained, "eval.samples=2", "--json")
    assert status == 0
    assert json.loads(out.splitlines()[-1])["samples"] == 8
    assert rlcore("check", f"{trained}/config.yaml")[1].endswith("ok\n")
    assert "cannot be changed in a resumed run" in rlcore("train", f"resume={trained}", "prompts=4")[2]
    _, out, err = rlcore("train", f"resume={trained}")
    assert f"all of its 2 steps; to train on, type: rlcore train resume={trained} steps=4" in err
    assert "run.name=another" in out
    status, _, err = rlcore("train", f"resume={trained}", "steps=3")
    assert (status, "1 step to go" in err, "to train on" in err) == (0, True, False)


def test_equal_scores_are_not_sorted_in_silence(rlcore, tmp_path):
    (tmp_path / "config.yaml").write_text("")
    for scores, equal in (([0.0, 0.0, None], True), ([0.0, 0.5, 0.0], False), ([0.0], False)):
        rows = [{"step": 1, "prompt": "a", "completion": "b", "score": score} for score in scores]
        (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for word in ("--worst", "--best"):
            line = f"every scored sample of this step has the score 0.000: {word} has nothing to sort"
            assert (line in rlcore("rollouts", tmp_path, word)[1]) is equal
        assert "nothing to sort" not in rlcore("rollouts", tmp_path)[1]


def test_supervised_training_writes_a_model(rlcore, model, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{i}+1=", "completion": str(i + 1)}) + "\n" for i in range(8)))
    where = ("data=file", f"data.path={rows}", f"run.folder={tmp_path}/runs", "run.name=s")
    status, _, _ = rlcore("sft", f"model={model}", *where, "epochs=2", "prompts=4", "--json")
    assert status == 0
    assert (tmp_path / "runs/s/model/config.json").is_file()


BAD = '''
from rlcore_algorithms.losses import clipped

def bad(logprob, old_logprob, advantage, mask):
    """A loss that is no number once a real policy is asked: a dry step's says -0.5 of everything."""
    loss = clipped(logprob, old_logprob, advantage, mask).loss
    return loss if bool((logprob[mask] == -0.5).all()) else loss / 0 * 0

def steep(logprob, old_logprob, advantage, mask):
    """A loss of 0 that is infinitely steep."""
    return (logprob - logprob.detach()).sqrt()
'''


@pytest.mark.parametrize(
    ("loss", "said"),
    [("bad", "loss bad is not finite in row 0"), ("steep", "the gradient of loss steep is not finite")],
)
def test_a_failed_step_is_replayed_and_its_component_named(rlcore, model, tmp_path, loss, said):
    (tmp_path / "mine.py").write_text(BAD)
    sizes = (
        "steps=2",
        "prompts=2",
        "algorithm.group_size=2",
        "max_new_tokens=2",
        f"run.folder={tmp_path}",
        "run.name=r",
    )
    sums = (f"data={TASK}:sums", "data.split=all", f"reward={TASK}:is_sum", "tracker=[]")
    rlcore("train", f"model={model}", *sums, f"loss={tmp_path}/mine.py:{loss}", *sizes, "--quiet")
    (failed,) = sorted((tmp_path / "r" / "failed").glob("step_0"))
    assert "columns: " in rlcore("replay", failed)[1]
    status, out, _ = rlcore("replay", failed, "--check")
    assert status == 1
    assert said in out


def test_what_a_model_wrote_does_not_steer_the_terminal(rlcore, tmp_path):
    (tmp_path / "config.yaml").write_text("")
    row = {"step": 1, "prompt": "a\nb", "completion": "\x1b[2Jgone\r\u202e", "score": 1.0}
    (tmp_path / "rollouts.jsonl").write_text(json.dumps(row) + "\n")
    status, out, err = rlcore("rollouts", str(tmp_path))
    assert (status, err) == (0, "")
    assert "prompt:\n  a\n  b" in out
    assert "completion: \\x1b[2Jgone\\r\\u202e" in out


def test_a_line_of_help_imports_no_torch():
    import subprocess
    import sys

    code = "import sys; from rlcore.cli import main; main([]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
