"""What is wrong is said before anything loads: what was asked, what was found, what is allowed, the nearest name."""

import math

import pytest

from rlcore import ConfigError, GraphError, RegistryError, RLCoreError, UnknownNameError
from rlcore.component import name_of
from rlcore.config.load import load
from rlcore.experiment import settings_of

SAID = [
    # unknown names, keys and options
    (["algorithm=dapoo"], UnknownNameError, "Did you mean 'dapo'"),
    (["algoritm=dapo"], ConfigError, "Did you mean algorithm"),
    (["sampling.temprature=1"], ConfigError, r"Did you mean sampling\.temperature"),
    (["temperature=1"], ConfigError, r"may stand as sampling\.temperature or eval\.temperature"),
    (["clip_low=0.1"], ConfigError, r"may stand as loss\.clip_low"),
    (["advantage.scale_by_sdt=true"], ConfigError, "Did you mean 'scale_by_std'"),
    (["algorithm.group_sise=4"], ConfigError, "Did you mean 'group_size'"),
    (["data.pth=x"], ConfigError, "Did you mean 'path'"),
    (["hydra.run.dir=x"], ConfigError, "count only in a sweep: add -m"),
    (["hydra.launcher.n_jobs=2"], ConfigError, "count only in a sweep: add -m"),
    (["sweep.metric=score_after"], ConfigError, "no effect: it counts only in a sweep"),
    (["sampling.temperature.high=1"], ConfigError, "no setting 'temperature.high'"),
    (["algorithm.loss=clipped"], ConfigError, "chosen by loss=NAME"),
    (["reward=numeric_answers"], UnknownNameError, "Did you mean 'numeric_answer'"),
    (["tracker=wand"], UnknownNameError, "Did you mean 'wandb'"),
    (["tracker=console,jsonl"], ConfigError, r"tracker=\[console,jsonl\]"),
    # signs
    (["+steps=3"], ConfigError, "exists already; drop the +"),
    (["++loss.clip_lo=0.1"], ConfigError, "Did you mean loss.clip_low|Did you mean 'clip_low'"),
    (["++stepz=3"], ConfigError, "Did you mean steps"),
    (["+loss.clip_lo=0.1"], ConfigError, "Did you mean loss.clip_low|Did you mean 'clip_low'"),
    (["~filter"], ConfigError, "filter=null"),
    (["~loss.clip_low"], ConfigError, "cannot be taken away"),
    # options of what is not there
    (
        ["algorithm=dapo", "loss=policy_gradient", "algorithm.clip_low=0.3"],
        ConfigError,
        "no effect.*loss=policy_gradient replaces",
    ),
    (
        ["loss=policy_gradient", "loss.clip_low=0.3"],
        ConfigError,
        "'clip_low' is an option of clipped, which loss=policy_gradient replaces",
    ),
    (["filter.x=1"], ConfigError, "there is no filter; choose one first"),
    # settings without effect
    (["kl=k3"], ConfigError, r"algorithm\.kl_coefficient is 0"),
    (["kl=null", "algorithm.kl_coefficient=0.1"], ConfigError, "no effect without kl"),
    (["kl_in_reward=k1"], ConfigError, "kl_in_reward_coefficient is 0"),
    (["algorithm.kl_in_reward_coefficient=0.1"], ConfigError, "no effect without kl_in_reward"),
    (["value_loss=value_clipped"], ConfigError, "no effect"),
    (["algorithm.critic_warmup=3"], ConfigError, "no critic"),
    (["roles.critic.learning_rate=0.1"], ConfigError, "roles.critic: the graph has no such role"),
    (
        ["algorithm=ppo", "algorithm.value_clip=0.3", "advantage=[reward_to_go,whiten]"],
        ConfigError,
        "value_clip.*no effect",
    ),
    (["warm_start.rows=3"], ConfigError, "warm_start.epochs is 0"),
    (["eval.greedy=true", "eval.temperature=0.5"], ConfigError, "no effect with eval.greedy"),
    # types and ranges
    (["steps=3.5"], ConfigError, "expected a whole number"),
    (["steps=three"], ConfigError, "expected a whole number"),
    (["steps=0"], ConfigError, "greater than or equal to 1"),
    (["seed=true"], ConfigError, "expected a whole number, found true"),
    (["learning_rate=nan"], ConfigError, "learning_rate=nan"),
    (["loss.clip_low=inf"], ConfigError, "finite"),
    (["optimizer.betas=[0.9,1.0]"], ConfigError, "optimizer.betas.*less than 1"),
    (["optimizer.betas=[-0.1,0.9]"], ConfigError, "optimizer.betas.*greater than or equal to 0"),
    (["optimizer.betas=[.nan,0.9]"], ConfigError, "optimizer.betas.*"),
    (['sampling.stop=[""]'], ConfigError, "sampling.stop.*an empty one"),
    (['reflection_phrases=["wait",""]'], ConfigError, "reflection_phrases.*an empty one"),
    (["loss.clip_low=x"], ConfigError, "expected a number"),
    (["sampling.temperature=0"], ConfigError, "greater than 0"),
    (["data.split=tran"], ConfigError, "Did you mean 'train'"),
    (["device=gpu"], ConfigError, "expected one of auto, cpu, cuda, mps"),
    (["prompts=" + "9" * 5000], ConfigError, "expected a whole number"),
    (["seed=" + "9" * 30], ConfigError, "too large"),
    (["sampling=3"], ConfigError, "section of settings"),
    (["loss.clip_low.x=3"], ConfigError, "nothing inside"),
    # form
    (["steps"], ConfigError, "no value"),
    (["=3"], ConfigError, "form key=value"),
    (["--steps=3"], ConfigError, "form key=value"),
    (["advantage=[gae,"], ConfigError, "cannot be read"),
    (["loss=[clipped,nll]"], ConfigError, "expected one name"),
    (["algorithm=[grpo,dapo]"], ConfigError, "exactly one algorithm"),
    (["reward="], ConfigError, "reward= is missing"),
    (["algorithm=.:a"], RegistryError, "cannot be loaded"),
    (["algorithm=verl-0.9/grpo", "algorithm.gamma=0.5"], ConfigError, "gamma=0.5 has no effect"),
    (["correction=[truncated,icepp]"], UnknownNameError, "Did you mean 'icepop'"),
    (["advantage=reward_to_go", "advantage.gamma=1.5"], ConfigError, "advantage.gamma=1.5: .*less than or equal to 1"),
    (["algorithm=ppo", "algorithm.gamma=-0.1"], ConfigError, "gamma=-0.1.*greater than or equal to 0"),
    (["algorithm=ppo", "algorithm.lam=1.01"], ConfigError, "lam=1.01.*less than or equal to 1"),
    (["algorithm=prime", "advantage.gamma=2"], ConfigError, "advantage.gamma=2: .*less than or equal to 1"),
    (["algorithm=verl-0.9/grpo", "algorithm.n=1"], ConfigError, "n=1 with adv_estimator=grpo.*compares.*at least 2"),
    (["roles.sampler.exec=process"], ConfigError, "roles.sampler.exec: no such setting; a role has: .*execution"),
    (["limits.max_turns=3"], ConfigError, "limits.max_turns=3 has no effect: an episode of SingleTurn has a single"),
    (["limits.turn_seconds=0"], ConfigError, "greater than 0"),
    (["limits.max_turns=0"], ConfigError, "greater than"),
    (["limits.when_underfilled=skip"], ConfigError, "limits.when_underfilled=skip has no effect: .* no filter"),
    (["algorithm=dapo", "limits.when_underfilled=go"], ConfigError, "error, skip, train|'error', 'skip' or 'train'"),
    # parts and sizes that do not fit
    (["prompts=10", "algorithm.minibatches=4"], ConfigError, "prompts=10.*minibatches=4"),
    (["advantage=gae"], ConfigError, "nothing would train the critic; set value_loss"),
    (["steps=3", "epochs=1"], ConfigError, "one length"),
    (["resume=x", "start_from=y"], RLCoreError, "names no run"),
]


