"""The models that providers say they have, asked of them in the background: what ``/v1/models`` lists.

Only where resources are made of environment variables, whose routes take a model of any name. Nothing waits for an
answer for long, and a provider that gives none is served all the same; what it said last stays.
"""

from __future__ import annotations

import http.client
import queue
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from deploy.local import automatic
from deploy.local.automatic import Provider
from filter_config.model import ZERO_TIME, Model

if TYPE_CHECKING:
    from deploy.local.compiling import Outcome

_ASK_TIMEOUT: Final = 5.0
_FIRST_WAIT: Final = 2.0
_AGAIN: Final = 60.0
_RETRY: Final = 2.0
_OK: Final = 200
_MOST_BYTES: Final = 8 << 20
_LONGEST_NAME: Final = 256


class Unanswered(Exception):
    """A provider has not said which models it has; the text says why, and nothing of credentials."""


class _Listed(msgspec.Struct):
    """A model as OpenAI has it, and as Anthropic has it; others leave out what they do not know."""

    id: str
    owned_by: str | None = None
    created: float | None = None
    created_at: datetime | None = None


class _Listing(msgspec.Struct):
    data: list[_Listed]


_LISTING: Final = msgspec.json.Decoder(_Listing | list[_Listed])

Ask: TypeAlias = Callable[[Provider, Mapping[str, str]], tuple[Model, ...]]


def ask(provider: Provider, environ: Mapping[str, str]) -> tuple[Model, ...]:
    """A provider's models, in its order. Asked directly, as the gateway does it: by no HTTP proxy.

    Raises:
        Unanswered: it cannot be reached, or its answer is no list of models.
    """
    try:
        status, body = _answer(provider, provider.asking_headers(environ))
    except OSError as error:
        raise Unanswered(error.strerror or str(error) or type(error).__name__) from error
    except http.client.HTTPException as error:
        raise Unanswered("no answer in HTTP") from error
    except ValueError:
        # Not as the cause: it quotes the header.
        raise Unanswered("the credential cannot be the value of a header") from None
    if status != _OK:
        raise Unanswered(f"status {status}")
    if len(body) > _MOST_BYTES:
        raise Unanswered(f"a list of more than {_MOST_BYTES >> 20} MiB")
    try:
        listing = _LISTING.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unanswered("no list of models") from error
    listed = listing.data if isinstance(listing, _Listing) else listing
    return tuple(_model(one, provider) for one in listed if one.id.isprintable() and 0 < len(one.id) <= _LONGEST_NAME)


def _model(listed: _Listed, provider: Provider) -> Model:
    owner = listed.owned_by or provider.url.hostname or ""
    return Model(name=listed.id, owned_by=owner, created_at=_created(listed))


def _created(listed: _Listed) -> datetime:
    if listed.created_at is not None and listed.created_at.tzinfo is not None:
        return listed.created_at
    try:
        return datetime.fromtimestamp(listed.created or 0, UTC)
    except (ValueError, OverflowError, OSError):
        return ZERO_TIME


def _answer(provider: Provider, headers: Mapping[str, str]) -> tuple[int, bytes]:
    host, port = provider.url.hostname or "", provider.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=_ASK_TIMEOUT, context=ssl.create_default_context())
        if provider.url.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=_ASK_TIMEOUT)
    )
    try:
        connection.request("GET", provider.models_path, headers={"accept": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read(_MOST_BYTES + 1)
    finally:
        connection.close()


@dataclass(slots=True)
class _Known:
    """What a provider has answered so far."""

    models: tuple[Model, ...] = ()
    asked: threading.Event = field(default_factory=threading.Event)


class Offers:
    """The models that the providers of an environment have.

    Args:
        environ: the variables.
        ask: how a provider is asked.

    Raises:
        EnvironmentIncomplete: the variables name no provider, or one only in part.
    """

    def __init__(self, environ: Mapping[str, str], *, ask: Ask = ask) -> None:
        self._environ = environ
        self._ask = ask
        self._known = {provider: _Known() for provider in automatic.providers(environ)}
        self._problems: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._changed = threading.Event()

    def start(self, *, again: bool) -> None:
        """Ask, and wait a moment for the first answers; ``again``: and go on asking from time to time."""
        for provider in self._known:
            if provider.models_path:
                name = f"models of {provider.name}"
                threading.Thread(target=self._follow, args=(provider, again), name=name, daemon=True).start()
            else:
                self._known[provider].asked.set()
        deadline = time.monotonic() + _FIRST_WAIT
        for known in self._known.values():
            known.asked.wait(max(0.0, deadline - time.monotonic()))

    def listed(self, outcome: Outcome) -> Outcome:
        """The gateways with the models that are known by now in their lists."""
        # First: what comes from now on may be missing below.
        self._changed.clear()
        models = tuple(self._models())
        gateways = (
            replace(gateway, config=msgspec.structs.replace(gateway.config, models=models))
            for gateway in outcome.gateways
        )
        return replace(outcome, gateways=tuple(gateways))

    def _models(self) -> Iterator[Model]:
        """Each under the provider that gets its requests."""
        seen: set[str] = set()
        for provider, known in self._known.items():
            for model in known.models:
                taker = next((other for other in self._known if re.fullmatch(other.models, model.name)), None)
                if taker is provider and model.name not in seen:
                    seen.add(model.name)
                    yield model

    def changed(self) -> bool:
        """Whether there are other models than were listed last."""
        return self._changed.is_set()

    def problems(self) -> Sequence[str]:
        """What went wrong since this was asked for the last time, a line each."""
        found = []
        while not self._problems.empty():
            found.append(self._problems.get())
        return found

    def _follow(self, provider: Provider, again: bool) -> None:  # noqa: FBT001 - arguments of a thread
        known, pause, told = self._known[provider], _RETRY, ""
        while True:
            try:
                models = self._ask(provider, self._environ)
            except Unanswered as error:
                if str(error) != told:
                    told = str(error)
                    self._problems.put(f"{provider.address} does not list its models: {told}; any name is passed on")
                wait, pause = pause, min(_AGAIN, pause * 2)
            else:
                wait, pause, told = _AGAIN, _RETRY, ""
                if models != known.models:
                    known.models = models
                    self._changed.set()
            known.asked.set()
            if not again:
                return
            time.sleep(wait)
