"""Stop strings are found in text, however the tokens split it."""

from rlcore.sample.stops import StopText
from tests.tiny import byte_tokenizer, character_tokenizer


def first_stop(tokenizer, stops, text):
    """After how many tokens of the text a stop string is complete; None if none is."""
    finder, tokens = StopText(tokenizer), tokenizer.encode(text, add_special_tokens=False)
    return next((n for n in range(1, len(tokens) + 1) if finder.completed(stops, tokens[:n])), None)


def test_a_stop_string_is_found_at_its_last_token():
    tokenizer = character_tokenizer()
    assert first_stop(tokenizer, ("</a>",), "<a>12</a>34") == len("<a>12</a>")
    assert first_stop(tokenizer, ("</a>", "12"), "<a>12</a>34") == len("<a>12")
    assert first_stop(tokenizer, ("</b>",), "<a>12</a>34") is None


def test_a_stop_string_that_ends_in_a_space_is_found():
    assert first_stop(character_tokenizer(), ("a ",), "b a c") == len("b a ")
    assert first_stop(character_tokenizer(), ("\n\n",), "a\n\nb") == 3


def test_a_character_split_over_tokens_counts_when_it_is_whole():
    tokenizer = byte_tokenizer()
    assert first_stop(tokenizer, ("é",), "aé!") == 3
    assert first_stop(tokenizer, ("é!",), "aé!") == 4
    assert first_stop(tokenizer, ("終わり",), "これで終わりです") == 3 * len("これで終わり")
    assert first_stop(tokenizer, ("ê",), "aé!") is None


def test_special_tokens_count_as_their_text():
    tokenizer = character_tokenizer()
    tokens = [*tokenizer.encode("ab", add_special_tokens=False), tokenizer.bos_token_id]
    assert StopText(tokenizer).completed(("b<bos>",), tokens)


def test_a_long_completion_is_looked_at_from_its_end():
    tokenizer = character_tokenizer()
    assert first_stop(tokenizer, ("stop",), "x" * 300 + "stop" + "x") == 304
