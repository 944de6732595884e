"""Laws of the comparison, over strings that nobody chose: arbitrary Unicode, and fragments of mathematics."""

import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcore_answers.comparison import DEFAULT, Policy, compare
from rlcore_answers.extraction import extract
from rlcore_answers.parser import readable

SPELLED = r"""
\frac \frac{1}{2} \frac12 \sqrt \sqrt[3]{x} \sqrt{2} \pi \infty \pm \mp \cdot \times \div \le \ge \ne \in \cup \cap
\setminus \{ \} \left( \right) \left[ \right] \left\{ \right. \text{cm} \text{and} \text{yes} \text{13} \mathrm{kg}
\sin \cos \ln \log_2 \log \lfloor \rfloor \lceil \rceil \mathbb{R} \emptyset \boxed{ \fbox{ ^\circ \% \$ \, \! \;
\begin{pmatrix} \end{pmatrix} \begin{cases} \end{cases} \\ \overline{3} \vec{a} \binom{5}{2} \dbinom \angle \int
\sum \lim \ldots \equiv \pmod{7} \mid \langle \rangle ^{2} ^{-1} _{10} {,} !! 10^{10} 9^{9} 1.5e3 0.5 1,000 1/0
x= x^2 1<x or and sqrt( sin( pi yes dollars \approx \over \choose \middle| \text{2~or~3} \begin{aligned} \end{aligned}
\frac{d}{dx} \mathrm{i} \mathbf{b} \color{red} {} \forall million a.m. 10:30 f(x)= P(A) m+n= ABD (B)
"""
SPACED = (" m", " for all x", " feet 2 inches", " or more", " p.m.", "option C")
SIGNS = "0123456789+-*/^_=<>!%'|,.:;()[]{}&~ $xyzneiABf"
UNICODE = "\u2212\u00bd\u03c0\u221a\u00b2\u00d7\u221e\uff11\u00b0\u2264\u222a\u20ac"
FRAGMENTS = (*SPELLED.split(), *SPACED, *SIGNS, *UNICODE)
MATHEMATICS = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
STRINGS = st.one_of(MATHEMATICS, st.text(max_size=40))
POLICIES = st.sampled_from([Policy(), Policy(percent="hundredth", units="compared"), Policy(tolerance=0.0)])
CALM = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))


def check(left, right, policy=DEFAULT):
    """Every law that two strings are under; 500 comparisons must not take a minute, so none may take long."""
    start = time.process_time()
    there, back = compare(left, right, policy), compare(right, left, policy)
    assert there is back, "symmetric"
    for text in (left, right):
        same = compare(text, text, policy)
        assert same is readable(text), "reflexive for the readable, false for the unreadable"
    if not (readable(left) and readable(right)):
        assert there is False
    extract(left)
    assert time.process_time() - start < 5.0


@CALM
@given(STRINGS, STRINGS, POLICIES)
def test_a_comparison_is_symmetric_and_reflexive_and_never_raises(left, right, policy):
    check(left, right, policy)


@CALM
@given(MATHEMATICS, st.sampled_from(["{}", " {} ", "${}$", "\\boxed{{{}}}", "\\left({}\\right)", "{}."]))
def test_layout_around_an_answer_never_raises(text, dress):
    check(text, dress.format(text))


@given(st.fractions(), st.fractions())
def test_fractions_are_equal_exactly_if_they_are(one, two):
    assert compare(str(one), str(two)) is (one == two)
    assert compare(rf"\frac{{{one.numerator}}}{{{one.denominator}}}", str(one)) is True


@given(st.integers(), st.integers())
def test_integers_are_equal_exactly_if_they_are(one, two):
    assert compare(str(one), f"{two:,}") is (one == two)
    assert compare(str(one), f"{one:,}") is True


@pytest.mark.slow
def test_a_hundred_thousand_strings_of_fragments_and_unicode_keep_the_laws():
    draw = random.Random(0)
    planes = [range(32, 127), range(160, 0x500), range(0x2000, 0x2C00), range(0x3000, 0x3100), range(0xFF00, 0xFFF0)]

    def string():
        if draw.random() < 0.7:
            return "".join(draw.choice(FRAGMENTS) for _ in range(draw.randrange(12)))
        return "".join(chr(draw.choice(draw.choice(planes))) for _ in range(draw.randrange(30)))

    for _ in range(100_000):
        check(string(), string())
