"""AWS credentials from where a workload usually finds them, through botocore's own chain.

The order is botocore's: environment, web identity (IRSA), shared credentials and config files, container credentials
(EKS Pod Identity, ECS), instance metadata (IMDSv2). A chain that is configured and fails is not left for the next one.

botocore does its work in another process (``extproc.auth.aws_process``), once for each renewal. In this one, reading
its data files, and collecting the garbage of that, would hold up streams for 25 to 170 ms.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from extproc.auth.aws_process import FILES, TOKEN_FILES, Answer
from extproc.auth.sigv4 import AWSCredentials
from extproc.auth.sources import Fetched, Source, SourceError
from extproc.errors import BackendFault
from filter_config.redact import Secret

# Two attempts at STS with all their time limits are done by then; a command of the user may not be.
_SECONDS: Final = 45.0
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_PROFILE_TOKEN_FILE: Final = re.compile(r"^\s*web_identity_token_file\s*=\s*(\S.*?)\s*$", re.MULTILINE)


def default_chain(region: str) -> Source[AWSCredentials]:
    """The chain of this process, for backends in a region.

    Raises:
        BackendFault: the package that knows the chain is not installed.
    """
    if find_spec("botocore") is None:
        raise BackendFault(
            "auth.aws without credentialFileLiteral needs the default credential chain; "
            "install it: pip install 'envoy-llm-extproc[aws]'"
        )
    return DefaultChain(region=region.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultChain:
    """A source of AWS credentials.

    Attributes:
        region: where AWS STS is asked, if it is; the environment's where empty.
    """

    region: str

    @property
    def name(self) -> str:
        return f"aws-default-chain/{self.region}" if self.region else "aws-default-chain"

    @property
    def key(self) -> Hashable:
        return self

    @property
    def watches(self) -> tuple[Path, ...]:
        files = [Path(os.environ.get(name) or default).expanduser() for name, default in FILES.items()]
        config = files[-1]
        files += [Path(path) for name in TOKEN_FILES if (path := os.environ.get(name))]
        files += _profile_token_files(config)
        return tuple(dict.fromkeys(files))

    def fetch(self) -> Fetched[AWSCredentials]:
        answer = _ask(self.region)
        if answer.reason:
            raise SourceError(answer.reason)
        return Fetched(
            AWSCredentials(
                access_key_id=Secret(answer.access_key_id),
                secret_access_key=Secret(answer.secret_access_key),
                session_token=Secret(answer.session_token),
            ),
            expires_at=answer.expires_at,
        )


def _ask(region: str) -> Answer:
    path = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", "extproc.auth.aws_process", region],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # What libraries say there could hold anything.
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
            # A Ctrl-C in the terminal is for the process that serves.
            start_new_session=True,
        )
        return msgspec.json.decode(done.stdout, type=Answer)
    except subprocess.TimeoutExpired:
        raise SourceError(f"the default chain of AWS gave no answer within {_SECONDS:.0f} seconds") from None
    except subprocess.CalledProcessError as error:
        raise SourceError(f"the process that asks for AWS credentials ended with status {error.returncode}") from None
    except msgspec.MsgspecError:
        raise SourceError("the process that asks for AWS credentials gave no answer that can be read") from None
    except OSError as error:
        raise SourceError(f"the process that asks for AWS credentials cannot be started: {error.strerror}") from None


def _profile_token_files(config: Path) -> Iterator[Path]:
    """The token files that profiles name; whichever profile is used, one more file does not matter."""
    try:
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for found in _PROFILE_TOKEN_FILE.findall(text):
        yield Path(found).expanduser()
