import json

from tests.bench.learning import main
from tests.tiny import save_tiny


def test_the_bench_prints_one_line_of_figures(capsys, tmp_path):
    sizes = ("--steps", "3", "--prompts", "2", "--group", "2", "--max-new", "3", "--eval", "0")
    status = main(["--model", str(save_tiny(tmp_path / "tiny")), *sizes, "algorithm=dr_grpo"])
    (line,) = capsys.readouterr().out.splitlines()
    figures = json.loads(line)
    assert status == 0
    wanted = "step_s_wall_median step_s_cpu_median per_step_s_[wall,cpu] tokens_per_step gen_tok_s_[wall,cpu]"
    wanted += " end_to_end_tok_s_[wall,cpu] reward_first reward_last reward_curve peak_rss_mib"
    assert set(wanted.split()) <= figures.keys()
    assert (figures["algorithm"], figures["pass_before"], len(figures["reward_curve"])) == ("dr_grpo", None, 3)
    assert figures["per_step_s_[wall,cpu]"].keys() == {"generate", "logprob", "reward_and_glue", "update", "total"}
