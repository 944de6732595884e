import pytest

from rlcore.errors import ConfigError
from rlcore_rewards.form import tagged_form

GOOD = "<plan>a</plan>\n<code>b\nc</code> <result>7</result>\n"
TAGS = ("plan", "code", "result")


@pytest.mark.parametrize(
    ("completion", "extracted"),
    [
        (GOOD, "7"),
        (GOOD + "<|im_end|>more", "7"),
        (GOOD.replace("7", " \u200b"), None),
        (GOOD + GOOD, None),
        (GOOD + "x", None),
        ("x" + GOOD, None),
        (GOOD.replace("<code>", "x<code>"), None),
        (GOOD.replace("a", "<code>a"), None),
        (GOOD.replace("a", "</result>"), None),
        (GOOD.replace("plan", "code", 1), None),
        ("<code>b</code><plan>a</plan><result>7</result>", None),
        ("<plan>a<code>b</plan></code><result>7</result>", None),
        ("<plan>" * 50_000, None),
        ("", None),
    ],
)
def test_a_form_is_every_tag_once_and_in_order(completion, extracted):
    assert tagged_form(completion, tags=TAGS) == {"score": float(extracted is not None), "extracted": extracted}


@pytest.mark.parametrize("tags", [(), ("a", "a"), ("<a>",), ("",)])
def test_tags_that_make_no_form_are_refused(tags):
    with pytest.raises(ConfigError, match="tags"):
        tagged_form("x", tags=tags)
