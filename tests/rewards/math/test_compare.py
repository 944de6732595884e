import pytest

from rlcore_answers.comparison import Policy, compare
from rlcore_answers.parser import readable


def pairs(text):
    """Pairs and verdicts from lines such as "left | right | 1"."""
    lines = [line.split(" | ") for line in text.strip().splitlines()]
    return [pytest.param(left, right, verdict == "1", id=f"{left} | {right}") for left, right, verdict in lines]


def same(left, right, **policy):
    """The verdict, which must not depend on the order."""
    there, back = (compare(*pair, Policy(**policy)) for pair in ((left, right), (right, left)))
    assert there is back
    return there


B59 = pairs(r"""
{1,2,3} | {3,2,1} | 1
\{1,2,3\} | {3,2,1} | 1
(1,2) | (2,1) | 0
[0,1) | [0,1] | 0
[0,1) | (0,1) | 0
(0,3) | 0<x<3 | 1
0<x<3 | (0,3) | 1
2 | 1,2 | 0
\pm 5 | 5 | 0
(0,1) | (0,1.5) | 0
n=2,3,4 | n=1,2,3 | 0
""")
B61 = pairs(r"""
3x-y+13=0 | 3x+4y+14=0 | 0
2x+4y-6=0 | x+2y-3=0 | 1
x^2/4+y^2/3=1 | x^2/16+y^2/12=1 | 0
4 | 4\sqrt(2) | 0
""")
NUMBERS = pairs(r"""
\frac{1}{2} | 0.5 | 1
\frac12 | .5 | 1
-\frac{1}{2} | \frac{-1}{2} | 1
3\frac12 | 7/2 | 1
3 1/2 | 3.5 | 1
-3\frac12 | -3.5 | 1
2½ | 5/2 | 1
1{,}000 | 1000 | 1
1,\!000 | 1000 | 1
10\,000 | 10000 | 1
1,234,567 | 1234567 | 1
(1,234) | 1234 | 0
1.5e3 | 1500 | 1
1.5\times10^{3} | 1500 | 1
0.\overline{3} | 1/3 | 1
1/3 | 0.3333333 | 1
1/3 | 0.333 | 0
\pi | 3.1415927 | 1
\pi | 3.14 | 0
1000000 | 1000001 | 0
1000000 | 1000000.5 | 0
0.30000000000000004 | 0.3 | 1
0.1 | 0.10 | 1
10^{-9} | 2\cdot 10^{-9} | 0
0.000000001 | 0.000000002 | 0
2^{10} | 1024 | 1
2^10 | 1024 | 1
2^3^2 | 512 | 1
\frac{\sqrt2}{2} | 1/\sqrt{2} | 1
4\sqrt{2} | \sqrt{32} | 1
\sqrt[3]{-8} | -2 | 1
e^{i\pi} | -1 | 1
i | \sqrt{-1} | 1
\log_2 8 | 3 | 1
\log 100 | 2 | 1
\ln e | 1 | 1
\binom{5}{2} | 10 | 1
5! | 120 | 1
5!! | 15 | 1
\sin 30^\circ | \frac12 | 1
\sin\frac{\pi}{6} | 0.5 | 1
\arctan 1 | \frac\pi4 | 1
\sin^{-1} 1 | \pi/2 | 1
|-3| | 3 | 1
\lfloor 2.7 \rfloor | 2 | 1
\text{13} | 13 | 1
−5 | -5 | 1
１２ | 12 | 1
π | \pi | 1
√2 | \sqrt{2} | 1
3² | 9 | 1
2 × 3 | 6 | 1
∞ | \infty | 1
-\infty | \infty | 0
6*7=42 | 42 | 1
1/0 | 5 | 0
0 | \sin(\pi) | 1
e^{\pi\sqrt{163}} | 262537412640768744 | 0
""")  # noqa: RUF001 - the signs are what is tested
DROPPED = pairs(r"""
50\% | 50 | 1
50\% | 1/2 | 0
50% | 50 percent | 1
5 cm | 5 | 1
5\text{ cm}^2 | 5 | 1
5\mathrm{~kg} | 5 kg | 1
5\text{ m/s} | 5 | 1
12 apples | 12 | 1
$5 | 5 | 1
\$5.00 | 5 dollars | 1
€5 | 5 | 1
90^\circ | 90 | 1
90° | 90^{\circ} | 1
""")
EXPRESSIONS = pairs(r"""
(x+1)^2 | x^2+2x+1 | 1
x^2-y^2 | (x-y)(x+y) | 1
x^2+1 | y^2+1 | 0
x | x+0.1 | 0
\sin^2 x+\cos^2 x | 1 | 1
2\cos^2\theta-1 | \cos 2\theta | 1
\frac{x-1}{x+1} | 1-\frac{2}{x+1} | 1
\frac{x^2-1}{x-1} | x+1 | 1
\sqrt{x^2} | x | 0
\sqrt{x^2} | |x| | 1
\ln(x^2) | 2\ln x | 1
e^{2x} | (e^x)^2 | 1
(-1)^n | \cos(n\pi) | 1
\lfloor x\rfloor+1 | \lceil x\rceil | 0
x_1+x_2 | x_2+x_1 | 1
x_1 | x_2 | 0
\frac{1}{2}\pi r^2 | \pi r^2/2 | 1
""")
COLLECTIONS = pairs(r"""
1,2 | 2,1 | 1
1,2 | (1,2) | 1
2,1 | (1,2) | 0
1,2 | \{2,1\} | 1
\{1,1,2\} | \{1,2\} | 1
1,1,2 | 1,2 | 0
1 and 2 | 1,2 | 1
(1,2) | \{1,2\} | 0
[1,2,3] | (1,2,3) | 1
[1,2] | (1,2) | 0
\left(\frac12, 3\right) | (0.5,3) | 1
\{5\} | 5 | 1
\emptyset | \{\} | 1
\pm 5 | 5,-5 | 1
\pm 5 | \{5,-5\} | 1
3\pm\sqrt2 | 3+\sqrt2, 3-\sqrt2 | 1
a\pm b\mp c | a+b-c, a-b+c | 1
\begin{pmatrix}1\\2\end{pmatrix} | \begin{bmatrix}1\\2.0\end{bmatrix} | 1
\begin{pmatrix}1&2\end{pmatrix} | \begin{pmatrix}2&1\end{pmatrix} | 0
\begin{pmatrix}1&2\end{pmatrix} | \begin{pmatrix}1\\2\end{pmatrix} | 0
3:4 | 3:4 | 1
3:4 | 4:3 | 0
""")
SETS = pairs(r"""
[0,1) | 0\le x<1 | 1
[0,1) | 1>x\ge 0 | 1
x\in[0,1) | [0,1) | 1
x \geq 2 | [2,\infty) | 1
x>3 | x\ge 3 | 0
x<3 | y<3 | 0
2x<6 | (-\infty,3) | 1
-x \le 2 | x \ge -2 | 1
x<-2 \text{ or } x>2 | (-\infty,-2)\cup(2,\infty) | 1
(2,\infty)\cup(-\infty,-2) | (-\infty,-2)\cup(2,\infty) | 1
[0,2]\cup[1,3] | [0,3] | 1
(0,1)\cup(1,2) | (0,2) | 0
\mathbb{R}\setminus\{0\} | (-\infty,0)\cup(0,\infty) | 1
x\ne 0 | \mathbb{R}\setminus\{0\} | 1
|x|>3 | (-\infty,-3)\cup(3,\infty) | 1
3 \ge |x-1| | [-2,4] | 1
|x|>3 | (-3,3) | 0
\{x\in\mathbb{R} : x>3\} | (3,\infty) | 1
\{x \mid x>3\} | x>3 | 1
(2,1) | (2,1) | 1
x^2<4 | 2x^2<8 | 1
x^2<4 | x^2>4 | 0
x+y<3 | 3>y+x | 1
""")
EQUATIONS = pairs(r"""
x=3 | 3 | 1
x=3 | 3=x | 1
x=3 | y=3 | 0
y=2x+3 | 2x+3 | 1
y=2x+3 | 2x-y+3=0 | 1
y=2x+3 | y=2x+4 | 0
f(x)=2x | 2x | 1
AB=5 | 5 | 1
7=11a+c | 11a+c | 0
x=1 \text{ or } x=2 | 1,2 | 1
x=\pm 5 | x=5 \text{ or } x=-5 | 1
x=1,y=2 | y=2,x=1 | 1
x=1,y=2 | (1,2) | 1
x=1,y=2 | 2,1 | 0
(x,y)=(1,2) | (1,2) | 1
x^2/4+y^2/3=1 | 3x^2+4y^2=12 | 1
x=x | y=y | 0
x \equiv 3 \pmod 7 | x \equiv 3 \pmod{7} | 1
x \equiv 3 \pmod 7 | x \equiv 3 \pmod 8 | 0
\begin{cases} x & \text{if } x>0 \\ 0 & x\le 0\end{cases} | \begin{cases} 0 & x \leq 0 \\ x & x>0\end{cases} | 1
""")
WORDS = pairs(r"""
yes | Yes. | 1
yes | \text{Yes} | 1
no | yes | 0
\text{no solution} | No Solution | 1
A | (A) | 1
A | A. | 1
A | \text{A} | 1
A | \textbf{(A)} | 1
A | (A) 5 | 1
A | B | 0
A | a | 0
\text{Ann}, \text{Bob} | Bob, Ann | 1
1011_2 | 1011_{2} | 1
1011_2 | 1011 | 0
1011_2 | 11_{10} | 0
""")


