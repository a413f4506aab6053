"""Stand-ins for what gives out AWS credentials: STS, instance metadata (IMDSv2) and the EKS Pod Identity agent.

All three on one loopback port. They are as strict as the real ones where a client could get it wrong: STS wants the
content of the token file, IMDSv2 a session token, the agent its authorization token.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.support.sigv4_verifier import Signature, SignatureRefused, verify

ROLE = "gateway-role"
ROLE_ARN = f"arn:aws:iam::123456789012:role/{ROLE}"
SESSION_TOKEN = "imds-session-canary"
_IMDS = "/latest/meta-data/iam/security-credentials/"


@dataclass
class AWSEndpoints:
    """Their state, to be changed while they run.

    Attributes:
        lifetime: seconds that credentials last.
        status: answered instead of credentials, unless 200.
        gate: closed, requests for credentials wait until it opens.
        tokens: web identity tokens and agent tokens that are taken; empty takes any.
        calls: how often each endpoint gave credentials, or refused them.
        waiting: set when a request has come as far as the gate.
        issued: by key id, what a service knows of it: secret, session token, and end in seconds since the epoch.
    """

    lifetime: float = 3600.0
    status: int = 200
    body: str | None = None
    tokens: set[str] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    seen_tokens: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    waiting: threading.Event = field(default_factory=threading.Event)
    issued: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    url: str = ""

    def __post_init__(self):
        self.gate.set()
        self._lock = threading.Lock()

    def issue(self, endpoint):
        """The next credentials: the number of the call is in each part."""
        with self._lock:
            self.calls[endpoint] += 1
            number = sum(self.calls.values())
        self.waiting.set()
        assert self.gate.wait(30)
        key, secret, token = f"AKIACANARY{number:04}", f"secret-canary-{number}", f"session-canary-{number}"
        end = int(time.time() + self.lifetime)
        self.issued[key] = secret, token, end
        return {
            "AccessKeyId": key,
            "SecretAccessKey": secret,
            "Token": token,
            "Expiration": datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def refusal(self, signature: Signature, now: float) -> str | None:
        """Why a service would refuse what was rightly signed with issued credentials, if it would."""
        _, token, end = self.issued[signature.access_key_id]
        if signature.session_token != token:
            return "InvalidClientTokenId"
        return "ExpiredTokenException" if now >= end else None

    def judge(self, *, method: str, path: str, headers: Any, body: bytes) -> str | None:
        """Why a service would refuse a signed request; ``None`` when it would answer it."""
        now = time.time()
        secrets = {key: secret for key, (secret, _, _) in self.issued.items()}
        try:
            signature = verify(method=method, path=path, headers=headers, body=body, secrets=secrets, now=now)
        except SignatureRefused as error:
            return str(error)
        return self.refusal(signature, now)

    def environment(self, kind, token_file):
        """The variables that lead a workload to one of them, in the way that the platform sets them."""
        return {
            "sts": {
                "AWS_ROLE_ARN": ROLE_ARN,
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(token_file),
                "AWS_ENDPOINT_URL_STS": self.url,
            },
            "agent": {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/v1/credentials",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token_file),
            },
            "imds": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url},
        }[kind]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoints: AWSEndpoints

    def do_PUT(self):
        if self.path == "/latest/api/token" and self.headers.get("x-aws-ec2-metadata-token-ttl-seconds"):
            self._answer(200, SESSION_TOKEN)
        else:
            self._answer(400, "")

    def do_GET(self):
        if self.path == "/v1/credentials":
            token = self.headers.get("authorization", "")
            self._give("agent", token, json.dumps)
        elif self.headers.get("x-aws-ec2-metadata-token") != SESSION_TOKEN:
            self._answer(401, "")
        elif self.path == _IMDS:
            self._answer(200, ROLE)
        elif self.path == _IMDS + ROLE:
            self._give("imds", "", lambda issued: json.dumps({"Code": "Success", "Type": "AWS-HMAC", **issued}))
        else:
            self._answer(404, "")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        assert form["Action"] == "AssumeRoleWithWebIdentity"
        assert form["RoleArn"] == ROLE_ARN
        assert "authorization" not in self.headers
        self._give("sts", form["WebIdentityToken"], _assumed)

    def _give(self, endpoint, token, render):
        endpoints = self.endpoints
        endpoints.seen_tokens.append(token)
        issued = endpoints.issue(endpoint)
        if endpoints.tokens and token not in endpoints.tokens:
            self._answer(400, _refused("InvalidIdentityToken", f"the token {token} is not valid"))
        elif endpoints.status != 200:
            self._answer(endpoints.status, _refused("ServiceUnavailable", f"not now, {token}"))
        else:
            self._answer(200, render(issued) if endpoints.body is None else endpoints.body)

    def _answer(self, status, text):
        body = text.encode()
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # a client that did not want to wait

    def log_message(self, *_):
        pass


def _assumed(issued):
    return f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{issued["AccessKeyId"]}</AccessKeyId>
<SecretAccessKey>{issued["SecretAccessKey"]}</SecretAccessKey><SessionToken>{issued["Token"]}</SessionToken>
<Expiration>{issued["Expiration"]}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"""


def _refused(code, message):
    return f"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"""


@contextmanager
def aws_endpoints():
    """Run them."""
    endpoints = AWSEndpoints()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"endpoints": endpoints}))
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    endpoints.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield endpoints
    finally:
        endpoints.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
