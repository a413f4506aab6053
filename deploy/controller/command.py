"""The command ``extproc controller``: flags to parts, a signal to the end, and errors to one line each."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal, cast

import structlog
from lightkube.core.exceptions import ConfigError

from deploy.controller import flag_values, kubeconfig, seeds
from deploy.controller.errors import ControllerError
from deploy.controller.exchanges import Exchanges, callers
from deploy.controller.flags import DEFAULT_SEED, FlagInvalid, Flags, HelpRequested, usage
from deploy.controller.options import ControllerOptions
from deploy.controller.service import ServiceOptions
from deploy.controller.together import ExtensionPart, InjectorPart, Parts, Together
from deploy.envoy.compile import HEADER_ATTRIBUTES
from deploy.extension_server.options import Options, QuotaService
from deploy.injector.options import DEFAULT_ITERATIONS, HeaderAttributes, Seed, SidecarOptions
from deploy.injector.tls import TlsError, TlsFiles
from filter_config.redact import Secret

LogSetup = Callable[[str, str], None]
"""Begins to log, with a level and a format as the flags have them."""

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
# What gives a token to requests may fail later than it is looked at.
_EXPECTED: Final = (OSError, TlsError, ControllerError, ConfigError)
_log = structlog.get_logger(__name__)


def main(argv: Sequence[str], environ: Mapping[str, str], set_up_logs: LogSetup) -> int:
    """Run until told to stop; gives the exit status.

    Args:
        argv: the flags.
        environ: of the process.
        set_up_logs: called before anything is logged.
    """
    try:
        flags = Flags.parse(argv, environ)
    except HelpRequested:
        sys.stdout.write(usage())
        return OK
    except FlagInvalid as error:
        return _fail(str(error), USAGE)
    set_up_logs(flags.log_level, flags.log_format)
    with ExitStack() as stack:
        parts = parts_of(flags, environ, _certificate_directory(flags, stack))
        if parts.injector is not None and flags.mcp_session_encryption_seed == Secret(DEFAULT_SEED):
            _log.warning("MCP sessions are encrypted with a seed that everybody knows", flag="mcpSessionEncryptionSeed")
        try:
            asyncio.run(_run(parts, environ))
        except Exception as error:  # noqa: BLE001 - the last place where it can become a line
            return _fail(_told(error))
    return OK


async def _run(parts: Parts, environ: Mapping[str, str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    api, url = kubeconfig.connect(environ)
    _log.info("works for a cluster", server=url, namespace=parts.service.namespace, identity=parts.service.identity)
    await Together(api, parts).run(stop)


def _told(error: Exception) -> str:
    """What ended the process, in a line."""
    causes = list(_leaves(error))
    if all(isinstance(cause, _EXPECTED) for cause in causes):
        return "; ".join(dict.fromkeys(map(str, causes)))
    _log.error("the controller failed", exc_info=error)
    return f"internal error: {'; '.join(f'{type(cause).__name__}: {cause}' for cause in causes)}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _fail(line: str, status: int = FAILED) -> int:
    sys.stderr.write(f"extproc controller: {' '.join(line.split())}\n")
    return status


def _certificate_directory(flags: Flags, stack: ExitStack) -> Path:
    """Where the webhook's certificate is read: the directory of the flag, unless we keep it and cannot write there."""
    wanted = Path(flags.tls_cert_dir)
    if not flags.tls_cert_secret_name or (wanted.is_dir() and os.access(wanted, os.W_OK)):
        return wanted
    _log.info("the directory for the certificate cannot be written, another is used", directory=str(wanted))
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="extproc-webhook-")))


# --- flags to parts ---


def parts_of(flags: Flags, environ: Mapping[str, str], certificates: Path) -> Parts:
    """What the flags say that is to run."""
    sidecar = _sidecar(flags)
    return Parts(
        service=_service(flags, environ, sidecar),
        injector=_injector(flags, sidecar, certificates),
        extension=_extension(flags) if "extension-server" in flags.only else None,
        pages=flags.metrics_address,
        sync_timeout=flags.cache_sync_timeout,
        drain=flags.drain_time,
    )