CHAINS = pairs(r"""
3+4=7 | 7 | 1
8=7 | 7 | 0
5=5.05 | 5 | 0
\frac{14}{3}=4.67 | \frac{14}{3} | 1
\frac{14}{3}\approx 4.67 | 4.67 | 1
x=\frac{14}{3}\approx 4.67 | 14/3 | 1
\frac{29}{6}\approx 5 | 5 | 1
\frac13=0.25 | 0.25 | 0
2\text{ hours}=120\text{ minutes} | 120 | 1
2\text{ hours}=120\text{ minutes} | 2 | 0
m+n=204 | 204 | 1
x+y=7 | 7 | 0
""")
QUANTITIES = pairs(r"""
5 m | 5 | 1
5 m | 5m | 1
5m | 5 | 0
5 x | 5 | 0
3\log_2 m | \log_2 m^3 | 1
2 million | 2,000,000 | 1
2 million | 2 | 0
3 \text{ or more} | 3 | 0
6 feet 2 inches | 6 \text{ feet } 2 \text{ inches} | 1
6 feet 2 inches | 6 | 0
45^\circ 30' | 45^\circ 31' | 0
10:30 a.m. | 10:30 | 1
10:30 a.m. | 10:30\text{ PM} | 0
5 p.m. | 5:00 PM | 1
\text{1,430 miles} | 1430 | 1
""")
DISCRETE = pairs(r"""
\binom{n}{2} | \frac{n(n-1)}{2} | 1
\binom{n}{2} | \frac{n(n+1)}{2} | 0
\binom{m}{n} | \binom{m}{n+1} | 0
\binom{n}{k} | \binom{n}{n-k} | 1
n! | n(n-1)! | 1
(-1)^n n! | n! | 0
(-1)^{m+n} n! | n! | 0
{n \choose 2} | \binom{n}{2} | 1
""")
FORMS = pairs(r"""
f(x)=x+1 | f(n)=n+1 | 1
f(x)=x+n | f(n)=n+n | 0
P(A)=\frac12 | P(B)=\frac12 | 0
f(x)=x^2 | f(x)=x^2 \text{ for all } x | 1
\begin{cases}x=1\\y=2\end{cases} | x=1,y=2 | 1
\begin{cases}x=1\\y=2\end{cases} | (2,1) | 0
\begin{aligned}x&=1+2\\&=3\end{aligned} | 3 | 1
2\begin{pmatrix}1\\2\end{pmatrix} | \begin{pmatrix}2\\4\end{pmatrix} | 1
\frac{dy}{dx} | \frac{y}{x} | 0
ABD | A, B, D | 1
x \equiv 2 \pmod 5 | x\equiv 2\ (\text{mod } 5) | 1
""")


