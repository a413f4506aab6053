"""The admin port: metrics, health, readiness and the live config over HTTP, for operators and probes."""
