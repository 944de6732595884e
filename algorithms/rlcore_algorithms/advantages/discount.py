"""How much of what comes later counts at a token."""

from typing import Annotated

from pydantic import Field

Discount = Annotated[float, Field(ge=0, le=1)]
"""A factor per token, in [0, 1]: past 1 a reward would grow with its distance."""