def _service(flags: Flags, environ: Mapping[str, str], sidecar: SidecarOptions | None) -> ServiceOptions:
    given = {
        seeds.SEED_KEY: (sidecar and sidecar.mcp_seed, flags.mcp_session_encryption_seed),
        seeds.FALLBACK_KEY: (sidecar and sidecar.mcp_fallback_seed, flags.mcp_fallback_session_encryption_seed),
    }
    return ServiceOptions(
        controller=ControllerOptions(
            sidecar=sidecar,
            mcp_seeds={key: value for key, (told, value) in given.items() if told is not None},
            version=flags.config_version,
            root_prefix=flags.root_prefix,
            envoy_gateway_namespace=flags.envoy_gateway_namespace,
        ),
        identity=f"{environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}",
        namespace=flags.namespace,
        namespaces=flags.watch_namespaces,
        elect=flags.enable_leader_election,
        writes="controller" in flags.only,
        exchanges=Exchanges(callers=callers(environ)),
    )


def _sidecar(flags: Flags) -> SidecarOptions | None:
    if not flags.ext_proc_image:
        return None
    return SidecarOptions(
        image=flags.ext_proc_image,
        image_pull_policy=cast("Literal['Always', 'IfNotPresent', 'Never']", flags.ext_proc_image_pull_policy),
        log_level=flags.ext_proc_log_level,
        log_format=cast("Literal['text', 'json']", flags.ext_proc_log_format),
        enable_redaction=flags.ext_proc_enable_redaction,
        root_prefix=flags.root_prefix,
        endpoint_prefixes=flags.endpoint_prefixes,
        header_attributes=HeaderAttributes(
            request=flags.request_header_attributes,
            span=flags.span_request_header_attributes,
            metrics=flags.metrics_request_header_attributes,
            log=flags.log_request_header_attributes,
        ),
        max_recv_msg_size=flags.ext_proc_max_recv_msg_size,
        extra_env=flags.ext_proc_extra_env_vars,
        pull_secrets=flags.ext_proc_image_pull_secrets,
        mcp_seed=_seed(flags),
        mcp_fallback_seed=_fallback_seed(flags),
    )


def _seed(flags: Flags) -> Seed | None:
    """What pods are told of the seed; nothing of what they do anyway."""
    value, iterations = flags.mcp_session_encryption_seed, flags.mcp_session_encryption_iterations
    is_default = (value, iterations) == (Secret(DEFAULT_SEED), DEFAULT_ITERATIONS)
    return None if is_default else seeds.seed(seeds.SEED_KEY, value, iterations)


def _fallback_seed(flags: Flags) -> Seed | None:
    value, iterations = flags.mcp_fallback_session_encryption_seed, flags.mcp_fallback_session_encryption_iterations
    return seeds.seed(seeds.FALLBACK_KEY, value, iterations) if value else None


def _injector(flags: Flags, sidecar: SidecarOptions | None, certificates: Path) -> InjectorPart | None:
    if "injector" not in flags.only or sidecar is None:
        return None
    return InjectorPart(
        sidecar=sidecar,
        address=("", flags.webhook_port),
        files=TlsFiles(certificate=certificates / flags.tls_cert_name, key=certificates / flags.tls_key_name),
        bundle=certificates / flags.ca_bundle_name,
        secret=flags.tls_cert_secret_name,
    )


def _extension(flags: Flags) -> ExtensionPart:
    base = flag_values.attributes(flags.request_header_attributes or "")
    log = flags.log_request_header_attributes
    own = HEADER_ATTRIBUTES if log is None else flag_values.attributes(log)
    return ExtensionPart(
        options=Options(
            quota=QuotaService(
                address=flags.quota_rate_limit_service_addr,
                timeout=flags.quota_rate_limit_timeout,
                deny_on_failure=flags.quota_rate_limit_failure_mode_deny,
            ),
            header_attributes=tuple({**dict(base), **dict(own)}.items()),
            endpoints_hook=flags.extension_server_endpoints_hook,
        ),
        address=flags.port,
        quota_address=flags.ratelimit_xds_address,
        max_message=flags.max_recv_msg_size,
    )
