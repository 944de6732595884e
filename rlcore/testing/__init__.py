"""The conformance kit for anyone's package: `test_contract = conform("advantage", mine)`.

`check(kind, thing)` returns the results as a list, `registered_checks(distribution)` yields the checks of all that a
package registered, and fakes stand in for services (`Run(sampler=FakeSampler)`).
"""

from rlcore.testing.fakes import FakeEnvironment as FakeEnvironment
from rlcore.testing.fakes import FakeManager as FakeManager
from rlcore.testing.fakes import FakeOrder as FakeOrder
from rlcore.testing.fakes import FakeSampler as FakeSampler
from rlcore.testing.fakes import FakeTracker as FakeTracker
from rlcore.testing.fakes import FakeTrainer as FakeTrainer
from rlcore.testing.fakes import FakeWeightTransfer as FakeWeightTransfer
from rlcore.testing.fakes import counted as counted
from rlcore.testing.fakes import registered as registered
from rlcore.testing.kit import CheckResult as CheckResult
from rlcore.testing.kit import check as check
from rlcore.testing.kit import checks_of as checks_of
from rlcore.testing.kit import conform as conform
from rlcore.testing.kit import declared_failures as declared_failures
from rlcore.testing.kit import registered_checks as registered_checks
