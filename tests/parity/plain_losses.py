"""Plain NumPy versions of losses, KL, selects and corrections, from the papers: one token at a time, in float64.

A loss gives its values and, per token, the derivative that the paper states for it. `on[i, t]` says which entries
exist. `clamp` is the bound on log ratios.
"""

import math

import numpy as np

from tests.parity.plain import tokens_of


def clamp(x, low=-20.0, high=20.0):
    return min(max(x, low), high)


def slope(x):
    """Derivative of the clamp."""
    return 1.0 if -20.0 <= x <= 20.0 else 0.0


def by_row(row_loss):
    """Turn a function of one row's lists into one of whole arrays: (values, derivatives)."""

    def whole(columns, **options):
        values, slopes = np.zeros(columns["on"].shape), np.zeros(columns["on"].shape)
        for i in range(len(values)):
            steps = tokens_of(columns["on"], i)
            if steps:
                row = {n: [x[i, t] for t in steps] for n, x in columns.items() if n != "on" and x.ndim == 2}
                row |= {n: x[i] for n, x in columns.items() if x.ndim == 1}
                for t, value, derivative in zip(steps, *row_loss(row, **options), strict=True):
                    values[i, t], slopes[i, t] = value, derivative
        return values, slopes

    return whole


def by_token(token_loss):
    def row_loss(row, **options):
        names = [n for n, x in row.items() if isinstance(x, list)]
        rest = {n: x for n, x in row.items() if n not in names}
        pairs = [
            token_loss({**rest, **dict(zip(names, token, strict=True))}, **options)
            for token in zip(*(row[n] for n in names), strict=True)
        ]
        return [v for v, _ in pairs], [d for _, d in pairs]

    return by_row(row_loss)


@by_row
def gspo(row, *, low, high, cap=None):
    """Zheng et al. 2025, equations 5, 13 and 14; the derivative is the token form's."""
    difference = [a - b for a, b in zip(row["logprob"], row["old_logprob"], strict=True)]
    mean = math.fsum(difference) / len(difference)
    s = math.exp(clamp(mean))
    values, slopes = [], []
    for a in row["advantage"]:
        used = s if cap is None else min(s, cap)
        plain, bounded = -a * used, -a * min(max(s, 1 - low), 1 + high)
        values.append(max(plain, bounded))
        moves = plain >= bounded and (cap is None or s <= cap)
        inside = bounded >= plain and 1 - low <= s <= 1 + high
        slopes.append(-a * s * slope(mean) if moves or inside else 0.0)
    return values, slopes


@by_row
def gmpo(row, *, low, high):
    """Zhao et al. 2025, equation 4, spread over the row's tokens."""
    z = [clamp(a - b) for a, b in zip(row["logprob"], row["old_logprob"], strict=True)]
    chosen = []
    for x, a in zip(z, row["advantage"], strict=True):
        chosen.append(min(x, high) if a > 0 else max(x, -low) if a < 0 else 0.0)
    ratio = math.exp(math.fsum(chosen) / len(chosen))
    if "weight" in row:
        ratio *= math.exp(math.fsum(math.log(w + 1e-10) for w in row["weight"]) / len(z))
    values = [-a * ratio for a in row["advantage"]]
    raw = [a - b for a, b in zip(row["logprob"], row["old_logprob"], strict=True)]
    slopes = [v * slope(d) if c == x else 0.0 for v, c, x, d in zip(values, chosen, z, raw, strict=True)]
    return values, slopes


@by_row
def vespo(row, *, positive=(2.0, 3.0), negative=(3.0, 2.0)):
    """arXiv:2602.10693: phi(W) = W^k exp(lambda (1 - W)), in logs."""
    total = math.fsum(clamp(a - b) for a, b in zip(row["logprob"], row["old_logprob"], strict=True))
    total += math.fsum(clamp(math.log(w), math.log(1e-8)) if w > 0 else math.log(1e-8) for w in row.get("weight", []))
    total = clamp(total, math.log(1e-8))
    values, slopes = [], []
    for x, a in zip(row["logprob"], row["advantage"], strict=True):
        k, decay = positive if a >= 0 else negative
        phi = math.exp(decay + k * total - decay * math.exp(total))
        values.append(-phi * a * x)
        slopes.append(-phi * a)
    return values, slopes


@by_token
def cispo(x, *, low, high):
    """MiniMax 2025, equations 4 and 5."""
    weight = clamp(math.exp(clamp(x["logprob"] - x["old_logprob"])), 1 - low, 1 + high)
    return -weight * x["advantage"] * x["logprob"], -weight * x["advantage"]


