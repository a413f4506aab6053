"""The access log: one JSON object per request, with what the processor has found out about it.

Tokens and costs come from dynamic metadata, so they keep their type: a cost is a number in the log. An operator whose
metadata is missing gives null. The processor names model and backend before it asks one, and with an error; Envoy
names route and endpoint by itself, also where the processor was never asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from envoy_data_plane.envoy.config.accesslog.v3 import AccessLog as EnvoyAccessLog
from envoy_data_plane.envoy.config.core.v3 import SubstitutionFormatString, TypedExtensionConfig
from envoy_data_plane.envoy.extensions.access_loggers.file.v3 import FileAccessLog
from envoy_data_plane.envoy.extensions.formatter.req_without_query.v3 import ReqWithoutQuery

from deploy.envoy import names
from deploy.envoy.wire import pack, struct

if TYPE_CHECKING:
    from deploy.envoy.model import AccessLog

_FROM_ENVOY: Final = {
    "start_time": "%START_TIME%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "method": "%REQ(:METHOD)%",
    # Without the query: some clients put their key there.
    "path": f"%REQ_WITHOUT_QUERY({names.ORIGINAL_PATH_HEADER}?:PATH)%",
    "status": "%RESPONSE_CODE%",
    "response_code_details": "%RESPONSE_CODE_DETAILS%",
    "response_flags": "%RESPONSE_FLAGS%",
    "duration_ms": "%DURATION%",
    "request_ms": "%REQUEST_DURATION%",
    "gateway_ms": "%COMMON_DURATION(DS_RX_END:US_TX_BEG:ms)%",
    "backend_ms": "%COMMON_DURATION(US_TX_END:US_RX_BEG:ms)%",
    "first_byte_ms": "%RESPONSE_DURATION%",
    "response_ms": "%RESPONSE_TX_DURATION%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "upstream_host": "%UPSTREAM_HOST%",
    "backend_ref": f"%METADATA(UPSTREAM_HOST:{names.XDS_NAMESPACE}:{names.BACKEND_NAME_KEY})%",
    "route": f"%METADATA(ROUTE:{names.XDS_NAMESPACE}:{names.ROUTE_NAME_KEY})%",
    "requested_model": f"%REQ({names.MODEL_HEADER})%",
}
"""Durations: until the request is whole; from then until Envoy sends the backend its request, which is the gateway's
time; from its end until the backend begins to answer; until then from the start; from then to the end."""
_FROM_PROCESSOR: Final = {
    "model": "model_name_override",
    "response_model": "response_model",
    "backend": "ai_service_backend_name",
    "response_error": "response_error",
    "ttft_ms": "token_latency_ttft",
    "itl_ms": "token_latency_itl",
}
"""Keys of the log and the metadata keys they show (contract, server 3.16)."""


def access_log(config: AccessLog) -> EnvoyAccessLog:
    fields: dict[str, object] = {**_FROM_ENVOY}
    fields |= {field: names.dynamic_metadata(key) for field, key in _FROM_PROCESSOR.items()}
    if config.cost_keys:
        fields["costs"] = {key: names.dynamic_metadata(key) for key in config.cost_keys}
    cut = TypedExtensionConfig(name="envoy.formatter.req_without_query", typed_config=pack(ReqWithoutQuery()))
    line = SubstitutionFormatString(json_format=struct(fields), formatters=[cut])
    log = FileAccessLog(path=config.path, log_format=line)
    return EnvoyAccessLog(name="envoy.access_loggers.file", typed_config=pack(log))
