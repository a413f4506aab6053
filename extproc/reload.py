"""Filter config → live runtime: the first load, every reload, and what is known of both.

A refused config leaves the last good one live and is shown in the log, in ``/config`` and ``/ready``, and in a metric
(contract, filter config 2.7 to 2.10). A refusal that may pass by itself is tried again with growing pauses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from extproc.credentials import CredentialKeeper
from extproc.decoder import Decoder, DecoderFailed
from extproc.errors import ExtProcError
from extproc.golang import format_duration
from extproc.loops import set_within
from extproc.runtime import Runtime, build_runtime
from extproc.telemetry.metrics import Metrics
from filter_config.load import Decoded, Problem, decode, version_problem
from filter_config.model import Config
from filter_config.watch import BundleSource, ConfigUnavailable, FileSource, Snapshot, watch

_log = structlog.get_logger(__name__)

FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 60.0
_SHOWN_PROBLEMS: Final = 20

Source = FileSource | BundleSource


class ConfigError(Exception):
    """The first config cannot be loaded; the process must not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRule:
    """Which versions of a filter config are taken (contract, version rule 2.10).

    Attributes:
        own: the version that this process claims to be.
        relaxed: take any version.
    """

    own: str
    relaxed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig:
    """The config in use. ``since`` is in seconds since the epoch."""

    digest: str
    since: float
    runtime: Runtime
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A config that was not taken.

    Attributes:
        reason: in one line.
        digest: its content hash, or ``None`` when it could not even be read.
        problems: every finding.
        at: seconds since the epoch.
        passing: whether the same bytes may be accepted later.
    """

    reason: str
    at: float
    digest: str | None = None
    problems: tuple[Problem, ...] = ()
    passing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigStatus:
    """What is known of the filter config.

    Attributes:
        live: the config in use, or ``None`` before the first.
        refused: the last one that was refused.
        failing: whether the newest attempt was a refusal.
        loads: attempts that succeeded.
        refusals: attempts that did not.
    """

    live: LiveConfig | None = None
    refused: Refusal | None = None
    failing: bool = False
    loads: int = 0
    refusals: int = 0


class HasRuntime(Protocol):
    """What a reload changes."""

    runtime: Runtime | None


class _Refused(Exception):
    """Args: ``refusal``: the config that was not taken, and why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class ConfigManager:
    """Keeps a processor's runtime equal to the newest usable config of a source.

    Args:
        source: where the config is read.
        processor: whose ``runtime`` is swapped.
        metrics: where loads are counted.
        version: the version rule.
        decoder: decodes reloads; the first config is decoded in this process, which has nothing else to do then.
        credentials: keeps the credentials of the live config fresh; None where this process serves nobody itself.
        poll_interval: seconds between two looks at the source without a notification.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        source: Source,
        *,
        processor: HasRuntime,
        metrics: Metrics,
        version: VersionRule,
        decoder: Decoder,
        credentials: CredentialKeeper | None = None,
        poll_interval: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.status = ConfigStatus()
        self._source = source
        self._processor = processor
        self._metrics = metrics
        self._version = version
        self._decoder = decoder
        self._credentials = credentials
        self._poll_interval = poll_interval
        self._clock = clock
        self._words = _Words.of(source)

    def load_first(self) -> None:
        """Load the config that the process starts with.

        A bundle whose parts do not fit together yet is awaited; until it does, there is no live config (contract 2.9).

        Raises:
            ConfigError: anything else that keeps the config from being used.
        """
        words = self._words
        _log.info(words.watching, path=self._path, interval=format_duration(self._poll_interval))
        try:
            snapshot = self._source.read()
        except ConfigUnavailable as error:
            self._refuse(Refusal(reason=str(error), at=self._clock(), passing=True))
            if not error.transient:
                raise ConfigError(f"{words.first_failed}: {error}") from error
            _log.warning(words.will_retry, path=self._path, error=str(error))
            return
        try:
            decoded = decode(snapshot.data)
            config = self._admit(snapshot, decoded, first=True)
            self._go_live(snapshot, decoded.problems, self._compile(snapshot, decoded, config))
        except _Refused as error:
            self._refuse(error.refusal)
            raise ConfigError(f"{words.first_failed}: {error}") from error

    async def follow(self, stop: asyncio.Event) -> None:
        """Reload whenever the source changes, until ``stop``; a fault of the watcher only costs a pause."""
        while not stop.is_set():
            try:
                await self._follow(stop)
            except Exception:  # noqa: BLE001 - whatever it is, the live config goes on serving
                _log.exception("the config watcher failed; starting it again", path=self._path)
                await set_within(stop, self._poll_interval)

    async def _follow(self, stop: asyncio.Event) -> None:
        changes = watch(self._source, poll_interval=self._poll_interval, stop=stop)
        pause, again = FIRST_RETRY, None
        upcoming = asyncio.ensure_future(anext(changes, None))
        try:
            while True:
                await asyncio.wait({upcoming}, timeout=pause if again else None)
                if upcoming.done():
                    change = upcoming.result()
                    if change is None:
                        return
                    upcoming = asyncio.ensure_future(anext(changes, None))
                    pause = FIRST_RETRY
                else:
                    assert again is not None
                    change = again
                    pause = min(pause * 2, LAST_RETRY)
                again = await self._reload(change)
        finally:
            await _close(changes, upcoming)

    async def _reload(self, change: Snapshot | ConfigUnavailable) -> Snapshot | None:
        """Take one change; return the snapshot when it should be tried again."""
        if isinstance(change, ConfigUnavailable):
            known = self.status.refused
            if not (self.status.failing and known is not None and known.reason == str(change)):
                self._report(Refusal(reason=str(change), at=self._clock(), passing=True))
            return None
        live = self.status.live
        if live is not None and live.digest == change.digest:
            self.status = replace(self.status, failing=False)
            return None
        _log.info(self._words.loading, path=self._path, digest=change.digest)
        try:
            decoded = await self._decode(change)
            config = self._admit(change, decoded, first=live is None)
            # A thread does not make it faster, but lets streams take their turns meanwhile.
            runtime = await asyncio.to_thread(self._compile, change, decoded, config)
            self._go_live(change, decoded.problems, runtime)
        except _Refused as error:
            self._report(error.refusal)
            return change if error.refusal.passing else None
        return None

    async def _decode(self, snapshot: Snapshot) -> Decoded:
        try:
            return await self._decoder.decode(snapshot.data)
        except DecoderFailed as error:
            raise self._refused(snapshot, Decoded(config=None), str(error), passing=True) from error

    def _admit(self, snapshot: Snapshot, decoded: Decoded, *, first: bool) -> Config:
        """The config of a document that may go live, or raise ``_Refused``."""
        if not snapshot.data.strip():
            # A write in progress, most likely; as a config it would take every route away.
            raise self._refused(snapshot, decoded, "the document is empty")
        config = decoded.config
        if config is None:
            raise self._refused(snapshot, decoded, _first_error(decoded.problems))
        mismatch = self._mismatch(config, first=first)
        if mismatch is not None:
            raise self._refused(snapshot, decoded, mismatch)
        return config

    def _compile(self, snapshot: Snapshot, decoded: Decoded, config: Config) -> Runtime:
        """The runtime of a config, or raise ``_Refused``; touches nothing that streams use."""
        known = None if self._credentials is None else self._credentials.known
        before = None if self.status.live is None else self.status.live.runtime
        try:
            return build_runtime(config, digest=snapshot.digest, problems=decoded.problems, known=known, before=before)
        except ExtProcError as error:
            raise self._refused(snapshot, decoded, f"cannot create runtime filter config: {error}") from error
        except Exception as error:
            _log.exception("fault while building the runtime", digest=snapshot.digest)
            reason = f"internal error: {type(error).__name__}"
            raise self._refused(snapshot, decoded, reason, passing=True) from error

    def _refused(self, snapshot: Snapshot, decoded: Decoded, reason: str, *, passing: bool = False) -> _Refused:
        return _Refused(
            Refusal(
                reason=f"failed to load config: {reason}",
                at=self._clock(),
                digest=snapshot.digest,
                problems=decoded.problems,
                passing=passing,
            )
        )

    def _mismatch(self, config: Config, *, first: bool) -> str | None:
        """Why the version of a config refuses it, if it does.

        At a cold start there is no older config to fall back on, and a gateway without one fails every request; so a
        config of another version is served then, and so are its successors of the same version (field report BR-108).
        """
        rule = self._version
        problem = version_problem(config, rule.own, relaxed=rule.relaxed)
        if problem is None:
            return None
        self._metrics.config_version_mismatch()
        live = self.status.live
        served = first or (live is not None and live.runtime.config.version == config.version)
        if problem.severity == "error" and not served:
            return problem.message
        _log.warning("serving a config of another version", error=problem.message)
        return None

    def _go_live(self, snapshot: Snapshot, problems: tuple[Problem, ...], runtime: Runtime) -> None:
        self._processor.runtime = runtime
        if self._credentials is not None:
            self._credentials.keep(runtime.cells)
        self._metrics.live_config(snapshot.digest)
        self._metrics.config_reload("ok")
        live = LiveConfig(digest=snapshot.digest, since=self._clock(), runtime=runtime, problems=problems)
        self.status = replace(self.status, live=live, failing=False, loads=self.status.loads + 1)
        _log.info(
            "config is live",
            digest=snapshot.digest,
            config_uuid=runtime.config.uuid,
            version=runtime.config.version,
            backends=len(runtime.backends),
        )
        for name, reason in list(runtime.faults.items())[:_SHOWN_PROBLEMS]:
            _log.error("backend disabled", backend=name, error=reason)
        warnings = [problem for problem in problems if problem.severity == "warning"]
        for problem in warnings[:_SHOWN_PROBLEMS]:
            _log.warning("config warning", problem=str(problem))

    def _report(self, refusal: Refusal) -> None:
        self._refuse(refusal)
        _log.error(self._words.failed, path=self._path, error=refusal.reason, problems=len(refusal.problems))

    def _refuse(self, refusal: Refusal) -> None:
        self._metrics.config_reload("unavailable" if refusal.digest is None else "refused")
        self.status = replace(self.status, refused=refusal, failing=True, refusals=self.status.refusals + 1)

    @property
    def _path(self) -> str:
        source = self._source
        return str(source.directory if isinstance(source, BundleSource) else source.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """The peer's log lines for a kind of source (contract 2.8 and 2.9)."""

    watching: str
    loading: str
    failed: str
    first_failed: str
    will_retry: str

    @classmethod
    def of(cls, source: Source) -> _Words:
        kind = "bundled config" if isinstance(source, BundleSource) else "config"
        return cls(
            watching=f"start watching the config {'bundle' if isinstance(source, BundleSource) else 'file'}",
            loading=f"loading a new {kind}",
            failed=f"failed to update {kind}",
            first_failed=f"failed to load initial {kind}",
            will_retry=f"failed to load initial {kind}; will retry on next watch tick",
        )


def _first_error(problems: tuple[Problem, ...]) -> str:
    errors = [str(problem) for problem in problems if problem.severity == "error"]
    if not errors:
        return "the document cannot be used"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}"


async def _close(
    changes: AsyncIterator[Snapshot | ConfigUnavailable],
    upcoming: asyncio.Future[Snapshot | ConfigUnavailable | None],
) -> None:
    upcoming.cancel()
    await asyncio.wait({upcoming})
    close = getattr(changes, "aclose", None)
    if close is not None:
        await close()
