"""Makes the modules of bench/ importable, and provides records for tests of reports and verdicts."""

import json
import pathlib
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"
if str(BENCH) not in sys.path:
    sys.path.append(str(BENCH))


def peer(name, us, case, status="ok", note="", warm=None):
    """What a worker records for one peer."""
    found = {"peer": name, "status": status, "note": note}
    if status != "ok":
        return found
    found["error"] = 2e-4

    def timed(median):
        return {"median": median, "p25": 0.98 * median, "p75": 1.02 * median, "least": 0.95 * median,
                "most": 1.2 * median, "rounds": 9, "tbs": case.tbs(median)}  # fmt: skip

    found["cold"] = timed(us)
    if warm is not None:
        found["warm"] = timed(warm)
    return found


@pytest.fixture
def make_record():
    """make_record("rms_norm 2048×4096", kiln=10.0, torch=11.0, …) → what run_case returns."""
    import dataclasses

    import cases

    every = {case.name: case for case in cases.select([])}

    def make(name, failed=(), warm=None, **times):
        case = every[name]
        peers = {
            peer_name.replace("_", "+"): peer(peer_name.replace("_", "+"), us, case, warm=warm)
            for peer_name, us in times.items()
        }
        peers |= {name: peer(name, 0, case, "failed", "RuntimeError: no") for name in failed}
        plan = {"sets": 5, "launches": 100, "replays": 2, "warm_launches": 100, "rounds": 9}
        record = {"case": dataclasses.asdict(case) | {"name": case.name}, "plan": plan, "peers": peers}
        record |= {"state": {"sm_mhz": 1980, "watts": 400.0}, "allowed_error": 4e-4}
        return json.loads(json.dumps(record))  # in a worker's format

    return make


@pytest.fixture
def results(make_record):
    """Three rows, one of them with a peer that failed."""
    import report

    found = report.Results({"gpu": "G", "driver": "1.2", "commit": "abc", "method": "m", "torch": "2.11"})
    found.add(make_record("softmax 4096×4096", kiln=17.0, torch=40.0, ceiling=16.5, warm=12.0))
    found.add(make_record("rms_norm 1×4096", kiln=1.5, kiln_pdl=1.4, torch=2.5, quack=1.62))
    found.add(make_record("rms_norm 2048×4096", failed=["quack"], kiln=12.0, kiln_pdl=10.0, torch=11.0, ceiling=9.0))
    return found
