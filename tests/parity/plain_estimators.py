"""Plain NumPy versions of more estimators, written from the papers: one row, one token at a time, in float64.

They share nothing with the package. Arrays are whole rows with holes: `on[i, t]` says which entries exist, `votes[i]`
which rows count at all; rows that do not vote get 0.
"""

import math

import numpy as np

from tests.parity.plain import tokens_of


def mean(values):
    return math.fsum(values) / len(values)


def deviation(values, bessel=True):
    if min(values) == max(values):
        return 0.0
    middle = mean(values)
    return math.sqrt(math.fsum((x - middle) ** 2 for x in values) / (len(values) - int(bessel)))


def group_of(i, group, votes):
    """Indices of the voting rows of row i's group."""
    return [j for j in range(len(group)) if votes[j] and group[j] == group[i]]


def norm(reward, group, votes, *, center, scale, leave_one_out, bessel, epsilon, keep_single):
    """(R - mean) / std over the group, the batch or nobody; DeepSeekMath 4.1.2, RLOO, Lite PPO."""
    everyone = [j for j in range(len(reward)) if votes[j]]
    result = np.zeros(len(reward))
    for i in everyone:
        over = {"group": group_of(i, group, votes), "batch": everyone}
        x = reward[i]
        if center != "none":
            mine = [reward[j] for j in over[center]]
            others = [reward[j] for j in over[center] if j != i]
            if not others:
                x = reward[i] if keep_single else 0.0
            elif min(mine) == max(mine):
                x = 0.0
            else:
                x -= mean(others) if leave_one_out else mean(mine)
        if scale != "none":
            rows = [reward[j] for j in over[scale] if not (leave_one_out and j == i)]
            spread = deviation(rows, bessel) if len(rows) > 1 else 0.0
            x = x / (spread + epsilon) if spread > 0 else x
        result[i] = x
    return result


def best_margin(reward, group, votes, *, scale_by_std, epsilon=1e-6):
    """Tang et al. 2025: what the best sample adds to the maximum, by taking each sample out in turn."""
    result = np.zeros(len(reward))
    for i in range(len(reward)):
        mine = [reward[j] for j in group_of(i, group, votes)] if votes[i] else []
        if len(mine) < 2:
            continue
        without = [reward[j] for j in group_of(i, group, votes) if j != i]
        result[i] = max(mine) - max(without)
        if scale_by_std and result[i]:
            result[i] /= deviation(mine) + epsilon
    return result


def length_weighted(reward, group, votes, length, *, keep_single):
    """Hao et al. 2025: b = sum L R / sum L."""
    result = np.zeros(len(reward))
    for i in range(len(reward)):
        if not votes[i]:
            continue
        mine = group_of(i, group, votes)
        values = [reward[j] for j in mine]
        if len(mine) == 1:
            result[i] = reward[i] if keep_single else 0.0
        elif min(values) != max(values):
            result[i] = reward[i] - math.fsum(length[j] * reward[j] for j in mine) / sum(length[j] for j in mine)
    return result


def mean_ratio(reward, group, votes, *, epsilon=1e-6):
    """Tajwar et al. 2026: (R - mean) / mean."""
    result = np.zeros(len(reward))
    for i in range(len(reward)):
        values = [reward[j] for j in group_of(i, group, votes)] if votes[i] else [0.0]
        if min(values) == max(values):
            continue
        middle = mean(values)
        result[i] = (reward[i] - middle) / (middle + epsilon) if middle > 0 else reward[i] - middle
    return result


def greedy_baseline(token_reward, greedy, on):
    """Li et al. 2024: the rewards that are still to come, less the greedy answer's."""
    result = np.zeros(on.shape)
    for i in range(len(on)):
        steps = tokens_of(on, i)
        for k, t in enumerate(steps):
            result[i, t] = math.fsum(token_reward[i, s] for s in steps[k:]) - greedy[i]
    return result


def per_active_row(advantage, reward, votes, on, *, active):
    """Chu et al. 2025: A B / (B - M)."""
    rows = [i for i in range(len(on)) if votes[i]]
    alive = [
        i for i in rows if (reward[i] != 0 if active == "reward" else any(advantage[i, t] for t in tokens_of(on, i)))
    ]
    return np.where(on, advantage * (len(rows) / max(len(alive), 1)), 0.0)


def whiten_rows(x, on, votes, *, shift_mean, epsilon=1e-6):
    """Every row has one vote, which its tokens share."""
    rows = [i for i in range(len(on)) if votes[i]]
    if len(rows) < 2:
        return np.where(on, x, 0.0)
    middle = mean([mean([x[i, t] for t in tokens_of(on, i)]) for i in rows])
    squares = [mean([(x[i, t] - middle) ** 2 for t in tokens_of(on, i)]) for i in rows]
    spread = math.sqrt(math.fsum(squares) / (len(rows) - 1))
    kept = [x[i, t] for i in rows for t in tokens_of(on, i)]
    if min(kept) == max(kept):
        middle, spread = kept[0], 0.0
    result = (x - middle) / (spread + epsilon) + (0 if shift_mean else middle)
    return np.where(on, result, 0.0)


def token_baseline(token_reward, logprob, square_sum, group, votes, on, weight, *, zero_tail, epsilon=1e-8):
    """Li et al. 2026: returns less their mean weighted by spent energy, over the rows that are still going."""
    rows = {i: tokens_of(on, i) for i in range(len(on)) if votes[i]}
    returns, spent = {}, {}
    for i, steps in rows.items():
        energy = 0.0
        for k, t in enumerate(steps):
            u = 1.0 if weight is None else weight[i, t]
            energy += u * u * (1 - 2 * math.exp(logprob[i, t]) + square_sum[i, t])
            returns[i, k] = math.fsum(token_reward[i, s] for s in steps[k:])
            spent[i, k] = energy
    result = np.zeros(on.shape)
    for i, steps in rows.items():
        mine = group_of(i, group, votes)
        every = [returns[j, k] for j in mine for k in range(len(rows[j]))]
        if len(mine) < 2 or min(every) == max(every):
            continue
        for k, t in enumerate(steps):
            going = [j for j in mine if len(rows[j]) > k]
            total = math.fsum(spent[j, k] for j in going)
            baseline = math.fsum(returns[j, k] * spent[j, k] for j in going) / (total + epsilon)
            result[i, t] = returns[i, k] - (0.0 if zero_tail and len(going) == 1 else baseline)
    return result


def process_leave_one_out(reward, process, group, votes, on, *, gamma, process_weight):
    """Cui et al. 2025: outcome and process reward, each less the mean of the prompt's other samples."""
    result = np.zeros(on.shape)
    for i in range(len(on)):
        others = [j for j in group_of(i, group, votes) if j != i] if votes[i] else []
        if not others:
            continue
        baseline = mean([mean([process[j, t] for t in tokens_of(on, j)]) for j in others])
        outcome = reward[i] - mean([reward[j] for j in others])
        steps = tokens_of(on, i)
        for k, t in enumerate(steps):
            to_come = math.fsum(gamma ** (m - k) * (process[i, steps[m]] - baseline) for m in range(k, len(steps)))
            result[i, t] = process_weight * to_come + outcome
    return result
