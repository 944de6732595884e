"""Calls of one reward, or of a combination, on many samples: begun at once, waited for later."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

from rlcore.component import started
from rlcore.errors import ConfigError, DataError, RewardError, printable
from rlcore.protocols import Graded, Sample
from rlcore_rewards import calling
from rlcore_rewards.calling import Caller, UnscoredError, optional_attribute, read_outcome, read_outcomes
from rlcore_rewards.combinations import Combination, Wait
from rlcore_rewards.managers import reward_host
from rlcore_rewards.managers.reward_host import BlockedError, RewardHost
from rlcore_workers import Stopped
from rlcore_workers.fork_server import describe_error
from rlcore_workers.processes import RemoteTraceback

log = logging.getLogger("rlcore")

ArgumentsOf = Callable[[], tuple[list[Any], dict[str, Any]]]
Results = Callable[[], list[Any]]
OWN_FILES = (__file__, calling.__file__, reward_host.__file__)
"""Frames of these, above a reward's own, tell its author nothing."""
FEWEST_STOPPED = 8  # when nothing has ever been scored, this many rows stopped one after another are enough to stop


def managed_reward(reward: Any, name: str, host: RewardHost) -> SingleReward | CombinedRewards:
    """Return a reward as a manager calls it. A class is started: each manager has its own instance."""
    instance = started(reward)
    if isinstance(instance, Combination):
        return CombinedRewards(instance, name, host)
    return SingleReward(Caller(instance, name or calling.display_name(reward)), host)


class CombinedRewards:
    """A combination whose components the manager calls, each where it belongs."""

    def __init__(self, combination: Combination, name: str, host: RewardHost) -> None:
        self.combination = combination
        prefix = f"{name}." if name else ""
        self.components: dict[str, SingleReward | CombinedRewards] = {
            key: managed_reward(component, f"{prefix}{key}", host) for key, component in combination.components.items()
        }
        inner = ((key, component.names) for key, component in self.components.items())
        self.checks_rows: bool = combination.checks_rows or any(
            component.checks_rows for component in self.components.values()
        )
        self.names: tuple[str, ...] = tuple(
            one for key, names in inner for one in (key, *(f"{key}.{name}" for name in names))
        )

    def check(self, columns: Collection[str]) -> None:
        """Check every component, and the columns that the combination itself reads."""
        self.combination.check(columns)
        for component in self.components.values():
            component.check(columns)

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Check the row with the components that would score it."""
        for key in self.combination.components_for(data):
            self.components[key].check_row(data)

    def begin(self, samples: Sequence[Sample]) -> Wait:
        """Begin the components as the combination says; return a function that waits for the grades."""
        return self.combination.begin(samples, {key: component.begin for key, component in self.components.items()})

    def close(self) -> None:
        """Close every component."""
        for component in self.components.values():
            component.close()


class SingleReward:
    """One reward: where its calls run, and what became of each."""

    names: tuple[str, ...] = ()

    def __init__(self, caller: Caller, host: RewardHost) -> None:
        self.caller, self.host = caller, host
        self.checks_rows = caller.check_row is not None
        self.limit = None if caller.bounded else host.seconds
        self.here = caller.bounded or not host.isolate

    def check(self, columns: Collection[str]) -> None:
        """Raise RewardError for a column that is not there, ConfigError for a function that no worker can have."""
        self.caller.check(columns)
        if not self.here and not self.caller.asynchronous:
            try:
                self.host.processes.prepare(self.caller.function)
            except ConfigError as error:
                raise ConfigError(
                    f"reward {self.caller.name!r}: {error}. reward_manager.isolate=false calls it in this process,"
                    " without a limit"
                ) from error

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Check the row, if the reward has a check of rows. Raises DataError for a row that cannot be graded."""
        if self.caller.check_row is None:
            return
        try:
            self.caller.check_row(data)
        except ValueError as error:
            raise DataError(f"reward {self.caller.name!r} could grade no completion: {error}") from error

    def close(self) -> None:
        """Close the reward, if it can be closed."""
        close = optional_attribute(self.caller.function, "close")
        if close is not None:
            close()

    def begin(self, samples: Sequence[Sample]) -> Wait:
        """Begin every call; return a function that waits for the grades. A failed call is a grade with an error."""
        if not samples:
            return list
        copied = self.here or self.caller.asynchronous  # what travels is a copy anyway
        if self.caller.batched:
            arguments = [partial(self.caller.batch_arguments, samples, copied=copied)]
        else:
            arguments = [partial(self.caller.arguments, sample, copied=copied) for sample in samples]
        call = self._in_loop if self.caller.asynchronous else self._in_threads if self.here else self._in_workers
        results = call(arguments)

        def wait() -> list[Graded]:
            found = results()
            outcomes = (
                read_outcomes(found[0], len(samples)) if self.caller.batched else [read_outcome(one) for one in found]
            )
            return [self._grade(sample, row, outcomes[row]) for row, sample in enumerate(samples)]

        return wait

    def _grade(self, sample: Sample, row: int, outcome: Graded | BaseException) -> Graded:
        if isinstance(outcome, Graded):
            return outcome
        self.host.failed(self.caller, sample, row, outcome)
        return Graded(math.nan, {}, failure_line(self.caller, outcome))

    def _in_threads(self, arguments: Sequence[ArgumentsOf]) -> Results:
        if self.host.workers == 1:
            return lambda: [self._call(one) for one in arguments]
        results = self.host.threads.map(self._call, arguments)
        return lambda: list(results)  # whoever interrupts it gives up the rest

    def _call(self, arguments: ArgumentsOf) -> Any:
        try:
            positional, named = arguments()
            result = self.caller.function(*positional, **named)
            if not inspect.isawaitable(result):
                return result
            return self.host.loop.start(await_within(result, self.limit)).result()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's function may raise anything; its row is unscored
            return error

    def _in_loop(self, arguments: Sequence[ArgumentsOf]) -> Results:
        loop = self.host.loop
        free = loop.free
        name = f"reward {self.caller.name!r}"
        missing = object()
        results: list[Any] = [missing] * len(arguments)

        async def call_row(row: int) -> None:
            async with free:
                try:
                    positional, named = arguments[row]()
                    call = self.caller.function(*positional, **named)
                    results[row] = await await_within(call, self.limit, f"{name}, row {row} of its call,")
                except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
                    results[row] = error

        async def call_all_rows() -> None:
            await asyncio.gather(*(call_row(row) for row in range(len(arguments))))

        begun = loop.start(call_all_rows())

        def wait() -> list[Any]:
            why = ""
            try:
                loop.watch(begun, self.limit)
            except BlockedError as error:
                self.host.abandon(loop)
                why = f"not finished when {error} blocked the event loop: it must await what takes long"
            except CancelledError:
                why = "not finished when its event loop was closed, or a reward cancelled what was not its own"
            except BaseException:  # the caller was interrupted: nobody wants the rest
                begun.cancel()
                raise
            if why:
                log.warning("%s: %s", name, why)
            return [Stopped(why) if result is missing else result for result in results]

        return wait

    def _in_workers(self, arguments: Sequence[ArgumentsOf]) -> Results:
        results: list[Any] = [None] * len(arguments)
        calls = {}
        for row, one in enumerate(arguments):
            try:
                calls[row] = one()
            except UnscoredError as error:
                results[row] = error
        futures = dict(zip(calls, self.host.processes.submit_all(self.caller.function, calls.values()), strict=True))

        def wait() -> list[Any]:
            stopped = 0
            try:
                for row, future in futures.items():
                    error = future.exception()
                    results[row] = future.result() if error is None else error
                    stopped += isinstance(error, Stopped) and error.limit == "time"
                    self._check_stopped(stopped, row + 1)
            except BaseException:  # the caller was interrupted, or the run is: nobody wants the rest
                for future in futures.values():
                    future.cancel()
                raise
            return results

        return wait

    def _check_stopped(self, stopped: int, calls: int) -> None:
        """Raise RewardError where calls have done nothing but hang, from the first one on: the rest would too."""
        if stopped == calls and not self.host.scored and stopped >= max(FEWEST_STOPPED, 2 * self.host.workers):
            raise RewardError(
                f"reward {self.caller.name!r}: the first {stopped} calls were all stopped after {self.limit:g} s;"
                " a call may take longer with reward_manager.seconds=N"
            )


