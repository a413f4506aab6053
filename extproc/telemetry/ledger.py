"""What ended lately, for people who look at the console: counts, distributions and the slowest, by slots of time.

An entry touches one slot and one tally in it, so recording costs a microsecond or two. Everything is bounded: slots,
keys in a slot, the length of names. Slots add up: several processes hand theirs to one of them, in any order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from extproc.telemetry.backlog import Backlog
from extproc.telemetry.metrics import TokenCounts

SLOT_SECONDS: Final = 15
SLOTS: Final = 240
"""Slots that are kept: one hour."""
MAX_KEYS: Final = 40
"""Distinct keys in a slot; what comes later in it is counted as ``other``."""
MAX_COSTS: Final = 8
"""Distinct cost keys in a tally; further ones are added up as ``other``."""
MAX_NAME: Final = 120
"""Characters of a name that are kept: clients choose models and request ids."""
SLOWEST: Final = 10
"""Entries that a slot keeps whole."""
OTHER: Final = "other"

Key: TypeAlias = tuple[str, str, str]
"""Model, backend and route."""

Distribution: TypeAlias = dict[int, int]
"""Number of a step to how many values fell into it; steps grow by a twelfth, so a percentile is right within 5 %."""


class _Ended(Protocol):
    """What ``Ledger.record_alike`` reads of each: the values that ``Entry`` has under these or like names."""

    @property
    def ended_at(self) -> float: ...
    @property
    def elapsed(self) -> float: ...
    @property
    def first_byte(self) -> float | None: ...
    @property
    def usage(self) -> TokenCounts: ...
    def charged(self) -> Mapping[str, int]: ...


_EndedT = TypeVar("_EndedT", bound=_Ended)
_Name = TypeVar("_Name", str, int)

_OTHERS: Final[Key] = (OTHER, OTHER, OTHER)
_STEPS_PER_DOUBLING: Final = 8
_SHORTEST: Final = 1e-4
_STEPS: Final = 255
# The longest duration of each step; what is longer than the last, some 4 days, falls into one more.
_BOUNDS: Final = tuple(_SHORTEST * 2 ** (step / _STEPS_PER_DOUBLING) for step in range(_STEPS))


class Entry(Struct, frozen=True, array_like=True):
    """An attempt at a backend that has ended, or a request that was answered before there was one.

    Attributes:
        at: when it ended, in seconds since 1970.
        model: the one that the backend was asked for.
        asked: the one in the client's request.
        backend: its short name.
        route: its name, or empty.
        operation: ``gen_ai.operation.name``.
        outcome: how it ended, a value of ``exchange.accounts.Outcome``.
        status: HTTP status of the backend, or of who answered in its place; 0 without an answer.
        seconds: how long it took.
        prepared: seconds until its request was ready for the backend; None if it never was.
        headers: seconds until the backend's headers came; None if they did not.
        first_byte: seconds until the first piece of a successful answer's body came, likewise.
        streamed: the client asked for a stream.
        request_id: the client's ``x-request-id``, may be empty.
        costs: what the cost rules gave, by metadata key.
        input, cached, output, reasoning: tokens, as in ``extproc.usage``.
    """

    at: float
    model: str
    asked: str
    backend: str
    route: str
    operation: str
    outcome: str
    status: int
    seconds: float
    prepared: float | None
    headers: float | None
    first_byte: float | None
    streamed: bool
    request_id: str
    costs: Mapping[str, int]
    input: int
    cached: int
    output: int
    reasoning: int

    @classmethod
    def unattempted(cls, at: float, model: str, operation: str, status: int, request_id: str) -> Entry:
        """A request that was answered before a backend was asked: it has no backend, and took no time of one."""
        return cls(
            *(at, model, model, "", "", operation, "refused", status),
            *(0.0, None, None, None, False, request_id),
            *({}, 0, 0, 0, 0),
        )


class Tally(Struct, array_like=True):
    """The sum of some entries.

    Attributes:
        others: how many ended otherwise than by success, by outcome.
        latency: how long those took that succeeded.
        first_token: the time to the first piece of those of them that were streamed.
    """

    others: dict[str, int] = field(default_factory=dict)
    costs: dict[str, int] = field(default_factory=dict)
    latency: Distribution = field(default_factory=dict)
    first_token: Distribution = field(default_factory=dict)
    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0

    def count(
        self,
        outcome: str,
        *,
        seconds: Sequence[float],
        first_token: Iterable[float],
        tokens: tuple[int, int, int, int],
        costs: Iterable[Mapping[str, int]],
    ) -> None:
        """Count what has ended in the same way.

        Args:
            outcome: in which.
            seconds: how long each took.
            first_token: when the first pieces came of those that were streamed.
            tokens: the sums of input, cached, output and reasoning.
            costs: those of each.
        """
        input_, cached, output, reasoning = tokens
        self.input += input_
        self.cached += cached
        self.output += output
        self.reasoning += reasoning
        together: dict[str, int] = {}
        for each in costs:
            for key, amount in each.items():
                together[key] = together.get(key, 0) + amount
        add_costs(self.costs, together)
        if outcome != "success":
            self.others[outcome] = self.others.get(outcome, 0) + len(seconds)
            return
        for distribution, values in ((self.latency, seconds), (self.first_token, first_token)):
            for value in values:
                step = bisect_left(_BOUNDS, value)
                distribution[step] = distribution.get(step, 0) + 1

    def merge(self, other: Tally) -> None:
        """Add what another one has counted."""
        _add_up(self.others, other.others)
        _add_up(self.latency, other.latency)
        _add_up(self.first_token, other.first_token)
        add_costs(self.costs, other.costs)
        self.input += other.input
        self.cached += other.cached
        self.output += other.output
        self.reasoning += other.reasoning

    @property
    def succeeded(self) -> int:
        return sum(self.latency.values())

    @property
    def attempts(self) -> int:
        return self.succeeded + sum(self.others.values())


class Slot(Struct, array_like=True):
    """A quarter of a minute.

    Attributes:
        number: which one, counted from 1970.
        tallies: at most ``MAX_KEYS`` and one for others.
        slowest: the entries that took longest, in no order.
        floor: an entry that took no longer than this is none of the slowest.
    """

    number: int
    tallies: dict[Key, Tally] = field(default_factory=dict)
    slowest: list[Entry] = field(default_factory=list)
    floor: float = -1.0

    def tally(self, key: Key) -> Tally:
        """Where entries with this key are counted."""
        tally = self.tallies.get(key)
        if tally is not None:
            return tally
        model, backend, route = key
        key = (model[:MAX_NAME], backend[:MAX_NAME], route[:MAX_NAME])
        if key not in self.tallies and len(self.tallies) >= MAX_KEYS:
            key = _OTHERS
        return self.tallies.setdefault(key, Tally())

    def keep(self, entry: Entry) -> None:
        """Take an entry in among the slowest, if it is one."""
        slowest = self.slowest
        if len(slowest) < SLOWEST:
            slowest.append(_bounded(entry))
        else:
            place = min(range(SLOWEST), key=lambda index: slowness(slowest[index]))
            if slowness(entry) <= slowness(slowest[place]):
                return
            slowest[place] = _bounded(entry)
        if len(slowest) == SLOWEST:
            # Equally slow ones are told apart by their ids, so that the order in which they come does not matter.
            self.floor = min(kept.seconds for kept in slowest)

    def merge(self, other: Slot) -> None:
        """Add what another process has recorded in the same slot."""
        for key, tally in other.tallies.items():
            self.tally(key).merge(tally)
        for entry in other.slowest:
            if entry.seconds >= self.floor:
                self.keep(entry)


class Ledger:
    """The slots of the last hour. Not thread-safe: everything is recorded on the event loop.

    Attributes:
        backlog: has what is yet to be recorded here, too.
    """

    def __init__(self) -> None:
        self.backlog = Backlog()
        self._slots: dict[int, Slot] = {}
        self._current = Slot(-1)
        # When the current slot begins and ends.
        self._since = self._until = 0.0

    def record(self, entry: Entry) -> None:
        """Count what has ended."""
        slot = self._slot_at(entry.at)
        slot.tally((entry.model, entry.backend, entry.route)).count(
            entry.outcome,
            seconds=(entry.seconds,),
            first_token=(entry.first_byte,) if entry.streamed and entry.first_byte is not None else (),
            tokens=(entry.input, entry.cached, entry.output, entry.reasoning),
            costs=(entry.costs,),
        )
        if entry.seconds >= slot.floor:
            slot.keep(entry)

    def record_alike(
        self,
        key: Key,
        outcome: str,
        ended: Sequence[_EndedT],
        entry: Callable[[_EndedT], Entry],
        *,
        streamed: bool,
    ) -> None:
        """Count what has ended in the same way and has the same names, without an entry for each.

        Args:
            key: the names.
            outcome: how all have ended.
            ended: each of these.
            entry: makes an entry of one that is among the slowest.
            streamed: the clients asked for streams.
        """
        numbers = [int(each.ended_at) // SLOT_SECONDS for each in ended]
        for number in dict.fromkeys(numbers):
            together = [each for each, its in zip(ended, numbers, strict=True) if its == number]
            slot = self._slot_at(together[0].ended_at)
            usages = [each.usage for each in together]
            slot.tally(key).count(
                outcome,
                seconds=[each.elapsed for each in together],
                first_token=[each.first_byte for each in together if each.first_byte is not None] if streamed else (),
                tokens=(
                    sum([usage.input or 0 for usage in usages]),
                    sum([usage.cached_input or 0 for usage in usages]),
                    sum([usage.output or 0 for usage in usages]),
                    sum([usage.reasoning or 0 for usage in usages]),
                ),
                costs=[each.charged() for each in together],
            )
            for each in together:
                if each.elapsed >= slot.floor:
                    slot.keep(entry(each))

    def take(self) -> list[Slot]:
        """Everything that was recorded since the last time, which from now on is the caller's alone."""
        self.backlog.settle()
        slots = list(self._slots.values())
        # Nothing that was handed out may be touched again.
        self._slots = {}
        self._since = self._until = 0.0
        return slots

    def absorb(self, slots: Iterable[Slot]) -> None:
        """Add what another process has recorded."""
        for slot in slots:
            self._slot(slot.number).merge(slot)

    def slots(self, first: int, last: int) -> Iterator[Slot]:
        """The slots from one number to another, those with nothing in them left out."""
        self.backlog.settle()
        for number in range(first, last + 1):
            slot = self._slots.get(number)
            if slot is not None:
                yield slot

    def _slot_at(self, at: float) -> Slot:
        if not self._since <= at < self._until:
            number = int(at) // SLOT_SECONDS
            self._current = self._slot(number)
            self._since, self._until = number * SLOT_SECONDS, (number + 1) * SLOT_SECONDS
        return self._current

    def _slot(self, number: int) -> Slot:
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = Slot(number)
            if len(self._slots) > SLOTS:
                self._forget(number)
        return slot

    def _forget(self, number: int) -> None:
        """Forget slots more than an hour off: old ones, and those from before the clock was set back."""
        far = [known for known in self._slots if abs(known - number) >= SLOTS]
        for known in far or [min(self._slots.keys() - {number})]:
            del self._slots[known]


