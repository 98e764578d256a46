"""The child process of suite.py: measures rows one after another and writes a JSON line for everything it does.

    python bench/worker.py '{"cases": ["rms_norm 2048×896"], "rows_of": "cases", "peers": [...], ...}'

A child can hang or lose its device; the parent then starts another with the remaining rows. Lines it writes:
    {"event": "start", "case": …}   {"event": "phase", "case": …, "phase": "inductor"}   {"event": "result", …}
    {"event": "unusable", "message": …}   and nothing after it: there is no device to measure on
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import sys
import traceback
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def main() -> int:
    job = json.loads(sys.argv[1])
    # Anything that libraries print goes to stderr: stdout belongs to the parent.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def emit(**event: Any) -> None:
        lines.write(json.dumps(event) + "\n")

    from device import environment, make_device
    from runner import Settings, run_case, warm_up

    settings = Settings(tuple(job["peers"]), job["rounds"], job["warm"], job["search"], job["most_sets"])
    try:
        device = make_device(job["device"])
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        emit(event="unusable", message=str(error) or type(error).__name__)
        return 5
    if job["prepare"]:
        with contextlib.suppress(ImportError):
            import torch._inductor.config as inductor

            # The timed run must not reuse what was tuned while others used the GPU.
            inductor.autotune_local_cache = False
    else:
        emit(event="environment", facts=environment(device))
    named = importlib.import_module(job["rows_of"]).named
    cases = {name: named(name) for name in job["cases"]}
    for name in job["cases"]:
        emit(event="start", case=name)
        say = lambda phase: emit(event="phase", case=name, phase=phase)  # noqa: E731, B023
        try:
            if job["prepare"]:
                warm_up(cases[name], device, settings, say)
                emit(event="result", case=name)
            else:
                emit(event="result", case=name, record=run_case(cases[name], device, settings, say))
        except Exception as error:
            traceback.print_exc()
            emit(event="failed", case=name, message=f"{type(error).__name__}: {error}"[:500])
            try:
                device.synchronize()
            except Exception:  # the context is lost: only a new process gets another
                return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
