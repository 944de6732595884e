"""How long to wait before a request is sent again."""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Mapping

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the second attempt, and the most between any two when the server does not ask for more."""


def is_transient(status: int) -> bool:
    """Return whether an HTTP status may pass: it speaks of a timeout, too many requests or a failing server."""
    return status in (408, 409, 425, 429) or status >= 500


def backoff(attempt: int) -> float:
    """Return seconds to wait after the failed attempt of this number (from 1): doubled each time, then halved at
    random.

    The wait is drawn evenly from the upper half of `FIRST_WAIT * 2**(attempt - 1)`, at most `LONGEST_WAIT`, so that
    requests which failed together do not come back together.
    """
    most: float = min(FIRST_WAIT * 2.0 ** min(attempt - 1, 30), LONGEST_WAIT)
    return random.uniform(most / 2, most)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return seconds that a response asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date; None
    without.

    Keys are looked up in lower case. What cannot be read, or lies in the past, is None.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        when = email.utils.parsedate_to_datetime(headers["retry-after"])
        seconds = when.timestamp() - time.time()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    return seconds if seconds >= 0 else None