@pytest.mark.parametrize(("left", "right", "verdict"), B59)
def test_b59_tuples_sets_and_intervals(left, right, verdict):
    assert same(left, right) is verdict


@pytest.mark.parametrize(("left", "right", "verdict"), B61)
def test_b61_equations_are_equal_up_to_a_factor_and_nothing_unread_is_zero(left, right, verdict):
    assert same(left, right) is verdict


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        *NUMBERS,
        *DROPPED,
        *EXPRESSIONS,
        *COLLECTIONS,
        *SETS,
        *EQUATIONS,
        *WORDS,
        *CHAINS,
        *QUANTITIES,
        *DISCRETE,
        *FORMS,
    ],
)
def test_answers_are_compared_by_what_they_mean(left, right, verdict):
    assert same(left, right) is verdict
    assert same(left, left) is True
    assert same(right, right) is True


def test_per_cent_can_be_a_hundredth():
    assert same(r"50\%", "1/2", percent="hundredth") is True
    assert same(r"50\%", "50", percent="hundredth") is False
    assert same(r"50\%", "50 percent", percent="hundredth") is True


def test_units_can_be_compared():
    assert same("5 m", "5", units="compared") is False
    assert same("5 cm", "5 km", units="dropped") is True
    assert same("5 cm", r"5\text{ cm}", units="compared") is True
    assert same("5 cm", "5", units="compared") is False
    assert same("5 cm", "5 km", units="compared") is False
    assert same(r"90^\circ", "90", units="compared") is False


def test_the_tolerance_of_decimals_can_be_set():
    assert same(r"\pi", "3.14", tolerance=1e-3) is True
    assert same("0.3333333", "1/3", tolerance=0.0) is False
    assert same("3", "3.001", tolerance=1e-6) is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "}",
        r"\frac{",
        r"\frac{1}",
        "(1,2",
        "1 2",
        "x^",
        "=",
        r"\unknown{2}",
        "\u2603",
        "+",
        "$$",
        ",",
        "[1,2}",
    ],
)
def test_what_cannot_be_read_equals_nothing_not_even_itself(text):
    assert not readable(text)
    assert same(text, text) is False
    assert same(text, "0") is False


def test_sums_integrals_and_limits_are_left_to_sympy():
    assert compare(r"\int_0^1 x\,dx", r"\frac12") is None
    assert compare(r"\int_0^1 x\,dx", r"\int_0^1 x\,dx") is True
    assert compare(r"\int_0^1 x\,dx", "{") is False
