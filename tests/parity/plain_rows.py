"""Plain versions of filters, shaping, readouts and controllers, from the papers: one row at a time, in float64."""

import math

import numpy as np

from tests.parity.plain import tokens_of


def scored_of(score, group):
    """{group: scores of its rows that have one}, groups in any order."""
    found = {}
    for s, g in zip(score, group, strict=True):
        found.setdefault(g, []).extend([] if math.isnan(s) else [s])
    return found


def dynamic_sampling(score, group):
    """DAPO, section 3.2: groups whose answers are neither all right nor all wrong."""
    keep = {g for g, scores in scored_of(score, group).items() if len(set(scores)) > 1}
    return [i for i, g in enumerate(group) if g in keep]


def accuracy_band(score, group, *, least, most):
    """PRIME's online prompt filtering: groups whose mean score lies in a band."""
    keep = {g for g, x in scored_of(score, group).items() if x and least <= math.fsum(x) / len(x) <= most}
    return [i for i, g in enumerate(group) if g in keep]


def resampling_weights(score, by, power):
    """Shen and Zhang 2024, over the batch: what each scored row is drawn in proportion to."""
    if by == "power":
        return [abs(s) ** power + 1e-8 for s in score]
    if by == "extremes":
        return [float(s in (min(score), max(score))) + 1e-8 for s in score]
    return [(0.4 if s == max(score) else 0.1) + 1e-8 for s in score]


def last_token_of_session(sampled, session, segment):
    """{session: (row, place)} of the last sampled token of the last segment that has one."""
    found = {}
    for i in sorted(range(len(sampled)), key=lambda i: segment[i]):
        if steps := tokens_of(sampled, i):
            found[session[i]] = (i, steps[-1])
    return found


def placed(value, sampled, session, segment):
    """A number per session on its last sampled token; the number of that token's row, nothing where it is NaN."""
    result = np.zeros(sampled.shape)
    for i, t in last_token_of_session(sampled, session, segment).values():
        result[i, t] = 0.0 if math.isnan(value[i]) else value[i]
    return result


def soft_overlong(sampled, session, segment, *, max_length, buffer, factor):
    """DAPO, equation 13, as a penalty that is at least 0: [B, T]."""
    drawn = {s: sum(len(tokens_of(sampled, i)) for i in range(len(session)) if session[i] == s) for s in session}
    penalty = []
    for s in session:
        over = drawn[s] - (max_length - buffer)
        share = (1.0 if over > 0 else 0.0) if buffer == 0 else min(max(over / buffer, 0.0), 1.0)
        penalty.append(factor * share)
    return placed(penalty, sampled, session, segment)


def overlong_mask(mask, stop, session):
    """DAPO, section 3.4: nothing of a session that a bound on its length cut off (stop 1)."""
    cut = {s for s, why in zip(session, stop, strict=True) if why == 1}
    return np.array([[bool(x) and s not in cut for x in row] for row, s in zip(mask, session, strict=True)])


def duplicate_mask(mask, tokens, sampled, group, session, segment):
    """Of a group's sessions with equal sampled tokens the one of the smallest id that is trained on."""
    rows = {s: sorted((i for i in range(len(session)) if session[i] == s), key=lambda i: segment[i]) for s in session}
    answer = {s: tuple(tokens[i, t] for i in mine for t in tokens_of(sampled, i)) for s, mine in rows.items()}
    first = {}
    for s in sorted(rows):
        if any(mask[i].any() for i in rows[s]):
            first.setdefault((group[rows[s][0]], answer[s]), s)
    kept = set(first.values())
    return np.array([row & (s in kept) for row, s in zip(mask, session, strict=True)])


def readouts(logits, token):
    """Log-probability of the token, entropy and sum of squares of one softmax."""
    top = max(logits)
    total = math.fsum(math.exp(z - top) for z in logits)
    p = [math.exp(z - top) / total for z in logits]
    entropy = -math.fsum(x * math.log(x) for x in p if x > 0)
    return {
        "logprob": logits[token] - top - math.log(total),
        "entropy": entropy,
        "square_sum": math.fsum(x * x for x in p),
    }


def adaptive_kl(coefficient, kl, on, *, target, horizon):
    """Ziegler et al. 2019, section 2.2, with the mean over rows of token means as the KL."""
    rows = [[kl[i, t] for t in tokens_of(on, i)] for i in range(len(on))]
    means = [math.fsum(row) / len(row) for row in rows if row]
    mean = math.fsum(means) / len(means) if means else 0.0
    error = min(max((mean - target) / target, -0.2), 0.2)
    return coefficient * (1 + error * len(means) / horizon)
