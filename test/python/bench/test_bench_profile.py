"""Reading machine code and the output of Nsight Compute."""

import sass

# Shaped like nvdisasm's output: two loads of 16 bytes, one of 2, used after a barrier; one load depends on another.
TEXT = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   S2R R0, SR_TID.X ;
        /*0020*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0030*/              @!P0 LDG.E.128 R8, desc[UR4][R2.64+0x200] ;
        /*0040*/                   LDG.E.U16 R12, desc[UR4][R14.64] ;
        /*0050*/                   HADD2.F32 R16, -RZ, R5.H0_H0 ;
        /*0060*/                   LDG.E R20, desc[UR4][R8.64] ;
        /*0070*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0080*/                   STL.64 [R1+0x8], R20 ;
        /*0090*/                   LDL R21, [R1] ;
        /*00a0*/                   STG.E.128 desc[UR4][R2.64], R16 ;
        /*00b0*/                   STG.E.U8 desc[UR4][R2.64], R16 ;
        /*00c0*/                   EXIT ;
"""


def test_accesses():
    found = sass.read(TEXT)
    assert found.loads == {16: 2, 2: 1, 4: 1}
    assert found.stores == {16: 1, 1: 1}
    assert found.local == 2 and found.barriers == 1
    assert found.in_flight == 16 + 16 + 2  # HADD2 needs R5
    assert found.rounds == 2  # the last load is issued after that wait
    assert sass.describe(found.loads) == "2 × 16 B, 1 × 4 B, 1 × 2 B"
    assert sass.describe({}) == "none"


def test_a_load_whose_address_was_loaded_waits():
    chained = TEXT.replace("desc[UR4][R14.64]", "desc[UR4][R8.64]")
    found = sass.read(chained)
    assert (found.in_flight, found.rounds) == (32, 3)


def test_what_a_real_kernel_has_in_flight():
    """The ceiling kernel with 4 loads of 2 arrays: 128 bytes per thread."""
    from test_bench_baselines import compiled, disassembled

    defines = {"THREADS": 256, "UNROLL": 4, "READS": 2, "WRITES": 1, "EXTRAS": 0, "HINT": 0}
    found = sass.read(disassembled(compiled("move.cu", "move", defines), "move"))
    assert found.in_flight == 128 and found.rounds == 1 and found.loads == {16: 8} and found.stores == {16: 4}


def test_counters_are_read_with_their_units():
    import profile_kernel

    text = "\n".join([
        "==PROF== Connected to process 1",
        '"ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread"',
        '"","","us","register/thread"',
        '"0","kiln_rms_norm_kernel","1,234.5","32"',
    ])  # fmt: skip
    expected = {"duration": "1,234.5 us", "registers": "32 register/thread"}
    assert profile_kernel.parse(text) == [("kiln_rms_norm_kernel", expected)]
    assert profile_kernel.parse("no kernels were profiled") == []
