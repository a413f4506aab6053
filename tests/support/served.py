"""A gRPC server of ours on a free port, a core that echoes, and grpcio's client for it: the same for every engine."""

from __future__ import annotations

import asyncio

import uvloop
from grpc import aio

from extproc.errors import StreamFailure
from extproc.exchange.decode import decode
from extproc.transport.grpc_aio import GrpcServer
from extproc.transport.http2.server import Http2Server
from protos.ext_proc_pb2 import BodyResponse, HttpBody, ProcessingRequest, ProcessingResponse
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse

PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

ENGINES = {"grpcio": GrpcServer, "http2": Http2Server}
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def body(data):
    return ProcessingRequest(request_body=HttpBody(body=data))


class Stream:
    """Echoes bodies; a body may also say what is to happen instead."""

    def __init__(self, processor):
        self.end = None
        self._processor = processor
        processor.opened += 1

    def feed(self, data):
        assert type(data) is bytes, "a message is no other kind of buffer"
        piece = decode(ProcessingRequest, data).request_body.body
        self._processor.fed.append(piece)
        match piece:
            case b"fail":
                raise StreamFailure(StreamFailure.NOT_FOUND, "unsupported path: /x")
            case b"fault":
                raise KeyError("sk-secret")
            case b"observe":
                return None
            case b"last":
                self.end = StreamFailure(StreamFailure.NOT_FOUND, "that was all")
        reply = ProcessingResponse(request_body=BodyResponse())
        reply.request_body.response.body_mutation.body = piece
        return reply

    def close(self):
        self._processor.closed += 1


class Processor:
    def __init__(self):
        self.opened = self.closed = 0
        self.fed = []

    def open(self):
        return Stream(self)


class Served:
    """A server on a free port and a client of it."""

    def __init__(self, engine, address="127.0.0.1:0", *, serving=True, **options):
        self.processor = Processor()
        self.serving = serving
        self.server = engine(self.processor, is_serving=lambda: self.serving, **options)
        self.address = self.server.listen(address)
        self.channel = aio.insecure_channel(self.address, options=UNLIMITED)

    async def __aenter__(self):
        await self.server.start()
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.server.stop(0)

    def process(self):
        return self.channel.stream_stream(PROCESS, ProcessingRequest.SerializeToString, ProcessingResponse.FromString)()

    def watch(self):
        return self.channel.unary_stream(
            "/grpc.health.v1.Health/Watch", HealthCheckRequest.SerializeToString, HealthCheckResponse.FromString
        )(HealthCheckRequest())

    async def exchange(self, *bodies):
        call = self.process()
        replies = []
        for data in bodies:
            await call.write(body(data))
            replies.append((await call.read()).request_body.response.body_mutation.body)
        await call.done_writing()
        return replies, await call.code()

    async def all_opened(self, count):
        while self.processor.opened < count:  # noqa: ASYNC110 - the double has no loop
            await asyncio.sleep(0.001)

    async def all_closed(self):
        while self.processor.closed < self.processor.opened:  # noqa: ASYNC110 - the double has no loop
            await asyncio.sleep(0.001)
