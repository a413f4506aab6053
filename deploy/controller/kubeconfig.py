"""Where the API server is: the pod's service account, or else a kubeconfig, and what is wrong with that.

lightkube takes a kubeconfig for what it should be, and finds out while it is used. What can be seen before is looked at
here, so that it is told once, in a line that names the file.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import UserExec
from lightkube.core.exceptions import ConfigError

from deploy.controller.api import KubeApi
from deploy.controller.errors import ControllerError

DEFAULT: Final = "~/.kube/config"
_PLUGIN: Final = "client.authentication.k8s.io/"
_PLUGIN_VERSIONS: Final = ("v1alpha1", "v1beta1")
_SHAPE: Final = (AttributeError, LookupError, TypeError, ValueError)


class NoCluster(ControllerError):
    """Nothing says where the API server is, or what does cannot be used."""


def connect(environ: Mapping[str, str]) -> tuple[KubeApi, str]:
    """A client of the API server, and the server's URL.

    Raises:
        NoCluster: see the class; the text is a line that says what would have to change.
    """
    config, origin = _found(environ)
    try:
        _look(config)
        return KubeApi(config), config.cluster.server
    except (ConfigError, OSError, ValueError) as error:
        raise NoCluster(f"no cluster to work for: {origin} cannot be used: {error}") from error


def _found(environ: Mapping[str, str]) -> tuple[SingleConfig, str]:
    """The configuration, and what it came from."""
    if Path(SERVICE_ACCOUNT, "token").exists():
        return _of_service_account(), f"the service account in {SERVICE_ACCOUNT}"
    path = environ.get("KUBECONFIG") or DEFAULT
    if not Path(path).expanduser().is_file():
        raise NoCluster(f"no cluster to work for: this is no pod, and there is no kubeconfig {path}; see KUBECONFIG")
    origin = f"the kubeconfig {path}"
    try:
        return _of_file(Path(path).expanduser()), origin
    except yaml.YAMLError as error:
        raise NoCluster(f"no cluster to work for: {origin} is no YAML{_at(error)}") from error
    except (ConfigError, OSError, ValueError) as error:
        raise NoCluster(f"no cluster to work for: {origin} cannot be used: {error}") from error


def _at(error: yaml.YAMLError) -> str:
    """Where it is none. The error's own text quotes lines, and there are credentials in some."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f" (line {mark.line + 1})" if mark else ""


def _of_service_account() -> SingleConfig:
    try:
        config = KubeConfig.from_service_account().get()
    except (ConfigError, OSError) as error:
        raise NoCluster(f"no cluster to work for: the service account cannot be used: {error}") from error
    except KeyError as error:
        raise NoCluster(f"no cluster to work for: a pod, but the environment has no {error.args[0]}") from error
    if config is None:
        raise AssertionError("a service account without a context")
    return config


def _of_file(path: Path) -> SingleConfig:
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(given, dict):
        raise ConfigError("it is empty" if given is None else "it is no mapping")
    try:
        config = KubeConfig.from_dict(given, fname=path)
    except _SHAPE as error:
        raise ConfigError(f"clusters, contexts or users are not as they should be: {error}") from error
    try:
        found = config.get()
    except KeyError as error:
        context = config.current_context
        raise ConfigError(f"the context {context!r} names {error.args[0]!r}, which there is not") from error
    if found is None or found.user is None:
        raise ConfigError(f"the context {config.current_context!r} has no user")
    return found


# --- what can be seen before it is used ---


def _look(config: SingleConfig) -> None:
    """Raises ``ConfigError``, ``OSError`` or ``ValueError`` for what would fail later, over and over."""
    url = urlsplit(config.cluster.server)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(f"the server {config.cluster.server!r} is no URL of http or https")
    _ = url.port  # refused here when it is none
    user, cluster = config.user, config.cluster
    for file in (cluster.certificate_auth, user and user.client_cert, user and user.client_key):
        if file:
            _readable(Path(config.abs_file(file)))
    if user and user.token_file:
        _readable(Path(user.token_file))
    if user and user.exec:
        _plugin(user.exec)


def _readable(file: Path) -> None:
    with file.open("rb"):
        pass


def _plugin(plugin: UserExec) -> None:
    if plugin.apiVersion.removeprefix(_PLUGIN) not in _PLUGIN_VERSIONS:
        known = " and ".join(_PLUGIN_VERSIONS)
        raise ConfigError(f"its user's exec is of {plugin.apiVersion!r}; of {_PLUGIN} there are {known} here")
    if shutil.which(plugin.command) is None:
        raise ConfigError(f"its user's exec names {plugin.command!r}, which is no program on this machine")
