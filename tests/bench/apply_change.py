"""How long a changed route takes from the file to both processes: ``python -m tests.bench.apply_change [ROUTES …]``.

``extproc run``'s own parts serve resources; the file is replaced, and the clock stops when the processor and Envoy have
both said that they serve by it. Printed in milliseconds, each the median of some edits of one route: where the time
goes, and the CPU that it took here, in the processor with its decoder, and in Envoy. The watch of the file, which adds
some 20 ms, is not part of it.
"""

from __future__ import annotations

import gc
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from deploy.local.compiling import Compiler
from deploy.local.files import Files
from deploy.local.served import Options
from deploy.local.session import Session
from tests.bench.compile_resources import resources

ROUTES = (5, 100, 2000)
EDITS = 7
STEPS = ("start", "compile", "apply", "all", "cpu here", "processor", "envoy")

_NAME = re.compile(rb"- fqdn:\n        hostname: \S+\n")


class _Silent:
    """Nothing may go wrong here."""

    def fault(self, fault):
        raise AssertionError(str(fault))

    problem = fault


def _cpu(pid: int) -> float:
    """Seconds of CPU of a process and those that it has started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = (path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return own + sum(_cpu(int(child)) for found in children for child in found)


def measure(routes: int, edits: int = EDITS) -> dict[str, float]:
    """Seconds of the first start and of the parts of an edit, each the median."""
    # Addresses: how long a resolver takes, or the lack of one, is another matter.
    text = _NAME.sub(rb"- ip:\n        address: 127.0.0.1\n", resources(routes).data)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = directory / "resources.yaml"
        file.write_bytes(text)
        files, compiler = Files([str(file)]), Compiler({})
        session = stack.enter_context(Session(Options(), _Silent(), port=0))
        begun = time.monotonic()
        content = files.read()
        session.start(compiler.compile(content.texts, content.faults))
        first = time.monotonic() - begun
        (gateway,) = session.gateways.values()
        processes = {
            "cpu here": time.process_time,
            "processor": lambda: _cpu(gateway.processor.child.pid),
            "envoy": lambda: _cpu(gateway.envoy.child.pid),
        }
        gc.disable()  # as the command does
        stack.callback(gc.enable)
        spent: dict[str, list[float]] = {}
        for number in range(edits):
            edited = text.replace(b"value: model-1\n", b"value: edited-%d\n" % number)
            file.write_bytes(edited)
            used = {name: cpu() for name, cpu in processes.items()}
            times = [time.monotonic()]
            content = files.read_settled(content)
            outcome = compiler.compile(content.texts, content.faults)
            times.append(time.monotonic())
            session.apply(outcome)
            times.append(time.monotonic())
            for step, seconds in (("compile", times[1] - times[0]), ("apply", times[2] - times[1])):
                spent.setdefault(step, []).append(seconds)
            spent.setdefault("all", []).append(times[2] - times[0])
            for name, cpu in processes.items():
                spent.setdefault(name, []).append(cpu() - used[name])
            # As the command does, when the edit is live.
            gc.collect()
    return {"start": first, **{step: statistics.median(seconds) for step, seconds in spent.items()}}


def main() -> None:
    """Measures and prints."""
    sizes = [int(size) for size in sys.argv[1:]] or ROUTES
    print(f"{'routes':>9}" + "".join(f"{step:>10}" for step in STEPS), f"  ms, median of {EDITS} edits")
    for routes in sizes:
        found = measure(routes)
        print(f"{routes:9}" + "".join(f"{found[step] * 1000:10.0f}" for step in STEPS), flush=True)
    print("load average", *(f"{load:.1f}" for load in os.getloadavg()))


if __name__ == "__main__":
    main()