@by_token
def sapo(x, *, positive=1.0, negative=1.05):
    """Gao et al. 2025, equations 5 and 6."""
    difference = x["logprob"] - x["old_logprob"]
    ratio, a = math.exp(clamp(difference)), x["advantage"]
    tau = positive if a > 0 else negative
    exponent = -tau * (ratio - 1)
    gate = 1 / (1 + math.exp(exponent)) if exponent < 700 else 0.0
    return -4 / tau * gate * a, -4 * gate * (1 - gate) * ratio * a * slope(difference)


def row_ratio(row):
    """exp of the row's mean log ratio, and its derivative by the mean (the clamp's included)."""
    mean = math.fsum(a - b for a, b in zip(row["logprob"], row["old_logprob"], strict=True)) / len(row["logprob"])
    return math.exp(clamp(mean)), math.exp(clamp(mean)) * slope(mean)


@by_row
def cispo_sequence(row, *, low, high):
    """TRL 1.16: the row's ratio, clipped, as the weight of each of its tokens."""
    weight = clamp(row_ratio(row)[0], 1 - low, 1 + high)
    slopes = [-weight * a for a in row["advantage"]]
    return [s * x for s, x in zip(slopes, row["logprob"], strict=True)], slopes


@by_row
def sapo_sequence(row, *, positive=1.0, negative=1.05):
    """TRL 1.16: one gate a row; the derivative is the token form's, that of the mean times the row's length."""
    ratio, moves = row_ratio(row)
    values, slopes = [], []
    for a in row["advantage"]:
        tau = positive if a > 0 else negative
        exponent = -tau * (ratio - 1)
        gate = 1 / (1 + math.exp(exponent)) if exponent < 700 else 0.0
        values.append(-4 / tau * gate * a)
        slopes.append(-4 * gate * (1 - gate) * a * moves)
    return values, slopes


@by_row
def k3_unbiased_sequence(row):
    """k3 times the row's ratio: the derivative of the sum over the row, the ratio's share by the product rule."""
    n = len(row["logprob"])
    ratio, moves = row_ratio(row)
    e = [a - b for a, b in zip(row["ref_logprob"], row["logprob"], strict=True)]
    k = [math.expm1(clamp(x)) - clamp(x) for x in e]
    slopes = [ratio * (1 - math.exp(clamp(x))) * slope(x) + moves * math.fsum(k) / n for x in e]
    return [ratio * x for x in k], slopes


@by_token
def dro(x, *, beta):
    """Richemond et al. 2024."""
    d = x["logprob"] - x["old_logprob"]
    return -(x["advantage"] * x["logprob"] - 0.5 * beta * d * d), beta * d - x["advantage"]


@by_token
def dppo(x, *, kind, low, high, cap, pull=0.0):
    """Qi et al. 2026: binary total variation or KL, weight and mask without derivative."""
    a, d = x["advantage"], x["logprob"] - x["old_logprob"]
    p, q = math.exp(x["logprob"]), math.exp(x["old_logprob"])
    if kind == "tv":
        keep = p - q <= high if a > 0 else p - q >= -low
    else:
        divergence = q * (x["old_logprob"] - x["logprob"]) + (1 - q) * math.log((1 - q + 1e-8) / (1 - p + 1e-8))
        keep = (divergence <= high or p <= q) if a > 0 else (divergence <= low or p >= q)
    weight = min(math.exp(clamp(d)), cap) if keep else 0.0
    return -weight * a * x["logprob"] + pull * d * d, -weight * a + 2 * pull * d


@by_token
def kl_cov(x, *, coefficient):
    """Cui et al. 2025, KL-Cov."""
    d = x["logprob"] - x["old_logprob"]
    ratio = math.exp(clamp(d))
    value, derivative = -x["advantage"] * ratio, -x["advantage"] * ratio * slope(d)
    if x["selected"]:
        value, derivative = value + coefficient * abs(d), derivative + coefficient * np.sign(d)
    return value, derivative


@by_token
def positive_nll(x):
    """VAPO, section 4.3."""
    return (-x["logprob"], -1.0) if x["score"] > 0 else (0.0, 0.0)


def outcome_cross_entropy(columns, *, beta):
    """Cui et al. 2025: the loss of a row, [B], and its derivative by each of the row's log-probabilities."""
    values, slopes = np.zeros(len(columns["on"])), np.zeros(columns["on"].shape)
    for i in range(len(values)):
        steps = tokens_of(columns["on"], i)
        if steps:
            r = beta * math.fsum(columns["logprob"][i, t] - columns["ref_logprob"][i, t] for t in steps)
            log_right, log_wrong = log_sigmoid(r), log_sigmoid(-r)
            values[i] = -columns["score"][i] * log_right - (1 - columns["score"][i]) * log_wrong
            slopes[i, steps] = beta * (math.exp(log_right) - columns["score"][i])
    return values, slopes


def log_sigmoid(x):
    return -math.log1p(math.exp(-x)) if x > -30 else x - math.exp(max(x, -700))