@pytest.mark.parametrize(
    ("overrides", "kind", "said"), SAID, ids=lambda value: "_".join(value)[:60] if isinstance(value, list) else ""
)
def test_bad_input_is_named(experiment, overrides, kind, said):
    with pytest.raises(kind, match=f"(?s){said}"):
        experiment(*overrides)


@pytest.mark.parametrize(
    "values",
    [
        {"learning_rate": math.nan},
        {"learning_rate": "nan"},
        {"steps": math.nan},
        {"sampling": {"temperature": math.inf}},
        {"training": {"max_grad_norm": math.nan}},
    ],
)
def test_a_setting_of_python_that_is_not_finite_is_named_as_that(values):
    with pytest.raises(ConfigError, match="not finite; expected a finite number"):
        settings_of({"model": "m", **values})


def test_all_that_is_missing_is_named_at_once_with_the_packaged_model_and_the_default_run(tmp_path):
    (tmp_path / "few.yaml").write_text("steps: 3\n")
    said = "(?s)model= is missing: .*tiny_countdown.*data= is missing: .*countdown.*reward= is missing.*`rlcore train`"
    with pytest.raises(ConfigError, match=said):
        load([], tmp_path / "few.yaml")


def test_several_rewards_are_told_how_to_be_one(experiment, tmp_path):
    how = r"to combine several: reward=\{name: weighted, components: \{acc: "
    with pytest.raises(ConfigError, match=rf"reward=\[math,f.py:acc\]: a run has exactly one reward; {how}"):
        experiment("reward=[math,f.py:acc]")
    (tmp_path / "two.yaml").write_text("model: m\ndata: svamp\nreward: {acc: f.py:acc, m: math}\n")
    with pytest.raises(ConfigError, match=f"reward has acc, m and no name; {how}"):
        load([], tmp_path / "two.yaml")


