"""Where text becomes ids and ids text: what was sampled stays as it was drawn, over every turn."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlcore.columns import COLUMNS
from rlcore.data import completion_text, encode_prompt, encode_supervised, reply_ids, template_options
from rlcore.errors import DataError
from rlcore.execute.rollout import Rollout
from rlcore.protocols import Completion, Request, Sampler, SamplingParams, Stop, TurnEnvironment
from rlcore.sample.embedded import EmbeddedSampler
from rlcore.sample.stops import StopText
from tests.tiny import byte_tokenizer, character_tokenizer, make_tiny

A, B, AB, EOS, EOT, BREAK, USER, MODEL, TOOL, C = range(10)
WORDS = ("a", "b", "ab", "<eos>", "<eot>", "\n", "<user>", "<model>", "<tool>", "c")
TEMPLATE = (
    "{% for m in messages %}<{{ {'assistant': 'model'}.get(m.role, m.role) }}>{{ m.content }}<eot>\n{% endfor %}"
    "{% if add_generation_prompt %}<model>{% endif %}"
)
# Drops everything up to "b" from what the assistant said before: as templates do with thinking.
FORGETS = TEMPLATE.replace("{{ m.content }}", "{{ m.content if loop.last else m.content.split('b')[-1] }}")


def toy(template=TEMPLATE):
    """Encodes the longest word first, so that "ab" never is the two ids a, b."""
    inner = Tokenizer(models.BPE({w: i for i, w in enumerate(WORDS)}, [("a", "b")]))
    inner.add_special_tokens(["<eos>", "<eot>", "<user>", "<model>", "<tool>"])
    inner.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eot>", pad_token="<eot>")
    tokenizer.chat_template = template
    return tokenizer


class Engine(Sampler):
    """Returns given ids one after another; `ended` says why each ended."""

    version, reports_kept_logmass = 0, True

    def __init__(self, *answers, ended=Stop.FINISHED):
        self.answers, self.ended, self.requests = list(answers), ended, []

    async def sample(self, request):
        self.requests.append(request)
        ids = list(self.answers.pop(0))
        return Completion(ids, [-0.5] * len(ids), [0.0] * len(ids), self.ended, [0] * len(ids))

    def update_weights(self, weights, version):
        self.version = version


class Talk(TurnEnvironment):
    def __init__(self, *replies):
        self.replies = replies

    def begin(self, row):
        return row["prompt"]

    def reply(self, row, turns):
        return self.replies[len(turns) - 1] if len(turns) <= len(self.replies) else None


def draw(engine, *, environment=None, prompt=(C,), tokenizer=None, **options):
    tokenizer = tokenizer or toy()
    params = SamplingParams(max_new_tokens=options.pop("max_new_tokens", 8))
    decode = options.pop("decode", lambda ids: completion_text(tokenizer, ids))
    rollout = Rollout(engine, tokenizer, environment or Talk(), params, 0, decode, **options)
    row = {"prompt": list(prompt) if isinstance(prompt, tuple) else prompt}
    return rollout.draw([0], [row], samples=1, table=COLUMNS)


def test_b41_sampled_ids_are_never_encoded_again():
    tokenizer = toy()
    assert tokenizer("ab", add_special_tokens=False)["input_ids"] == [AB]
    engine = Engine([A, B, EOS], [A, B])
    batch = draw(engine, environment=Talk("c"), tokenizer=tokenizer)
    assert batch.flat("tokens").tolist() == [C, A, B, EOS, C, A, B]
    assert batch.flat("sampled").int().tolist() == [0, 1, 1, 1, 0, 1, 1]
    assert batch.flat("rollout_logprob").tolist() == [0, -0.5, -0.5, -0.5, 0, -0.5, -0.5]
    assert engine.requests[1].prompt == (C, A, B, EOS, C)
    assert len(batch.flat("tokens")) == len(batch.flat("mask")) == len(batch.flat("rollout_logprob"))


def test_b43_earlier_turns_stay_as_the_policy_said_them_whatever_the_template_would_drop():
    engine = Engine([A, B, C, EOT], [C, EOT])
    batch = draw(engine, environment=Talk([{"role": "user", "content": "a"}]), tokenizer=toy(FORGETS))
    assert engine.requests[1].prompt == (C, A, B, C, EOT, BREAK, USER, A, EOT, BREAK, MODEL)
    assert batch.flat("sampled").int().tolist() == [0] + [1] * 4 + [0] * 6 + [1] * 2


def test_b44_what_stands_between_turns_is_written_once_and_not_trained_on():
    replies = [{"role": "tool", "content": "c"}, {"role": "user", "content": "a"}]
    between = [BREAK, TOOL, C, EOT, BREAK, USER, A, EOT, BREAK, MODEL]
    assert reply_ids(toy(), replies, [A, EOT]) == between
    # Cut off or stopped by a string: the turn's end was not sampled, so it is written, once.
    assert reply_ids(toy(), replies, [A, B]) == [EOT, *between]
    assert reply_ids(toy(), replies, [A, C], eos_ids={EOT, C}) == between
    tokenizer = toy()
    spoken = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "ab"}, *replies]
    whole = encode_prompt(tokenizer, spoken)
    begun = encode_prompt(tokenizer, spoken[:1])
    assert whole == [*begun, AB, EOT, *reply_ids(tokenizer, replies, [AB, EOT])]
    with pytest.raises(DataError, match="does not write what an assistant said"):
        reply_ids(toy("{% for m in messages %}<{{ m.role }}>{% endfor %}"), replies, [A])


def test_b46_either_of_two_end_ids_finishes_and_its_absence_is_a_cut():
    model = make_tiny()
    params = SamplingParams(max_new_tokens=6, ignore_eos=True, greedy=True)
    free = EmbeddedSampler(model).generate([Request((5, 6), params, seed=0), Request((9, 7, 8), params, seed=0)])
    first, second = free[0].tokens, free[1].tokens
    end = next(token for token in first if token not in second)
    model.eos_ids = (second[0] + 1 if second[0] + 1 not in (*first, *second) else 0, end)
    params = SamplingParams(max_new_tokens=6, greedy=True)
    found = EmbeddedSampler(model).generate([Request((5, 6), params, seed=0), Request((9, 7, 8), params, seed=0)])
    assert [c.stop for c in found] == [Stop.FINISHED, Stop.LENGTH]
    assert found[0].tokens == first[: first.index(end) + 1]
    stops = torch.tensor([int(c.stop) for c in found])
    assert float((stops == int(Stop.LENGTH)).float().mean()) == 0.5


def test_b47_a_completion_that_was_cut_gets_no_end_token():
    batch = draw(Engine([A, B, C], ended=Stop.LENGTH), max_new_tokens=3)
    assert batch.flat("tokens").tolist() == [C, A, B, C]
    assert batch["stop"].tolist() == [int(Stop.LENGTH)]
    assert batch.flat("sampled").int().tolist() == [0, 1, 1, 1]


def test_b47_a_cut_turn_ends_the_session_without_a_reply():
    engine = Engine([A, B, C], ended=Stop.LENGTH)
    batch = draw(engine, environment=Talk("c"), max_new_tokens=3)
    assert (len(engine.requests), batch["length"].tolist()) == (1, [4])


@pytest.mark.parametrize(
    ("policy", "kept"), [("left", [4, 5, 6, 7, 8, 9]), ("right", [0, 1, 2, 3, 4, 5]), ("middle", [0, 1, 2, 7, 8, 9])]
)
def test_b49_an_environments_prompt_is_cut_by_the_same_rule_as_the_data_sets(policy, kept):
    batch = draw(Engine([A]), prompt=tuple(range(10)), max_prompt_tokens=6, long_prompts=policy)
    assert batch.flat("tokens").tolist() == [*kept, A]


def test_b49_an_environments_prompt_that_may_not_be_cut_is_an_error_with_both_lengths():
    with pytest.raises(DataError, match="a prompt has 10 tokens, more than max_prompt_tokens=6"):
        draw(Engine([A]), prompt=tuple(range(10)), max_prompt_tokens=6)
    with pytest.raises(DataError, match="Talk begins with a prompt of 10 tokens, more than max_prompt_tokens=6"):
        draw(Engine([A]), prompt=tuple(range(10)), max_prompt_tokens=6, long_prompts="filter")


@pytest.mark.parametrize("tokenizer", [character_tokenizer, byte_tokenizer])
def test_b53_two_stop_strings_that_end_alike_stop_at_the_same_token(tokenizer):
    tokenizer = tokenizer()
    finder = StopText(tokenizer)
    ids = tokenizer("<answer>4</answer> more", add_special_tokens=False)["input_ids"]
    for stops in (("</answer>", "answer>"), ("</answer>",)):
        ends = [n for n in range(1, len(ids) + 1) if finder.completed(stops, ids[:n])]
        assert ends[-1] == len("<answer>4</answer>")


def test_b53_a_stop_string_adds_no_end_token_and_a_sampled_end_stands_once():
    batch = draw(Engine([A, B]))
    assert batch.flat("tokens").tolist() == [C, A, B]
    assert batch["stop"].tolist() == [int(Stop.FINISHED)]
    batch = draw(Engine([A, B, EOT]))
    assert batch.flat("tokens").tolist() == [C, A, B, EOT]
    assert batch.flat("mask").int().tolist() == [0, 1, 1, 1]
    made = encode_supervised(toy(), {"prompt": "c", "completion": "ab<eot>"})
    assert made.tokens == [C, AB, EOT]


def test_b53_stop_strings_reach_the_engine():
    engine = Engine([A])
    params = SamplingParams(stop=("</answer>",), max_new_tokens=4)
    rollout = Rollout(engine, toy(), Talk(), params, 0, lambda ids: "")
    rollout.draw([0], [{"prompt": [C]}], samples=1, table=COLUMNS)
    assert engine.requests[0].params.stop == ("</answer>",)


def test_an_end_that_is_also_the_padding_is_kept_and_learnt():
    tokenizer = toy()
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == EOT
    made = encode_supervised(tokenizer, {"prompt": "c", "completion": "a"})
    assert made[:3] == ([C, A, EOT], [False, True, True], 1)
    assert draw(Engine([EOT, A, EOT])).flat("sampled").int().tolist() == [0, 1, 1, 1]


def test_tools_of_a_row_reach_the_template():
    tokenizer = toy("{% if tools %}{{ tools[0].function.name }}{% endif %}" + TEMPLATE)
    engine = Engine([A])
    rollout = Rollout(engine, tokenizer, Talk(), SamplingParams(), 0, lambda ids: "")
    row = {"prompt": [{"role": "user", "content": "a"}], "tools": [{"type": "function", "function": {"name": "c"}}]}
    rollout.draw([0], [row], samples=1, table=COLUMNS)
    assert engine.requests[0].prompt == (C, USER, A, EOT, BREAK, MODEL)


def test_options_of_a_rows_template_reach_it_in_prompts_replies_and_supervised_rows():
    tokenizer = toy("{% if enable_thinking %}c{% endif %}" + TEMPLATE)
    row = {"prompt": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"enable_thinking": True}}
    engine = Engine([A])
    rollout = Rollout(engine, tokenizer, Talk(), SamplingParams(), 0, lambda ids: "")
    rollout.draw([0], [row], samples=1, table=COLUMNS)
    assert engine.requests[0].prompt == (C, USER, A, EOT, BREAK, MODEL)
    assert encode_supervised(tokenizer, {**row, "completion": "b"}).tokens == [C, USER, A, EOT, BREAK, MODEL, B, EOT]
    for wrong in ("x", {"tokenize": False}):
        with pytest.raises(DataError, match="chat_template_kwargs must be an object of the template's own options"):
            template_options({"chat_template_kwargs": wrong})


def test_calls_are_rendered_with_their_arguments_as_an_object_and_a_missing_content_as_none():
    template = (
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{{ c.function.arguments.e }}"
        "{% endfor %}{% endfor %}"
    )
    call = {"type": "function", "function": {"name": "f", "arguments": '{"e": "ab"}'}}
    prompt = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    assert encode_prompt(toy(template), prompt) == [AB]
    assert call["function"]["arguments"] == '{"e": "ab"}'
