"""What a sampler can say of the tokens that it draws, against what the graph reads of them."""

from __future__ import annotations

from typing import Any

from rlcore.component import name_of, source_of
from rlcore.errors import ConfigError
from rlcore.graph import Plan
from rlcore.settings import Sampling


def check_kept_mass(plan: Plan, sampling: Sampling, sampler: Any) -> None:
    """Raise ConfigError where something compares log-probabilities of a cut distribution whose mass nobody knows.

    `sampler` is a started one or what starts it; what does not say `reports_kept_logmass` is asked once it is started.
    """
    cut = {"top_p": sampling.top_p < 1, "top_k": sampling.top_k > 0, "min_p": sampling.min_p > 0}
    readers = [node.name for node in plan.nodes if "kept_logmass" in plan.available_reads(node)]
    says = getattr(sampler, "reports_kept_logmass", getattr(source_of(sampler), "reports_kept_logmass", None))
    if says is not False or not readers or not any(cut.values()):
        return
    on = ", ".join(f"sampling.{name}={getattr(sampling, name)}" for name, cuts in cut.items() if cuts)
    raise ConfigError(
        f"{', '.join(readers)} compares the sampler's log-probabilities with the trainer's, but under {on} they are "
        f"those of a cut distribution, and sampler {name_of(sampler)} does not report the mass that it kept "
        f"(reports_kept_logmass). Draw from the whole one (top_p=1, top_k=0, min_p=0), or drop what compares"
    )
