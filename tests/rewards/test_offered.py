import rlcore_answers
import rlcore_envs
import rlcore_rewards
import rlcore_sandbox
from rlcore import registry
from rlcore.registry import Plugin, Registry


def test_rewards_environments_and_data_sets_come_in_by_the_hook():
    made = Registry()
    for module in (rlcore_rewards, rlcore_answers, rlcore_sandbox, rlcore_envs):
        made.load(Plugin(module.__name__, module.__name__, "rlcore", "0"), lambda module=module: module)
    assert [plugin.reason for plugin in made.plugins] == [""] * 4
    assert {"numeric_answer", "exact_answer", "think_answer", "math", "countdown", "code"} <= set(made.names("reward"))
    assert made.names("reward_manager") == ["default"]
    assert "single_turn" in made.names("environment")
    assert {"file", "gsm8k", "svamp"} <= set(made.names("dataset"))
    for kind in ("reward_manager", "environment"):
        assert callable(made.get(kind, made.names(kind)[0]))
    for name in ("file", "gsm8k", "svamp"):
        assert registry.resolve(made.entry("dataset", name).thing) is made.get("dataset", name)
