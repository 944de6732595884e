import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from rlcore.data import completion_text, encode_prompt, encode_supervised, prompt_string, use_chat_template
from rlcore.errors import DataError

WORDS = ("<unk>", "<s>", "</s>", "<user>", "<model>", "a", "b", "c", "d", "\n")
UNK, BOS, EOS, USER, MODEL, A, B, C, D, BREAK = range(len(WORDS))
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ 'model' if m.role == 'assistant' else m.role }}>{{ m.content }}"
    "{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<model>{% endif %}"
)


def make_tokenizer(*, adds_bos=False, template=TEMPLATE):
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    if adds_bos:
        inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<user>", "<model>"]})
    tokenizer.chat_template = template
    return tokenizer


def say(*contents):
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(contents)]


def test_text_is_encoded_as_it_is_where_the_tokenizer_adds_nothing():
    assert encode_prompt(make_tokenizer(), "ab") == [A, B]


def test_text_gets_the_one_bos_that_the_tokenizer_itself_would_put():
    tokenizer = make_tokenizer(adds_bos=True)
    assert encode_prompt(tokenizer, "ab") == [BOS, A, B]
    assert encode_prompt(tokenizer, "<s>ab") == [BOS, A, B]


def test_ids_stay_ids():
    tokenizer = make_tokenizer(adds_bos=True)
    assert encode_prompt(tokenizer, [A, B]) == [A, B]
    assert prompt_string(tokenizer, [BOS, A]) == tokenizer.decode([BOS, A])


def test_messages_are_rendered_with_the_answers_beginning_and_one_bos():
    for template in (TEMPLATE, "{{ bos_token }}" + TEMPLATE):
        tokenizer = make_tokenizer(adds_bos=True, template=template)
        assert encode_prompt(tokenizer, say("ab")) == [BOS, USER, A, B, EOS, BREAK, MODEL]
    assert prompt_string(make_tokenizer(), say("ab")) == "<s><user>ab</s>\n<model>"
    assert prompt_string(make_tokenizer(), "ab") == "ab"


def test_messages_without_a_template_are_an_error_that_names_the_key(tmp_path):
    tokenizer = make_tokenizer(template=None)
    with pytest.raises(DataError, match=r"needs a chat template.*model\.chat_template"):
        encode_prompt(tokenizer, say("a"))
    file = tmp_path / "mine.jinja"
    file.write_text(TEMPLATE)
    use_chat_template(tokenizer, str(file))
    assert encode_prompt(tokenizer, say("a")) == [BOS, USER, A, EOS, BREAK, MODEL]
    use_chat_template(tokenizer, "{% for m in messages %}{{ m.content }}{% endfor %}")
    assert encode_prompt(tokenizer, say("a")) == [A]
    with pytest.raises(DataError, match=r"does not exist. Did you mean 'mine.jinja'"):
        use_chat_template(tokenizer, str(tmp_path / "mime.jinja"))


def test_a_template_that_refuses_says_so_in_its_own_words():
    tokenizer = make_tokenizer(template="{{ raise_exception('only users may speak') }}")
    with pytest.raises(DataError, match="refuses messages with roles user: only users may speak"):
        encode_prompt(tokenizer, say("a"))


def test_an_empty_prompt_is_an_error():
    with pytest.raises(DataError, match="has no tokens"):
        encode_prompt(make_tokenizer(), "")


def test_a_completion_is_marked_with_one_eos_after_it():
    tokenizer = make_tokenizer()
    made = encode_supervised(tokenizer, {"prompt": "ab", "completion": "cd"})
    assert made[:3] == ([A, B, C, D, EOS], [False, False, True, True, True], 2)
    assert encode_supervised(tokenizer, {"prompt": "ab", "completion": "cd</s>"}) == made
    spoken = encode_supervised(tokenizer, {"prompt": say("a"), "completion": "b"})
    assert spoken[:3] == ([BOS, USER, A, EOS, BREAK, MODEL, B, EOS], [False] * 6 + [True] * 2, 6)


def test_every_assistant_turn_of_a_conversation_is_marked_up_to_its_eos():
    made = encode_supervised(make_tokenizer(), {"messages": say("a", "b", "c", "d")})
    assert made.tokens == [BOS, USER, A, EOS, BREAK, MODEL, B, EOS, BREAK, USER, C, EOS, BREAK, MODEL, D, EOS]
    assert [i for i, marked in enumerate(made.sampled) if marked] == [6, 7, 14, 15]
    assert made.prompt_length == 6


def test_b53_a_turn_that_the_template_leaves_open_gets_one_eos():
    bare = TEMPLATE.replace("{{ bos_token }}", "").replace("{{ eos_token }}\n", "")
    made = encode_supervised(make_tokenizer(template=bare), {"messages": say("a", "b")})
    assert made[:3] == ([USER, A, MODEL, B, EOS], [False, False, False, True, True], 3)


def test_b43_a_template_that_rewrites_history_is_refused():
    forgets = (
        "{% for m in messages if m == messages[-1] or m.role != 'assistant' %}<user>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<model>{% endif %}"
    )
    with pytest.raises(DataError, match="rewrites history"):
        encode_supervised(make_tokenizer(template=forgets), {"messages": say("a", "b", "c", "d")})


def test_a_row_without_anything_to_learn_is_refused():
    with pytest.raises(DataError, match=r"needs a completion or messages.*keys found: prompt"):
        encode_supervised(make_tokenizer(), {"prompt": "a"})
    with pytest.raises(DataError, match="needs an assistant turn"):
        encode_supervised(make_tokenizer(), {"messages": say("a")})


def test_b46_and_b71_text_ends_at_the_first_of_several_eos_ids():
    tokenizer = make_tokenizer()
    assert completion_text(tokenizer, [A, B, EOS, C]) == completion_text(tokenizer, [A, B])
    assert completion_text(tokenizer, [A, D, B], eos_ids={EOS, D}) == completion_text(tokenizer, [A])
    assert completion_text(tokenizer, [D, A]) != ""
