"""The type of discount factors, such as `gamma` and `lam`."""

from typing import Annotated

from pydantic import Field

Discount = Annotated[float, Field(ge=0, le=1)]
"""A factor per token, in [0, 1]; above 1 a reward would count more the later it comes."""
