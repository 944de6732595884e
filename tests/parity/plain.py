"""Plain NumPy versions of the shelf, written from the papers: one row, one token at a time, in float64, selecting only.

They share nothing with the package. Arrays are whole rows with holes: `on[i, t]` says which entries exist.
"""

import math

import numpy as np


def tokens_of(on, i):
    return [t for t in range(on.shape[1]) if on[i, t]]


# -- estimators


def group_advantages(reward, group, votes, *, kind, epsilon=1e-6):
    """DeepSeekMath section 4.1.2, Dr.GRPO section 3.2, RLOO; rows that do not vote get 0."""
    result = np.zeros(len(reward))
    for i in range(len(reward)):
        if not votes[i]:
            continue
        mine = [reward[j] for j in range(len(reward)) if votes[j] and group[j] == group[i]]
        others = [reward[j] for j in range(len(reward)) if votes[j] and group[j] == group[i] and j != i]
        if not others or min(mine) == max(mine):
            continue
        if kind.startswith("leave_one_out"):
            theirs = math.fsum(others) / len(others)
            result[i] = reward[i] - theirs
            if kind == "leave_one_out_scaled" and min(others) != max(others):
                result[i] /= math.sqrt(math.fsum((x - theirs) ** 2 for x in others) / (len(others) - 1)) + epsilon
            continue
        mean = math.fsum(mine) / len(mine)
        result[i] = reward[i] - mean
        if kind == "norm":
            result[i] /= math.sqrt(math.fsum((x - mean) ** 2 for x in mine) / (len(mine) - 1)) + epsilon
    return result


def gae(reward, value, on, *, gamma, lam):
    """Schulman et al. 2016, equation 16, as the sum over later tokens: A_t = sum_k (gamma lam)^k delta_{t+k}."""
    advantage, returns = np.zeros(on.shape), np.zeros(on.shape)
    for i in range(len(on)):
        steps = tokens_of(on, i)
        delta = []
        for k, t in enumerate(steps):
            following = value[i, steps[k + 1]] if k + 1 < len(steps) else 0.0
            delta.append(reward[i, t] + gamma * following - value[i, t])
        for k, t in enumerate(steps):
            advantage[i, t] = math.fsum((gamma * lam) ** (m - k) * delta[m] for m in range(k, len(steps)))
            returns[i, t] = advantage[i, t] + value[i, t]
    return advantage, returns


def reward_to_go(reward, on, *, gamma):
    """Williams 1992: G_t = sum_k gamma^k r_{t+k}."""
    result = np.zeros(on.shape)
    for i in range(len(on)):
        steps = tokens_of(on, i)
        for k, t in enumerate(steps):
            result[i, t] = math.fsum(gamma ** (m - k) * reward[i, steps[m]] for m in range(k, len(steps)))
    return result


def whiten(x, on, *, epsilon=1e-6):
    kept = [x[i, t] for i in range(len(on)) for t in tokens_of(on, i)]
    result = np.zeros(on.shape)
    if len(kept) < 2:
        mean, scale = 0.0, 1.0
    else:
        mean = math.fsum(kept) / len(kept)
        scale = math.sqrt(math.fsum((v - mean) ** 2 for v in kept) / (len(kept) - 1)) + epsilon
        if min(kept) == max(kept):
            mean = kept[0]
    for i in range(len(on)):
        for t in tokens_of(on, i):
            result[i, t] = (x[i, t] - mean) / scale
    return result


# -- losses; each gives the loss of one token and its derivative by the first argument


def clipped(logprob, old, advantage, *, low, high, dual=None):
    """Schulman et al. 2017, equation 7; Ye et al. 2020, equation 5."""
    difference = logprob - old
    ratio = math.exp(min(max(difference, -20.0), 20.0))
    slope = ratio if -20.0 <= difference <= 20.0 else 0.0
    bounded = min(max(ratio, 1 - low), 1 + high)
    if ratio * advantage <= bounded * advantage:
        loss, derivative = -ratio * advantage, -slope * advantage
    else:
        loss, derivative = -bounded * advantage, 0.0
    if dual is not None and advantage < 0 and loss > -dual * advantage:
        loss, derivative = -dual * advantage, 0.0
    return loss, derivative


def policy_gradient(logprob, advantage):
    return -advantage * logprob, -advantage


def value_clipped(new, old, returns, *, clip):
    near = min(max(new, old - clip), old + clip)
    if (near - returns) ** 2 > (new - returns) ** 2:
        return 0.5 * (near - returns) ** 2, (near - returns) if near == new else 0.0
    return 0.5 * (new - returns) ** 2, new - returns


def nll(logprob):
    return -logprob, -1.0


# -- KL, Schulman 2020; value and derivative by the log-probability


def kl(name, logprob, ref):
    d = logprob - ref
    if name == "k1":
        return d, 1.0
    if name == "k2":
        return d * d / 2, d
    if name == "absolute":
        return abs(d), float(np.sign(d))
    e = min(max(-d, -20.0), 20.0)
    return math.expm1(e) - e, (1 - math.exp(e)) if -20.0 <= -d <= 20.0 else 0.0


# -- reductions: the loss of a whole batch


def reduced(name, loss, on, group, length):
    rows = [[loss[i, t] for t in tokens_of(on, i)] for i in range(len(on))]
    live = [row for row in rows if row]
    if not live:
        return 0.0
    total = math.fsum(x for row in live for x in row)
    if name == "token_sum":
        return total
    if name == "token_mean":
        return total / sum(len(row) for row in live)
    if name == "sequence_mean_token_mean":
        return math.fsum(math.fsum(row) / len(row) for row in live) / len(live)
    if name == "sequence_mean_token_sum":
        return total / len(live)
    if name == "constant":
        return total / (len(live) * length)
    prompts = {}
    for i, row in enumerate(rows):
        prompts.setdefault(group[i], []).extend(row)
    means = [math.fsum(x) / len(x) for x in prompts.values() if x]
    return math.fsum(means) / len(means)
