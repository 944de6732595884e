"""The conformance kit for anyone's package: `test_contract = conform("advantage", mine)`.

`check(kind, thing)` gives the same as a list, fakes stand in for services (`Run(sampler=FakeSampler)`),
`rlcore.testing.plugin` asks everything that a distribution registered,
and `python -m rlcore.testing.parity FILE.json` compares with recorded numbers of other frameworks.
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
from rlcore.testing.kit import Checked as Checked
from rlcore.testing.kit import check as check
from rlcore.testing.kit import checks_of as checks_of
from rlcore.testing.kit import conform as conform
from rlcore.testing.kit import declared as declared
from rlcore.testing.kit import sentence as sentence
