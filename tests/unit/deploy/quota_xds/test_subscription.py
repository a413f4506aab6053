"""What one client is to get and when: the rules of nonces and versions, and any order of events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.quota_xds.snapshot import CONFIG_NAME, TYPE_URL
from deploy.quota_xds.subscription import Subscription, Verdict
from protos.discovery_pb2 import DiscoveryRequest, Node, Status
from tests.support.quotas import bucket, limited, quota

NODE = "envoy-ai-gateway-ratelimit"
ONE, TWO = limited(quota(default=bucket(limit=1))), limited(quota(default=bucket(limit=2)))


def subscription():
    return Subscription(node_id=NODE)


def request(version="", nonce="", *, error=None, node=NODE, type_url=TYPE_URL, names=()):
    return DiscoveryRequest(
        version_info=version,
        node=Node(id=node) if node else None,
        type_url=type_url,
        response_nonce=nonce,
        resource_names=names,
        error_detail=None if error is None else Status(code=3, message=error),
    )


def begun(version="", snapshot=ONE):
    """A client that has asked, and its first answer."""
    client = subscription()
    assert client.take(request(version)) is Verdict.BEGUN
    return client, client.due(snapshot)


def test_nobody_is_answered_who_has_not_asked():
    assert subscription().due(ONE) is None


def test_nobody_is_answered_before_everything_is_known():
    client, answer = begun(snapshot=None)
    assert answer is None
    assert client.due(ONE) is not None


def test_an_answer_says_version_type_nonce_and_resources():
    _, answer = begun()
    assert (answer.version_info, answer.type_url, answer.nonce) == (ONE.version, TYPE_URL, "1")
    assert list(answer.resources) == list(ONE.resources.values())
    assert [resource.type_url for resource in answer.resources] == [TYPE_URL]


def test_a_client_that_has_the_version_gets_nothing_until_it_changes():
    client, answer = begun(ONE.version)
    assert answer is None
    assert client.due(TWO).version_info == TWO.version


def test_a_client_with_another_version_gets_the_one_that_there_is():
    _, answer = begun("some-other")
    assert answer.version_info == ONE.version


def test_what_was_sent_is_not_sent_again_before_or_after_it_was_accepted():
    client, answer = begun()
    assert client.due(ONE) is None
    # The node is only said in the first request of a stream.
    assert client.take(request(answer.version_info, answer.nonce, node="")) is Verdict.ACCEPTED
    assert client.due(ONE) is None


def test_a_change_waits_for_the_verdict_on_what_was_sent_before():
    client, answer = begun()
    assert client.due(TWO) is None
    client.take(request(answer.version_info, answer.nonce))
    second = client.due(TWO)
    assert (second.version_info, second.nonce) == (TWO.version, "2")


def test_what_was_refused_is_not_sent_again_until_it_changes():
    client, answer = begun()
    assert client.take(request("", answer.nonce, error="no such unit")) is Verdict.REFUSED
    assert client.has_refused
    assert client.due(ONE) is None
    assert client.due(TWO).version_info == TWO.version
    assert not client.has_refused


def test_a_change_that_is_taken_back_is_sent_to_whom_refused_it():
    client, first = begun()
    client.take(request(first.version_info, first.nonce))
    second = client.due(TWO)
    client.take(request(first.version_info, second.nonce, error="no"))
    assert client.due(ONE).version_info == ONE.version


def test_an_answer_that_could_not_be_read_is_refused_without_its_nonce():
    client, _ = begun()
    assert client.take(request(error="cannot parse")) is Verdict.REFUSED
    assert client.due(ONE) is None


STALE = {"an earlier nonce": "1", "one of another stream": "7", "none of ours": "x"}


@pytest.mark.parametrize("nonce", STALE.values(), ids=STALE)
@pytest.mark.parametrize("error", [None, "no"], ids=["accepting", "refusing"])
def test_what_is_said_of_an_earlier_answer_is_not_of_the_last(nonce, error):
    client, answer = begun()
    client.take(request(answer.version_info, answer.nonce))
    second = client.due(TWO)
    assert client.take(request(ONE.version, nonce, error=error)) is Verdict.STALE
    assert client.due(ONE) is None
    assert client.take(request(second.version_info, second.nonce)) is Verdict.ACCEPTED


def test_a_stream_may_begin_with_the_nonce_of_an_earlier_one():
    client = subscription()
    assert client.take(request(ONE.version, "5")) is Verdict.BEGUN
    assert client.due(ONE) is None


def test_a_client_may_begin_anew():
    client, answer = begun()
    client.take(request(answer.version_info, answer.nonce))
    assert client.take(request()) is Verdict.BEGUN
    assert client.due(ONE).nonce == "2"


NAMES = {"its name": ((CONFIG_NAME,), 1), "every name": (("*",), 1), "another name": (("other",), 0)}


@pytest.mark.parametrize(("names", "count"), NAMES.values(), ids=NAMES)
def test_names_choose_among_the_resources(names, count):
    client = subscription()
    client.take(request(names=names))
    assert len(client.due(ONE).resources) == count


def test_who_asks_for_other_names_is_answered_though_it_has_the_version():
    client, answer = begun()
    client.take(request(answer.version_info, answer.nonce, names=["other"]))
    assert list(client.due(ONE).resources) == []
    assert client.due(ONE) is None


def test_who_asks_for_other_names_twice_is_answered_once():
    client, answer = begun()
    for _ in range(2):
        client.take(request(answer.version_info, answer.nonce, names=["other"]))
    assert client.due(ONE) is not None
    assert client.due(ONE) is None


@pytest.mark.parametrize("node", ["", "somebody"])
def test_another_node_gets_nothing(node):
    client = subscription()
    assert client.take(request(node=node)) is Verdict.STRANGER
    assert client.due(ONE) is None


def test_another_type_is_not_served():
    client = subscription()
    assert client.take(request(type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster")) is Verdict.OTHER_TYPE
    assert client.due(ONE) is None
    assert client.take(request()) is Verdict.BEGUN


def test_without_a_quota_a_client_has_to_forget_what_it_knew():
    client, answer = begun()
    client.take(request(answer.version_info, answer.nonce))
    empty = limited()
    answer = client.due(empty)
    assert (answer.version_info, list(answer.resources)) == (empty.version, [])


SNAPSHOTS = [limited(), ONE, TWO]
EVENTS = st.lists(
    st.one_of(
        st.sampled_from([0, 1, 2]),
        st.sampled_from(["accept", "refuse", "refuse without a nonce", "stale", "begin", "reconnect"]),
    ),
    max_size=30,
)


@given(EVENTS)
def test_whatever_happens_one_answer_is_open_and_none_says_the_same_again(events):
    client, has, last, sent, now = subscription(), "", "", None, SNAPSHOTS[1]
    client.take(request())

    for event in (*events, "accept", "accept"):
        answer = client.due(now)
        if answer is not None:
            assert sent is None
            assert answer.version_info != last
            sent, last = answer, answer.version_info
        match event:
            case int(place):
                now = SNAPSHOTS[place]
            case "accept" if sent is not None:
                assert client.take(request(last, sent.nonce)) is Verdict.ACCEPTED
                has, sent = last, None
            case "refuse" | "refuse without a nonce" if sent is not None:
                nonce = sent.nonce if event == "refuse" else ""
                assert client.take(request(has, nonce, error="no")) is Verdict.REFUSED
                sent = None
            case "stale":
                assert client.take(request(has, "0")) is Verdict.STALE
            case "begin" | "reconnect":
                client = client if event == "begin" else subscription()
                assert client.take(request(has)) is Verdict.BEGUN
                last, sent = has, None
    assert last == now.version