def test_every_wrong_setting_is_named_at_once(experiment):
    with pytest.raises(ConfigError) as caught:
        experiment("advantage.scal_by_std=false", "loss.clp=1", "prompst=3", "eval.evry=2")
    lines = str(caught.value).splitlines()
    assert lines[0] == "4 settings are wrong:"
    for line, (key, near) in zip(lines[1:], [("prompst", "prompts"), ("eval.evry", "eval.every"),
                                             ("advantage.scal_by_std", "scale_by_std"), ("loss.clp", "clip")],
                                 strict=True):  # fmt: skip
        assert line.startswith(f"{key}: ")
        assert near in line


def test_a_missing_half_is_named():
    with pytest.raises(ConfigError, match="data= is missing"):
        load(["model=x"])
    with pytest.raises(ConfigError, match="model= is missing"):
        load(["data=svamp"])
    with pytest.raises(ConfigError, match="reward= is missing"):
        load(["data=svamp", "model=x"])
    assert load(["algorithm=sft", "data=svamp", "model=x"]).reward is None


def test_a_parameter_that_is_no_column(experiment, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def mine(rewards, group):\n    return rewards\n")
    with pytest.raises(RLCoreError, match=r"'rewards', which is no column.* Did you mean 'reward'"):
        experiment(f"advantage={file}:mine")


def test_a_loss_that_reads_what_nothing_gives(experiment, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def mine(logprob, teacher_logprob, mask):\n    return logprob\n")
    with pytest.raises(RLCoreError, match="teacher_logprob"):
        experiment(f"loss={file}:mine")
    other = tmp_path / "other.py"
    other.write_text("def mine(logprob, returns, mask):\n    return logprob * returns\n")
    with pytest.raises(GraphError, match=r"reads 'returns'.*no node writes it; it comes from"):
        experiment(f"loss={other}:mine")


def test_a_file_that_is_not_there_or_not_yaml(tmp_path):
    (tmp_path / "run.yaml").write_text("steps: [1\n")
    with pytest.raises(ConfigError, match=r"is not YAML: line 2"):
        load([], tmp_path / "run.yaml")
    with pytest.raises(ConfigError, match=r"Did you mean 'run.yaml'"):
        load([], tmp_path / "rum.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        load([], tmp_path)
    (tmp_path / "run.yaml").write_text("- 1\n")
    with pytest.raises(ConfigError, match="expected `key: value` lines"):
        load([], tmp_path / "run.yaml")
    (tmp_path / "run.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load([], tmp_path / "run.yaml")
    (tmp_path / "run.yaml").write_text("steps: 1\nsteps: 2\n")
    with pytest.raises(ConfigError, match="'steps' stands twice"):
        load([], tmp_path / "run.yaml")


def test_b97_a_name_of_two_owners_is_refused_and_either_can_be_had(install, experiment):
    def mine(reward, group):
        """One."""
        return reward

    def other(reward, group):
        """Another."""
        return reward * 2

    install("acme", {("advantage", "shared"): mine})
    install("acme", {("advantage", "shared"): mine})
    assert experiment("advantage=shared").algorithm.advantage is mine, "the same thing twice is one thing"
    install("umbrella", {("advantage", "shared"): other})
    with pytest.raises(RegistryError, match="acme 1.0 and umbrella 1.0"):
        experiment("advantage=shared")
    assert experiment("advantage=umbrella:shared").algorithm.advantage is other
    assert experiment("advantage=acme:shared").resolved["advantage"]["name"] == "acme:shared"


def test_b98_a_broken_plugin_takes_nothing_with_it_and_its_reason_is_told(install, experiment):
    install("broken", {}, fails=ImportError("no module named 'gone'"))
    assert experiment("advantage=leave_one_out")
    with pytest.raises(UnknownNameError, match="plugin broken .* is out: ImportError: no module named 'gone'"):
        experiment("advantage=theirs")


def test_b100_a_typo_is_refused_in_every_spelling(experiment):
    for typo in ("training.token_budgt=3", "+training.token_budgt=3", "++trainig.token_budget=3"):
        with pytest.raises(ConfigError, match="token_budget"):
            experiment(typo)
    with pytest.raises(ConfigError, match="whole number"):
        experiment("training.token_budget=3.5")
    assert [name_of(one) for one in experiment("tracker=wandb").services["tracker"]] == ["WandB"]


def test_b101_a_plus_on_an_existing_key_says_so_and_on_a_missing_one_where_it_may_stand(experiment):
    with pytest.raises(ConfigError, match=r"training\.token_budget exists already; drop the \+"):
        experiment("+training.token_budget=3")
    with pytest.raises(ConfigError, match=r"may stand as training\.token_budget"):
        experiment("+token_budget=3")


def test_a_resumed_run_may_change_only_what_is_resumable(experiment, tmp_path):
    from rlcore.config import to_yaml

    (tmp_path / "config.yaml").write_text(to_yaml(experiment("steps=5", "algorithm=dapo").resolved))
    again = load([f"resume={tmp_path}", "steps=9", "eval.every=2"])
    assert (again.settings.steps, again.algorithm.name) == (9, "dapo")
    for override in ("algorithm=grpo", "learning_rate=1", "loss.clip_low=0.1", "prompts=3"):
        with pytest.raises(ConfigError, match="cannot be changed in a resumed run"):
            load([f"resume={tmp_path}", override])
    new = load([f"start_from={tmp_path}@3", "algorithm=rloo"])
    assert (new.algorithm.name, new.settings.start_from, new.settings.steps) == ("rloo", f"{tmp_path}@3", 5)
