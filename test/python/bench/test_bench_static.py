"""What Kiln compiles for a row, inspected without a GPU; needs ptxas and nvdisasm."""

import cases
import pytest
from kiln import errors


def compiled(name, target="sm_90a"):
    import static

    (case,) = (case for case in cases.select([]) if case.name == name)
    try:
        found = static.compile_row(case, target)
        return found, [static.line(launch) for launch in found]
    except errors.UserError as error:
        pytest.skip(str(error).splitlines()[0])


def test_a_row():
    import static

    found, lines = compiled("swiglu 2048×4096")
    assert len(found) == 1 and len(lines[0]) == len(static.HEADS) - 1
    if found[0].cuda["form"] != "cubin":
        pytest.skip("no ptxas")
    cells = dict(zip(static.HEADS[1:], lines[0], strict=True))
    assert cells["spills"] == "0" and "× 16 B" in cells["loads"] and "× 16 B" in cells["stores"]
    # Every element is stored by one thread: blocks × threads × elements that a thread stores.
    stored = int(cells["stores"].partition(" ×")[0]) * 16
    assert int(cells["blocks"]) * found[0].cuda["threads"] * stored == 2 * 2048 * 4096
    assert 1 <= found[0].resident <= 32


def test_launches_run_again_afterwards():
    import static
    from kiln.runtime import jit

    with pytest.raises(ZeroDivisionError), static.compiling_only("sm_90a"):
        assert jit._recorder is not None
        raise ZeroDivisionError
    assert jit._recorder is None
