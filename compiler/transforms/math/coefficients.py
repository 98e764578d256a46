"""Derives every polynomial of the math expansion and writes Coefficients.inc.

Development only (needs mpmath; gmpy2 makes it faster): python coefficients.py > Coefficients.inc
Each table is a minimax fit of `g` on [a, b] under the weight `w` (Remez exchange), chosen so that |w (q - g)| is the
relative error of the whole function. Coefficients are rounded to the element type one by one, lowest order first, and
the rest is refitted after each rounding, so that the printed error is that of the rounded table.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

from mpmath import mp, mpf

mp.dps = 70
Function = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Table:
    name: str  # of the array in Coefficients.inc
    comment: str  # what the polynomial stands for
    g: Function
    w: Function
    a: mpf
    b: mpf
    degree: int
    bits: int  # 24: float, 53: double


def rounded(x: mpf, bits: int) -> mpf:
    if bits == 53:
        return mpf(float(x))
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def evaluate(c: list[mpf], x: mpf) -> mpf:
    result = mpf(0)
    for k in reversed(c):
        result = result * x + k
    return result


class Fit:
    """Minimax fit on a Chebyshev-spaced grid; g and w are computed once."""

    def __init__(self, t: Table) -> None:
        self.degree = t.degree
        count = 40 * (t.degree + 2)
        mid, half = (t.a + t.b) / 2, (t.b - t.a) / 2
        self.x = [mid - half * mp.cos(mp.pi * (i + mpf(1) / 2) / count) for i in range(count)]
        self.g = [t.g(x) for x in self.x]
        self.w = [abs(t.w(x)) for x in self.x]

    def error(self, c: list[mpf]) -> list[mpf]:
        return [w * (evaluate(c, x) - g) for x, g, w in zip(self.x, self.g, self.w, strict=True)]

    def worst(self, c: list[mpf]) -> mpf:
        return max(abs(k) for k in self.error(c))

    def solve(self, fixed: list[mpf], rounds: int) -> list[mpf]:
        """The coefficients, of which the first len(fixed) are given."""
        first, free = len(fixed), self.degree + 1 - len(fixed)
        if free == 0:
            return list(fixed)
        count = len(self.x)
        nodes = [min(count - 1, max(0, int(count * (1 - mp.cos(mp.pi * i / free)) / 2))) for i in range(free + 1)]
        best, best_error = None, None
        for _ in range(rounds):
            m = mp.matrix(free + 1, free + 1)
            v = mp.matrix(free + 1, 1)
            for row, i in enumerate(nodes):
                for j in range(free):
                    m[row, j] = self.w[i] * self.x[i] ** (first + j)
                m[row, free] = (-1) ** row
                v[row] = self.w[i] * (self.g[i] - evaluate(fixed, self.x[i]))
            solution = mp.lu_solve(m, v)
            c = list(fixed) + [solution[j] for j in range(free)]
            e = self.error(c)
            worst = max(abs(k) for k in e)
            if best_error is None or worst < best_error:
                best, best_error = c, worst
            if worst < abs(solution[free]) * mpf("1.005"):
                break
            nodes = self.exchange(e, free + 1) or nodes
        assert best is not None
        return best

    def exchange(self, e: list[mpf], need: int) -> list[int] | None:
        """The largest point of each run of one sign; if there are too many, drops the smaller end points."""
        peaks: list[int] = []
        for i, k in enumerate(e):
            if k == 0:
                continue
            if peaks and (e[peaks[-1]] > 0) == (k > 0):
                if abs(k) > abs(e[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > need:
            del peaks[0 if abs(e[peaks[0]]) < abs(e[peaks[-1]]) else -1]
        return peaks if len(peaks) == need else None


def fit(t: Table) -> tuple[list[mpf], mpf]:
    f = Fit(t)
    c = f.solve([], 12)
    done: list[mpf] = []
    # After the first few, rounding a coefficient no longer changes the result noticeably.
    for _ in range(min(t.degree + 1, 4)):
        done.append(rounded(c[len(done)], t.bits))
        kept = done + c[len(done) :]
        c = min(f.solve(done, 4), kept, key=f.worst)
    c = [rounded(k, t.bits) for k in c]
    return c, f.worst(c)


def print_table(t: Table) -> None:
    c, error = fit(t)
    kind = "float" if t.bits == 24 else "double"
    print(f"// {t.comment}; relative error 2^{float(mp.log(error, 2)):.1f}.")
    print(f"constexpr double {t.name}[] = {{  // {kind}, degree {t.degree}")
    for start in range(0, len(c), 4):
        print("    " + " ".join(f"{float(k).hex()}," for k in c[start : start + 4]))
    print("};\n")
    print(f"{t.name}: {float(mp.log(error, 2)):.2f}", file=sys.stderr, flush=True)


def split(name: str, value: mpf, parts: int, bits: int, comment: str) -> None:
    """An unevaluated sum of `parts` numbers of the type, largest first."""
    out = []
    for _ in range(parts):
        out.append(rounded(value, bits))
        value -= out[-1]
    body = ", ".join(float(k).hex() for k in out)
    print(f"// {comment}\nconstexpr double {name}[] = {{{body}}};\n")


LN2, PI, SQRT2 = mp.log(2), mp.pi, mp.sqrt(2)
HALF_LN2, LOG_A, LOG_B = LN2 / 2 * mpf("1.001"), 1 / SQRT2 - 1, SQRT2 - 1
QUARTER = (PI / 4) ** 2 * mpf("1.001")
S_MAX = ((SQRT2 - 1) / (SQRT2 + 1)) ** 2 * mpf("1.001")
TINY = mpf(10) ** -12


def root(z: mpf) -> mpf:
    return mp.sqrt(z)


def odd(f: Function, power: int) -> tuple[Function, Function]:
    """g, w of f(x) = x + x^3 q(x^2), given in z = x^2."""
    return (
        lambda z: (f(root(z)) - root(z)) / root(z) ** power,
        lambda z: root(z) ** power / f(root(z)),
    )


def log_tables(bits: int, name: str, degree: int, scale: mpf) -> Table:
    return Table(
        name,
        f"log(1 + f) * {float(scale):.4f} = f * {float(scale):.4f} + f^2 q(f), f from sqrt(1/2) - 1 to sqrt(2) - 1",
        lambda f: (mp.log(1 + f) * scale - f * scale) / f**2,
        lambda f: f**2 / (mp.log(1 + f) * scale),
        LOG_A,
        LOG_B,
        degree,
        bits,
    )


def erfcx(x: mpf) -> mpf:
    return mp.exp(x * x) * mp.erfc(x)


ERFC_CENTRE = mpf(4)


def erfc_argument(t: mpf) -> mpf:
    return ERFC_CENTRE * (1 + t) / (1 - t)


def tables() -> list[Table]:
    out = []
    for bits, ty, d in (
        (24, "F32", {"exp": 4, "exp2": 5, "sin": 2, "cos": 2, "sinh": 3, "atan": 5, "asin": 5}),
        (53, "F64", {"exp": 9, "exp2": 10, "sin": 6, "cos": 6, "sinh": 7, "atan": 15, "asin": 12}),
    ):
        out += [
            Table(
                f"kExp{ty}",
                "exp(r) = 1 + r + r^2 q(r), |r| <= ln(2)/2",
                lambda r: (mp.exp(r) - 1 - r) / r**2,
                lambda r: r**2 / mp.exp(r),
                -HALF_LN2,
                HALF_LN2,
                d["exp"],
                bits,
            ),
            Table(
                f"kExp2{ty}",
                "2^r = 1 + r q(r), |r| <= 1/2",
                lambda r: (mpf(2) ** r - 1) / r,
                lambda r: r / mpf(2) ** r,
                -mpf("0.5005"),
                mpf("0.5005"),
                d["exp2"],
                bits,
            ),
            Table(f"kSin{ty}", "sin(r) = r + r^3 q(r^2), |r| <= pi/4", *odd(mp.sin, 3), TINY, QUARTER, d["sin"], bits),
            Table(
                f"kCos{ty}",
                "cos(r) = 1 - r^2/2 + r^4 q(r^2), |r| <= pi/4",
                lambda z: (mp.cos(root(z)) - 1 + z / 2) / z**2,
                lambda z: z**2 / mp.cos(root(z)),
                TINY,
                QUARTER,
                d["cos"],
                bits,
            ),
            Table(
                f"kSinh{ty}",
                "sinh(x) = x + x^3 q(x^2), |x| <= 1",
                *odd(mp.sinh, 3),
                TINY,
                mpf("1.001"),
                d["sinh"],
                bits,
            ),
            Table(
                f"kAtan{ty}",
                "atan(t) = t + t^3 q(t^2), |t| <= 1/2",
                *odd(mp.atan, 3),
                TINY,
                mpf("0.2501"),
                d["atan"],
                bits,
            ),
            Table(
                f"kAsin{ty}",
                "asin(x) = x + x^3 q(x^2), |x| <= 1/2",
                *odd(mp.asin, 3),
                TINY,
                mpf("0.2501"),
                d["asin"],
                bits,
            ),
        ]
    out += [
        log_tables(24, "kLogF32", 8, mpf(1)),
        log_tables(24, "kLog2F32", 8, 1 / LN2),
        log_tables(24, "kLog10F32", 8, 1 / mp.log(10)),
        Table(
            "kLogF64",
            "2 atanh(s) = 2s + s z q(z), z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)",
            lambda z: (2 * mp.atanh(root(z)) - 2 * root(z)) / root(z) ** 3,
            lambda z: root(z) ** 3 / (2 * mp.atanh(root(z))),
            TINY,
            S_MAX,
            6,
            53,
        ),
        Table(
            "kPowLogF64",
            "2 atanh(s) = 2s + 2/3 s^3 + s^5 q(z), z = s^2: the tail of a double-double logarithm",
            lambda z: (2 * mp.atanh(root(z)) - 2 * root(z) - mpf(2) / 3 * root(z) ** 3) / root(z) ** 5,
            lambda z: root(z) ** 5 / (2 * mp.atanh(root(z))),
            TINY,
            S_MAX,
            8,
            53,
        ),
        Table(
            "kTanhF32",
            "tanh(x) = x + x^3 q(x^2), |x| <= 1",
            lambda z: (mp.tanh(root(z)) / root(z) - 1) / z,
            lambda z: z * root(z) / mp.tanh(root(z)),
            TINY,
            mpf("1.001"),
            6,
            24,
        ),
        Table(
            "kErfNearF32",
            "erf(x) = x + x q(x^2), |x| <= 1",
            lambda z: mp.erf(root(z)) / root(z) - 1,
            lambda z: root(z) / mp.erf(root(z)),
            TINY,
            mpf("1.001"),
            5,
            24,
        ),
        Table(
            "kErfFarF32",
            "erf(x) = 1 - q(x - 1)^4, x from 1 to 3.95",
            lambda u: mp.erfc(u + 1) ** (mpf(1) / 4),
            lambda u: 4 * mp.erfc(u + 1) ** (mpf(3) / 4) / mp.erf(u + 1),
            mpf("-0.001"),
            mpf("2.95"),
            8,
            24,
        ),
        Table(
            "kErfNarrowF32",
            "erfc(x) = 2^(x q(x)), x from 0 to 4; the error is of erfc, of 100 erfc where that is below 1/100",
            lambda x: mp.log(mp.erfc(x), 2) / x,
            lambda x: x * mp.log(2) * max(mp.erfc(x), mpf("0.01")),
            mpf("1e-9"),
            mpf(4),
            5,
            24,
        ),
        Table(
            "kErfSeriesF32",
            "erf(x) = x q(x^2), |x| <= 0.1",
            lambda z: mp.erf(root(z)) / root(z),
            lambda z: root(z) / mp.erf(root(z)),
            TINY,
            mpf("0.01"),
            1,
            24,
        ),
        Table(
            "kErfF64",
            "erf(x) = x + x q(x^2), |x| <= 1",
            lambda z: mp.erf(root(z)) / root(z) - 1,
            lambda z: root(z) / mp.erf(root(z)),
            TINY,
            mpf("1.001"),
            12,
            53,
        ),
        Table(
            "kErfcxF64",
            "(1 + 2x) exp(x^2) erfc(x) = q((x - 4) / (x + 4)), x from 0 to 28",
            lambda t: (1 + 2 * erfc_argument(t)) * erfcx(erfc_argument(t)),
            lambda t: 1 / ((1 + 2 * erfc_argument(t)) * erfcx(erfc_argument(t))),
            -mpf(1),
            mpf("0.751"),
            23,
            53,
        ),
    ]
    return out


def main() -> None:
    only = set(sys.argv[1:])
    if not only:
        print("// Written by coefficients.py: polynomials (lowest order first) and split constants. Do not edit.\n")
    for bits, ty in ((24, "F32"), (53, "F64")):
        split(f"kLn2{ty}", LN2, 3, bits, "ln(2)")
        split(f"kLog2e{ty}", 1 / LN2, 2, bits, "log2(e)")
        split(f"kLog10e{ty}", 1 / mp.log(10), 2, bits, "log10(e)")
        split(f"kLog10Of2{ty}", mp.log10(2), 2, bits, "log10(2)")
        split(f"kHalfPi{ty}", PI / 2, 3, bits, "pi/2")
        split(f"kPi{ty}", PI, 2, bits, "pi")
        split(f"kTwoOverPi{ty}", 2 / PI, 1, bits, "2/pi")
        split(f"kTwoThirds{ty}", mpf(2) / 3, 2, bits, "2/3")
        split(f"kQuarterPi{ty}", PI / 4, 2, bits, "pi/4")
    words = 20
    scaled = two_over_pi(64 * words)
    print("// 2/pi, 64 bits a word, most significant first.")
    print("constexpr uint64_t kTwoOverPiBits[] = {")
    parts = [(scaled >> (64 * (words - 1 - i))) & (2**64 - 1) for i in range(words)]
    for start in range(0, words, 4):
        print("    " + " ".join(f"0x{k:016x}," for k in parts[start : start + 4]))
    print("};\n")
    for t in tables():
        if not only or t.name in only:
            print_table(t)


def two_over_pi(bits: int) -> int:
    """The first `bits` bits of 2/pi after the binary point."""
    with mp.workprec(bits + 64):
        return int(mp.floor((2 / +mp.pi) * mpf(2) ** bits))


if __name__ == "__main__":
    main()
