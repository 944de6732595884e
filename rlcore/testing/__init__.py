"""The conformance kit for anyone's package: `test_contract = conform("advantage", mine)`.

`check(kind, thing)` gives the same as a list, `rlcore.testing.plugin` asks everything that a distribution registered.
"""

from rlcore.testing.kit import CheckResult as CheckResult
from rlcore.testing.kit import check as check
from rlcore.testing.kit import checks_of as checks_of
from rlcore.testing.kit import conform as conform
from rlcore.testing.kit import declared_failures as declared_failures
from rlcore.testing.kit import kinds as kinds
from rlcore.testing.kit import sentence as sentence
