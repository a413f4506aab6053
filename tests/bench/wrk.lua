-- Sends one body again and again, and prints what was measured as one line of JSON; times in microseconds.
-- Argument: the file with the body.

function init(args)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  local file = assert(io.open(args[1], "rb"))
  wrk.body = file:read("*a")
  file:close()
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"seconds":%.6f,"p50_us":%.1f,"p99_us":%.1f,"max_us":%.1f,"failures":%d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50.0), latency:percentile(99.0), latency.max,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