def step_of(seconds: float) -> int:
    """The step of a distribution that a duration falls into."""
    return bisect_left(_BOUNDS, seconds)


def percentile(distribution: Distribution, share: float) -> float | None:
    """The duration in seconds that this share of values does not exceed; None without values."""
    rank = share * sum(distribution.values())
    reached = 0
    for step in sorted(distribution):
        reached += distribution[step]
        if reached >= rank:
            # The middle of the step, on its logarithmic scale.
            return _SHORTEST if step == 0 else _SHORTEST * 2 ** ((step - 0.5) / _STEPS_PER_DOUBLING)
    return None


def add_costs(costs: dict[str, int], others: Mapping[str, int]) -> None:
    """Add costs by key; config reloads may bring ever new keys, of which ``MAX_COSTS`` are told apart."""
    for name, amount in others.items():
        if name in costs:
            costs[name] += amount
        else:
            key = name[:MAX_NAME] if len(costs) < MAX_COSTS else OTHER
            costs[key] = costs.get(key, 0) + amount


def slowness(entry: Entry) -> tuple[float, float, str]:
    """What entries are ordered by."""
    return entry.seconds, entry.at, entry.request_id


def _add_up(own: dict[_Name, int], others: dict[_Name, int]) -> None:
    for name, count in others.items():
        own[name] = own.get(name, 0) + count


def _bounded(entry: Entry) -> Entry:
    names = (entry.model, entry.asked, entry.backend, entry.route, entry.request_id)
    if len("".join(names)) <= MAX_NAME:
        return entry
    return replace(
        entry,
        model=entry.model[:MAX_NAME],
        asked=entry.asked[:MAX_NAME],
        backend=entry.backend[:MAX_NAME],
        route=entry.route[:MAX_NAME],
        request_id=entry.request_id[:MAX_NAME],
    )
