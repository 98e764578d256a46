"""Concurrent compiles: each one succeeds or fails exactly as it does alone.

KILN_FUZZ_COMPILES (24) sets the number of compiles, KILN_FUZZ_THREADS (4) the number of threads. Memory freed too early
or shared by mistake shows when freed memory is overwritten, as the Makefile arranges, and best in a build with
sanitizers (README.md).
"""

from __future__ import annotations

import concurrent.futures
import gc
import os
import random
from typing import NamedTuple

import kiln
import kiln.language as kl
import pytest
from kiln import compiler, errors, frontend
from kiln.cli.signature import parse_signature

COMPILES = int(os.environ.get("KILN_FUZZ_COMPILES", "24"))
THREADS = int(os.environ.get("KILN_FUZZ_THREADS", "4"))
SEED = os.environ.get("KILN_FUZZ_SEED", "0")

pytestmark = pytest.mark.fuzz


@kiln.jit
def product(a, b, c, K, M: kl.constexpr, N: kl.constexpr, BLOCK: kl.constexpr):
    x = kl.make_tensor_descriptor(a, [1024, K], [K, 1], [M, BLOCK])
    y = kl.make_tensor_descriptor(b, [K, 1024], [1024, 1], [BLOCK, N])
    z = kl.make_tensor_descriptor(c, [1024, 1024], [1024, 1], [M, N])
    row, column = kl.program_id(0) * M, kl.program_id(1) * N
    total = kl.zeros([M, N], kl.float32)
    for k in range(0, K, BLOCK):
        total = kl.dot(x.load([row, k]), y.load([k, column]), total)
    z.store([row, column], total.to(kl.float16))


@kiln.jit
def rows(x, out, n, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    value = kl.exp(kl.load(x + kl.program_id(0) * n + i, mask=i < n, other=-float("inf")))
    kl.store(out + kl.program_id(0) * n + i, value / kl.sum(value, axis=0), mask=i < n)


@kiln.jit
def checked(x, out, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    value = kl.load(x + i)
    kl.device_assert(value > 0, "expected positive numbers")
    kl.device_print("value", value)
    kl.store(out + i, kl.sort(value))


@kiln.jit
def refused_by_ptxas(x, out, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    value = kl.inline_asm_elementwise("no.such.instruction $0, $1;", "=f,f", [kl.load(x + i)], kl.float32, True, 1)
    kl.store(out + i, value)


@kiln.jit
def mistaken(x, out, BLOCK: kl.constexpr):
    kl.store(out + kl.arange(0, BLOCK), kl.load(x + kl.arange(0, 2 * BLOCK)))


PRODUCT = "a=*fp16:16, b=*fp16:16, c=*fp16:16, K=i32:16, M={}, N={}, BLOCK={}"
ROWS = "x=*fp32:16, out=*fp32:16, n=i32:16, BLOCK={}"
OTHER = "x=*fp32:16, out=*fp32:16, BLOCK={}"

# Inputs that fail in a pass, in LLVM's parser and in its assembler.
TEXTS = {
    "opt": "func.func public @f(%x: !tile.ptr<f32>) attributes {tile.kernel} { %0 = tile.load %x : no }",
    "llvm": "; kiln.metadata: {}\ndefine void @f() { ret i32 0 }",
    "cpu": "module { func.func @f() { %0 = arith.constant 1 : tensor<4xi32> return } }",
}


class Job(NamedTuple):
    kernel: object
    signature: str
    options: dict


def draw(rng: random.Random) -> Job:
    """Half of them fail: too little shared memory, too few registers, an invalid schedule, a mistake in the kernel."""
    options: dict = {"target": rng.choice(["sm_90a", "sm_90a", "sm_90a", "sm_80", "cpu-avx2"])}
    kernel = rng.choice([product, product, product, rows, rows, checked, refused_by_ptxas, mistaken, None])
    if kernel is None:
        stage = rng.choice(list(TEXTS))
        return Job(None, stage, {"target": "cpu-avx2"} if stage == "cpu" else options)
    if options["target"] != "cpu-avx2":
        options["num_warps"] = rng.choice([1, 4, 4, 8])
        options["line_info"] = rng.random() < 0.2
        options["maxnreg"] = rng.choice([None, None, None, 32, 168])
    if kernel is product:
        sides = rng.choice([16, 64, 128]), rng.choice([32, 128, 256]), rng.choice([32, 64, 128])
        schedules = ["auto", "simple", "lanes", "cooperative", "pingpong", "skinny", "none", "nothing"]
        options["schedule"] = rng.choice(schedules)
        options["stages"] = rng.choice([None, 2, 3, 4, 9])
        return Job(kernel, PRODUCT.format(*sides), options)
    if kernel is rows:
        options["cluster"] = rng.choice([1, 1, 2]) if options["target"] == "sm_90a" else 1
        return Job(kernel, ROWS.format(rng.choice([64, 1024, 8192, 65536])), options)
    return Job(kernel, OTHER.format(rng.choice([32, 256])), options)


def outcome(job: Job, crashes: str) -> tuple:
    """The result of the compile, or how it fails; the result is examined after everything else is freed."""
    options = {**job.options, "crash_directory": crashes}
    try:
        if job.kernel is None:
            artifact = compiler.compile_text(TEXTS[job.signature], job.signature, options)
        else:
            module = frontend.emit(job.kernel, parse_signature(job.signature, job.kernel), "kernel")
            artifact = compiler.compile(module, options)
            del module
    except errors.KilnError as error:
        return type(error).__name__, str(error)
    said = repr(artifact.diagnostics), artifact.text()
    gc.collect()
    return artifact.binary, artifact.metadata, *said


def jobs(seed: str) -> list[Job]:
    rng = random.Random(seed)
    return [draw(rng) for _ in range(COMPILES)]


def test_concurrent_compiles_equal_sequential_ones(tmp_path):
    drawn = jobs(SEED)
    alone = {repr(job): outcome(job, str(tmp_path)) for job in drawn}
    failures = {result[0] for result in alone.values() if len(result) == 2}
    assert "CompilationError" in failures and len(failures) > 1 and any(len(result) > 2 for result in alone.values())
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda job: outcome(job, str(tmp_path)), drawn))
    for job, result in zip(drawn, together, strict=True):
        assert result == alone[repr(job)], job
