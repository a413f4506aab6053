"""Where the API server is, and what is said of a kubeconfig that leads to none."""

from __future__ import annotations

import asyncio
import copy

import pytest
import yaml

from deploy.controller import kubeconfig
from deploy.controller.kubeconfig import NoCluster, connect

URL = "http://127.0.0.1:9"
GIVEN = {
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": URL}}],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {}}],
}


@pytest.fixture(autouse=True)
def no_pod(tmp_path, monkeypatch):
    """Wherever the tests run, there is no service account."""
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", str(tmp_path / "account"))


def found(file):
    """The URL of the server that a file leads to."""

    async def look():
        api, url = connect({"KUBECONFIG": str(file)})
        await api.close()
        return url

    return asyncio.run(look())


def told(file):
    # No `pytest.raises` and no loop: either would keep the error in a cycle, with the files that lightkube made.
    try:
        connect({"KUBECONFIG": str(file)})
    except NoCluster as error:
        text = str(error)
    else:
        pytest.fail("the kubeconfig is taken")
    assert "\n" not in text
    return text.removeprefix("no cluster to work for: ")


def test_a_kubeconfig_leads_to_its_server(tmp_path):
    (file := tmp_path / "config").write_text(yaml.safe_dump(GIVEN))

    assert found(file) == URL


def test_files_are_looked_for_beside_the_kubeconfig(tmp_path):
    given = changed(user={"client-certificate": "own.pem", "client-key": "own.pem"})
    (file := tmp_path / "config").write_text(yaml.safe_dump(given))

    assert f"{tmp_path}/own.pem" in told(file)


def test_without_one_it_is_said_where_it_was_looked_for(tmp_path):
    assert told(tmp_path / "none") == f"this is no pod, and there is no kubeconfig {tmp_path}/none; see KUBECONFIG"


def changed(*, cluster=None, user=None, **parts):
    """A kubeconfig with something else in it; None takes out."""
    given = copy.deepcopy(GIVEN)
    given["clusters"][0]["cluster"].update(cluster or {})
    given["users"][0]["user"].update(user or {})
    given.update({name.replace("_", "-"): value for name, value in parts.items()})
    return {name: value for name, value in given.items() if value is not None}


def plugin(version, program="sh"):
    return {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": program}}


FAULTS = {
    "empty": (None, "it is empty"),
    "a list": ([], "it is no mapping"),
    "no context is current": (changed(current_context=None), "No current context set and no default provided"),
    "another is current": (changed(current_context="x"), "Context 'x' not found"),
    "the context has no user": (
        changed(contexts=[{"name": "here", "context": {"cluster": "c"}}]),
        "the context 'here' has no user",
    ),
    "its user is not there": (changed(users=[]), "the context 'here' names 'u', which there is not"),
    "its cluster is not there": (changed(clusters=[]), "the context 'here' names 'c', which there is not"),
    "clusters are a text": (changed(clusters="x"), "clusters, contexts or users are not as they should be: "),
    "a server is a number": (
        changed(cluster={"server": 5}),
        "clusters, contexts or users are not as they should be: Expected `str`, got `int` - at `$.server`",
    ),
    "a server is empty": (changed(cluster={"server": ""}), "the server '' is no URL of http or https"),
    "a server is no URL": (changed(cluster={"server": "::::"}), "the server '::::' is no URL of http or https"),
    "a port is none": (changed(cluster={"server": "http://h:x"}), "Port could not be cast to integer value as 'x'"),
    "no authority": (changed(cluster={"certificate-authority": "/nope"}), "No such file or directory: '/nope'"),
    "an authority that is none": (
        changed(cluster={"certificate-authority-data": "aGVsbG8="}),
        "NO_CERTIFICATE_OR_CRL_FOUND",
    ),
    "no token": (changed(user={"tokenFile": "/nope"}), "No such file or directory: '/nope'"),
    "a plugin of a version that is not known": (
        changed(user=plugin("v1")),
        "its user's exec is of 'client.authentication.k8s.io/v1'; of client.authentication.k8s.io/ there are v1alpha1",
    ),
    "a plugin that is not there": (
        changed(user=plugin("v1beta1", "/nope/x")),
        "its user's exec names '/nope/x', which is no program on this machine",
    ),
    "a way in of before": (changed(user={"auth-provider": {"name": "gcp"}}), "auth-provider not supported"),
}


@pytest.mark.parametrize(("given", "says"), FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_with_a_kubeconfig_is_said_at_once(tmp_path, given, says):
    (file := tmp_path / "config").write_text("" if given is None else yaml.safe_dump(given))

    line = told(file)
    assert line.startswith(f"the kubeconfig {file} cannot be used: ")
    assert says in line


def test_what_is_no_yaml_is_not_quoted(tmp_path):
    (file := tmp_path / "config").write_text("users:\n- token: {canary\n")

    assert told(file) == f"the kubeconfig {file} is no YAML (line 3)"


def test_a_plugin_that_is_there_is_for_requests(tmp_path):
    (file := tmp_path / "config").write_text(yaml.safe_dump(changed(user=plugin("v1beta1"))))

    assert found(file) == URL