async def await_within(call: Awaitable[Any], seconds: float | None, name: str = "") -> Any:
    """Return what an awaitable gives. Raises Stopped past its time, whatever it makes of being cancelled."""
    task = asyncio.ensure_future(catch_all(call))
    task.set_name(name)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        raise Stopped(f"stopped after {seconds:g} s", "time")
    result, error = task.result()
    if error is None:
        return result
    if isinstance(error, Exception):
        raise error
    # What would end an interpreter, a loop or the other calls ends this one.
    raise RewardError(describe_error(error)) from error


async def catch_all(call: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Return the result of an awaitable and its exception, also one that would end the loop's thread."""
    try:
        return await call, None
    except BaseException as error:  # noqa: BLE001 - a stranger's function may raise anything; its row is unscored
        return None, error


def failure_line(caller: Caller, error: BaseException) -> str:
    """Return a failure in one line: the reward's name, and what it raised or returned."""
    text = str(error) if isinstance(error, RewardError) else describe_error(error)
    text = " ".join(text.split("\n"))  # a failure is one line of a table
    return printable(f"reward {caller.name!r}: {text}")


def traceback_lines(error: BaseException) -> list[str]:
    """Return the lines of a traceback, from the reward's own code on; none for what was returned or stopped."""
    if isinstance(error, UnscoredError | Stopped):
        return []
    if isinstance(error.__cause__, RemoteTraceback):
        return [printable(line) for line in str(error.__cause__).strip().splitlines()]
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in OWN_FILES:
        trace = trace.tb_next
    lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()
    return [printable(line) for line in lines]
