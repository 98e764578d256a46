"""The verdict "good enough", on hand-made records."""

import pytest
import verdict

ROW = "rms_norm 2048×4096"


@pytest.mark.parametrize("kiln,torch,ceiling,passes", [
    (10.0, 10.6, 8.0, True),  # 1.06 × the peer: enough, whatever the ceiling
    (10.0, 10.1, 9.8, True),  # 1.01 × the peer, but 0.98 of the ceiling
    (10.0, 10.1, 9.0, False),  # neither
    (10.0, 9.95, 9.9, True),  # 0.995 of the peer, 0.99 of the ceiling
    (10.0, 9.8, 9.79, False),  # 0.98 of the ceiling, but under 0.99 of the peer
    (10.0, 9.95, 12.0, True),  # the peer counts as the ceiling: it is faster than the kernel that moves bytes
])  # fmt: skip
def test_row(make_record, kiln, torch, ceiling, passes):
    found = verdict.judge(make_record(ROW, kiln=kiln, torch=torch, ceiling=ceiling))
    assert found.passes is passes
    assert found.over_peer == pytest.approx(torch / kiln)
    assert found.of_ceiling == pytest.approx(min(torch, ceiling) / kiln)


def test_best_of_several_peers(make_record):
    record = make_record(ROW, kiln=10.0, torch=20.0, quack=10.2, triton=11.0, ceiling=9.0)
    assert verdict.best_peer(record) == ("quack", 10.2)
    assert verdict.judge(record).misses == ("1.02 of quack, 0.90 of the ceiling",)


def test_a_peer_that_failed_is_no_peer(make_record):
    record = make_record(ROW, failed=["quack"], kiln=10.0, torch=20.0)
    assert verdict.best_peer(record) == ("torch", 20.0)
    assert verdict.judge(make_record(ROW, failed=["kiln"], torch=20.0)) is None
    alone = verdict.judge(make_record(ROW, kiln=10.0))
    assert alone.passes and alone.over_peer is None and alone.of_ceiling is None


def test_variants_are_judged_apart(make_record):
    record = make_record(ROW, kiln=10.0, kiln_pdl=9.0, torch=10.0, ceiling=8.5)
    assert not verdict.judge(record).passes
    assert verdict.judge(record, "kiln+pdl").passes
    assert verdict.best_peer(record)[0] == "torch"  # Kiln is not its own peer


def test_absolute(make_record):
    assert verdict.judge(make_record("rms_norm 1×4096", kiln=1.58, torch=2.0)).passes
    slow = verdict.judge(make_record("rms_norm 1×4096", kiln=1.62, torch=2.0))
    assert slow.misses == ("1.62 for 1.6 µs",)
    bytes_ = 28 * 50_000_000
    assert verdict.judge(make_record("adamw 50M", kiln=bytes_ / 4.01e6, torch=400.0)).passes
    assert verdict.judge(make_record("adamw 50M", kiln=bytes_ / 3.99e6, torch=400.0)).misses == ("3.99 of 4.0 TB/s",)


def test_overall(make_record):
    records = [
        make_record(ROW, kiln=10.0, torch=12.0, ceiling=9.0),
        make_record("softmax 8192×32768", kiln=100.0, torch=120.0, ceiling=99.0),
        make_record("adamw 1M", kiln=1.0, torch=39.0, ceiling=1.0),
    ]
    found = verdict.overall(records)
    assert found.rows == 3 and found.passed == 3
    assert found.mean == pytest.approx(1.2)  # AdamW 1M, 39 times faster, stays out
    assert found.mean_of_ceiling == pytest.approx((0.9 * 0.99) ** 0.5)
    assert verdict.overall([]).mean is None