@by_token
def entropy_bonus(x):
    """Mnih et al. 2016, section 4; the derivative is by the entropy."""
    return -x["entropy"], -1.0


@by_token
def two_sided(x, *, low, high, cap):
    """INTELLECT-2: min(min(r, delta) A, clip(r) A)."""
    d, a = x["logprob"] - x["old_logprob"], x["advantage"]
    r = math.exp(clamp(d))
    plain, bounded = -a * min(r, cap), -a * clamp(r, 1 - low, 1 + high)
    moves = (plain >= bounded and r <= cap) or (bounded >= plain and 1 - low <= r <= 1 + high)
    return max(plain, bounded), -a * r * slope(d) if moves else 0.0


@by_token
def decoupled(x, *, low, high, cap):
    """Hilton et al. 2022, equation 5; AReaL's cap drops tokens."""
    weight = math.exp(clamp(x["old_logprob"] - x["kept_logmass"] - x["rollout_logprob"]))
    d, a = x["logprob"] - x["old_logprob"], x["advantage"]
    r = math.exp(clamp(d))
    plain, bounded = -a * r, -a * clamp(r, 1 - low, 1 + high)
    weight = 0.0 if cap is not None and weight > cap else weight
    moves = plain >= bounded or 1 - low <= r <= 1 + high
    return weight * max(plain, bounded), -weight * a * r * slope(d) if moves else 0.0


@by_token
def k3_unbiased(x):
    """DeepSeek-V3.2, with the derivative of the product."""
    d, e = x["logprob"] - x["old_logprob"], x["ref_logprob"] - x["logprob"]
    r, k = math.exp(clamp(d)), math.expm1(clamp(e)) - clamp(e)
    return r * k, r * slope(d) * k + r * (1 - math.exp(clamp(e))) * slope(e)


@by_token
def straight_through(x, *, kind):
    """The value of the kind with the derivative of d^2 / 2."""
    d = x["logprob"] - x["ref_logprob"]
    value = {"k1": d, "abs": abs(d), "k3": math.expm1(clamp(-d)) - clamp(-d)}[kind]
    return value, d


# -- selects


def covariances(columns):
    """Cui et al. 2025: {token: value}."""
    on = [(i, t) for i in range(len(columns["on"])) for t in tokens_of(columns["on"], i)]
    if not on:
        return {}
    a, x = ([columns[n][k] for k in on] for n in ("advantage", "logprob"))
    mean_a, mean_x = math.fsum(a) / len(on), math.fsum(x) / len(on)
    return {k: (u - mean_a) * (v - mean_x) for k, u, v in zip(on, a, x, strict=True)}


def m2po(columns, threshold):
    """Tokens that stay: drop the largest squared log ratio while the mean of those left is above the threshold."""
    left = sorted(
        ((columns["logprob"][i, t] - columns["old_logprob"][i, t]) ** 2, (i, t))
        for i in range(len(columns["on"]))
        for t in tokens_of(columns["on"], i)
    )
    while len(left) > 1 and math.fsum(x for x, _ in left) / len(left) > threshold:
        left.pop()
    return {k for _, k in left}


# -- corrections


def log_ratios(columns, i):
    """Trainer over sampler, both under the distribution that drew the token."""
    return [
        columns["old_logprob"][i, t] - columns["kept_logmass"][i, t] - columns["rollout_logprob"][i, t]
        for t in tokens_of(columns["on"], i)
    ]


def weights(columns, *, level, low, high, zero):
    result = np.zeros(columns["on"].shape)
    for i in range(len(result)):
        d = log_ratios(columns, i)
        if level != "token" and d:
            total = math.fsum(d) / (1 if level == "sequence" else len(d))
            d = [total] * len(d)
        for t, x in zip(tokens_of(columns["on"], i), d, strict=True):
            w = math.exp(clamp(x))
            bounded = min(max(w, low or 0.0), high if high is not None else math.inf)
            result[i, t] = (w if bounded == w else 0.0) if zero else bounded
    return result


def kept(columns, *, level, measure, low, high):
    result = np.zeros(columns["on"].shape, dtype=bool)
    for i in range(len(result)):
        d = [clamp(x) for x in log_ratios(columns, i)]
        steps = tokens_of(columns["on"], i)
        if measure == "k1":
            seen, bounds = d, (math.log(low), math.log(high))
        else:
            seen = [x * x / 2 if measure == "k2" else math.expm1(x) - x for x in d]
            bounds = (-math.inf, high)

        def inside(x, bounds=bounds):
            return bounds[0] <= x <= bounds[1]

        if level == "token":
            result[i, steps] = [inside(x) for x in seen]
        elif steps:
            whole = {"sum": math.fsum(seen), "mean": math.fsum(seen) / len(seen)}
            how = level.removeprefix("sequence_")
            result[i, steps] = all(map(inside, seen)) if how == "max" else inside(whole[how])
    return result
