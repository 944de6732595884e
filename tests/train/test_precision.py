import pytest
import torch

from rlcore.errors import ConfigError
from rlcore.train.precision import choose_precision, choose_token_budget, fast_bfloat16
from tests.tiny import tiny_config


def test_auto_takes_bfloat16_exactly_where_it_is_fast():
    device = torch.device("cpu")
    assert choose_precision("auto", device) == ("bfloat16" if fast_bfloat16(device) else "float32")
    assert choose_precision("auto", torch.device("meta")) == "float32"
    assert choose_precision("float32", device) == "float32"
    assert choose_precision("bfloat16", device) == "bfloat16"


def test_unknown_names_get_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'bfloat16'"):
        choose_precision("bfloat", torch.device("cpu"))


def test_larger_models_get_smaller_microbatches():
    small = choose_token_budget(tiny_config("qwen3"))
    large = choose_token_budget(tiny_config("qwen3", hidden_size=576, intermediate_size=1536, num_hidden_layers=30))
    assert small == 16384
    assert 2048 <= large < 4096
