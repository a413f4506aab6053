"""Export over OpenTelemetry: the only place, with ``tracing.recorder``, that knows its SDK.

Nothing here but ``exports`` is imported unless the environment asks for an export, and the SDK is an extra.
"""
