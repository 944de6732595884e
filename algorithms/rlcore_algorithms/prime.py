"""PRIME: process reinforcement through implicit rewards (Cui et al. 2025, arXiv:2502.01456, algorithm 1).

    r_t    = beta (log pi_rm(y_t) - log pi_ref(y_t))            the implicit process reward
    A_i,t  = process_leave_one_out(outcome, r)
    ratio  = exp(logprob - old_logprob)
    loss   = mean over tokens of  max(-A ratio, -A clip(ratio, 1 - clip, 1 + clip))
    pi_rm  <- cross-entropy of the outcome under beta sum_t log (pi_rm / pi_ref), once a step

The reward model starts with the policy's weights and is trained in each step, after its rewards were computed. Prompts
whose mean score is outside [least, most] are dropped. What differs from the paper: policy and reward model share the
run's learning rate.
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore.graph import Node
from rlcore.protocols import Forward, Term, Update
from rlcore_algorithms.advantages import process_leave_one_out
from rlcore_algorithms.filters import accuracy_band
from rlcore_algorithms.losses import clipped, outcome_cross_entropy
from rlcore_algorithms.reductions import sequence_mean_token_mean, token_mean
from rlcore_algorithms.shaping import implicit_process_reward


def prime(
    *,
    group_size: int = 4,
    beta: float = 0.05,
    gamma: float = 1.0,
    process_weight: float = 1.0,
    clip: float = 0.2,
    least: float = 0.2,
    most: float = 0.8,
    epochs: int = 1,
    minibatches: int = 1,
) -> Algorithm:
    """PRIME: a process reward model that learns from outcomes while it is used."""
    learn = Update((Term(bind(outcome_cross_entropy, beta=beta), sequence_mean_token_mean, name="outcome"),))
    return Algorithm(
        name="prime",
        advantage=bind(process_leave_one_out, gamma=gamma, process_weight=process_weight),
        loss=bind(clipped, clip_low=clip, clip_high=clip),
        reduction=token_mean,
        filter=bind(accuracy_band, least=least, most=most),
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
        extra=(
            (
                Node(
                    Forward({"reward_model_logprob": "logprob"}),
                    name="reward_model_logprob",
                    kind="forward",
                    role="reward_model",
                ),
                "before",
                "advantage",
            ),
            (
                Node(bind(implicit_process_reward, beta=beta), name="process_reward", kind="correction"),
                "before",
                "advantage",
            ),
            (Node(learn, name="reward_model_update", kind="update", role="reward_model"), "after", "update"),
        ),
    )
