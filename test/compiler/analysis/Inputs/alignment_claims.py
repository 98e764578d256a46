"""Checks every claim of the alignment and range analyses on random tile programs (programs.py).

kiln-opt writes its claims onto the ops. Each program is then evaluated for several argument vectors, extremes included,
and each value is compared with its claim, in every iteration of every loop.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys

import numpy as np
from evaluation import Type, unsigned, wrap
from programs import Program

CLAIM = re.compile(r"group \[(.*?)\] step \[(.*?)\] divisible \[(.*?)\](?: range \[(.*?)\] unsigned \[(.*?)\])?$")


def violations(claim: str, type_: Type, value: np.ndarray) -> list[str]:
    match = CLAIM.match(claim)
    assert match, claim
    groups, steps, divisors = ([int(x) for x in match[i].split(",")] for i in (1, 2, 3))
    shape = type_.shape or (1,)
    value = np.asarray(value, np.int64).reshape(shape)
    bad = []
    for axis, (group, step, divisor) in enumerate(zip(groups, steps, divisors, strict=False)):
        side = shape[axis]
        if side % group:
            bad.append(f"group {group} does not divide {side}")
            continue
        moved = np.moveaxis(value, axis, -1)
        chunks = moved.reshape(*moved.shape[:-1], side // group, group)
        if group > 1 and (wrap(np.diff(chunks, axis=-1) - np.int64(step), type_.bits) != 0).any():
            bad.append(f"dimension {axis} does not step by {step} in groups of {group}")
        low = min(divisor, 1 << min(type_.bits, 62)) - 1
        if (chunks[..., 0] & np.int64(low)).any():
            bad.append(f"dimension {axis}: first elements are not multiples of {divisor}")
    if match[4]:
        low, high = (int(x) for x in match[4].split(","))
        if value.min() < low or value.max() > high:
            bad.append(f"{value.min()}..{value.max()} is not in [{low}, {high}]")
        low, high = (int(x) for x in match[5].split(","))
        raw = unsigned(value, type_.bits)
        if int(raw.min()) < low or int(raw.max()) > high:
            bad.append(f"unsigned {raw.min()}..{raw.max()} is not in [{low}, {high}]")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vectors", type=int, default=8)
    options = parser.parse_args()
    programs = [Program(options.seed + i) for i in range(options.programs)]
    text = "".join(p.text() for p in programs)
    done = subprocess.run(["kiln-opt", "--kiln-print-alignment", "-"], input=text, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[:4000])
        return 1
    chunks = re.split(r"(?=func\.func @p\d+\()", done.stdout)[1:]
    checked = known = failures = 0
    for program, chunk in zip(programs, chunks, strict=False):
        annotations = re.findall(r"kiln\.alignment(?:_args)? = \[((?:\"[^\"]*\"(?:, )?)*)\]", chunk)
        claims = [re.findall(r'"([^"]*)"', annotation) for annotation in annotations]
        targets = [group for step in program.steps for group in step.claims()]
        assert len(claims) == len(targets), f"{program.name}: {len(claims)} annotations for {len(targets)} ops"
        for env in program.environments(options.vectors):
            for step in program.steps:
                step.execute(env)
        for lines, steps in zip(claims, targets, strict=False):
            for line, step in itertools.zip_longest(lines, steps):
                known += "group [1] step [0] divisible [1]" not in line
                for value in step.seen:
                    checked += 1
                    for problem in violations(line, step.type, value):
                        failures += 1
                        if failures <= 10:
                            print(f"{program.name} {step.name} {step.text} : {step.type}\n  claim: {line}\n  {problem}")
                        break
    print(f"{len(programs)} programs, {checked} values checked, {known} claims that say something, {failures} broken")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
