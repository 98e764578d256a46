"""The terms applied to a score between the scale and softmax, and which keys a query sees."""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import CompilationError
from kiln.frontend import scope
from kiln.frontend.derivative import with_derivative
from kiln.frontend.emission import current
from kiln.frontend.visitor import Visitor
from kiln.kernels.fast import exp2_flushed, reciprocal
from kiln.kernels.operator import strides
from kiln.language import values
from kiln.language.builtin import builtin

LOG2_E: kl.constexpr = kl.constexpr(1.4426950408889634)


@kiln.jit
def falling(x):
    """1 / (2^x + 1): from 1 to 0 as x grows."""
    return reciprocal(1.0 + exp2_flushed(x))


@kiln.jit
def tanh(x):
    """1 - 2 / (e^2x + 1), to within 2 units of float32's precision at 1."""
    return 1.0 - 2.0 * falling(x * (2 * LOG2_E))


@kiln.jit
def finite(top):
    """A row that has seen no key yet has a maximum of -inf: subtracting 0 instead keeps its weights at 0."""
    return kl.where(top == -float("inf"), 0.0, top)


@kiln.struct
class At:
    """Where a tile of scores is: sequence, head, rows (as a column) and keys (as a row); and how many queries and keys
    the sequence has. The last query sees the last key: key j is ``row + shift - j`` tokens before a query's own."""

    batch: Any
    head: Any
    row: Any
    key: Any
    queries: Any
    keys: Any

    @property
    @kiln.jit
    def shift(self):
        return self.keys - self.queries

    @kiln.jit
    def inside(self, args, masks=True):
        """The same, with indices beyond the sequence's end clamped to its last: functions with arguments may read
        arrays with them. Only steps that may need a mask (``masks``) have such keys."""
        if len(args) == 0:
            return self
        key = self.key
        if masks:
            key = kl.minimum(key, self.keys - 1)
        return self._replace(row=kl.minimum(self.row, self.queries - 1), key=key)

    @kiln.jit
    def apply(self, FUNCTION: kl.constexpr, args):
        at = self.inside(args)
        return FUNCTION(at.batch, at.head, at.row, at.key, *args)


@kiln.struct
class Bias:
    """(batch, heads, queries, keys), added to scores; a stride of None broadcasts."""

    data: Any
    batch_stride: Any
    head_stride: Any
    row_stride: Any
    key_stride: Any

    @staticmethod
    def of(array: Any) -> Bias:
        """The bias of an array; sides of 1 broadcast."""
        return Bias(array, *(None if n == 1 else step for n, step in zip(array.shape, strides(array), strict=True)))

    @kiln.jit
    def place(self, at):
        """Pointers to what is added to a tile of scores, and their mask (None: all exist)."""
        pointers, mask = self.data, None
        if self.batch_stride is not None:
            pointers += at.batch.to(kl.int64) * self.batch_stride
        if self.head_stride is not None:
            pointers += at.head * self.head_stride
        if self.row_stride is not None:
            pointers, mask = pointers + at.row.to(kl.int64) * self.row_stride, at.row < at.queries
        if self.key_stride is not None:
            there = at.key < at.keys
            pointers, mask = pointers + at.key * self.key_stride, there if mask is None else mask & there
        return pointers, mask

    @kiln.jit
    def load(self, at):
        pointers, mask = self.place(at)
        value = kl.load(pointers) if mask is None else kl.load(pointers, mask=mask, other=0.0)
        return value if value.dtype == kl.float64 else value.to(kl.float32)


@kiln.struct
class Terms:
    """score → MOD(softcap · tanh(score / softcap) + bias - slope · distance, …); terms that are None are left out.

    ``slopes``: one per head, or per batch and head with batches ``slopes_stride`` apart. CAUSAL: no key that counts
    comes after its query.
    """

    softcap: Any = None
    slopes: Any = None
    slopes_stride: Any = None
    bias: Any = None
    args: Any = ()
    MOD: kl.constexpr = None
    CAUSAL: kl.constexpr = False

    @kiln.jit
    def slope(self, batch, head):
        return None if self.slopes is None else kl.load(self.slopes + batch * self.slopes_stride + head)

    @kiln.jit
    def tilt(self, slope, N: kl.constexpr):
        """What causal slopes add to a row of N scores, without what they all have in common; None if the scores of a
        row differ in more than that."""
        if slope is None or not self.CAUSAL or self.MOD is not None or len(slope.shape) > 0:
            return None
        return slope * kl.arange(0, N).to(kl.float32)[None, :]

    @kiln.jit
    def of(self, product, scale, slope, at, masks=True, tilt=None):
        """``masks``: whether there may be keys beyond the last. ``tilt``: see `tilt`; what a row's or a block's own
        distance adds to all scores equally is left out."""
        if self.softcap is None:
            score = product * scale
        else:
            # One multiplication on either side of the exponential.
            score = self.softcap - 2.0 * self.softcap * falling(product * self.steepness(scale))
        return self.added(score, slope, at, masks, tilt, False)

    @kiln.jit
    def steepness(self, scale):
        return scale * (2 * LOG2_E) * (1.0 / self.softcap)

    @kiln.jit
    def added(self, score, slope, at, masks, tilt, APART: kl.constexpr):
        """The terms after softcap. APART: rows and columns are converted apart, in few registers."""
        if self.bias is not None:
            score += self.bias.load(at)
        if tilt is not None:
            score += tilt
        elif slope is not None:
            # Exact up to 2^24 tokens. A tile's conversion costs as many instructions as subtracting a converted row
            # from a converted column, and is faster (4096 tokens, D=128: 508 TFLOPS, not 462).
            if APART:
                distance = (at.row + at.shift).to(kl.float32) - at.key.to(kl.float32)
            else:
                distance = (at.row + at.shift - at.key).to(kl.float32)
            score -= slope * (distance if self.CAUSAL else kl.abs(distance))
        if self.MOD is not None:
            inside = at.inside(self.args, masks)
            score = _changed(score, inside, self.args, self.MOD)
        return score

    @kiln.jit
    def bent(self, product, scale, slope, at):
        """The result of `of`, and its derivative by the score (None: 1)."""
        bend = None
        if self.softcap is None:
            score = product * scale
        else:
            part = 1.0 - 2.0 * falling(product * self.steepness(scale))
            score = self.softcap * part
            bend = 1.0 - part * part
        score = self._replace(MOD=None).added(score, slope, at, True, None, True)
        if self.MOD is not None:
            inside = at.inside(self.args)
            score, more = with_derivative(_changed, score, inside, self.args, self.MOD)
            bend = more if bend is None else bend * more
        return score, bend


@builtin
def _as_scores(value: Any, score: Any, function: Any) -> Any:
    """A function's result as a tile of scores: numbers, rows and columns are broadcast."""
    known, mod = values.unwrap(value), values.unwrap(function)
    fits = isinstance(known, (bool, int, float))
    if isinstance(value, values.tensor) and not value.type.scalar.is_ptr():
        sides = tuple(value.shape)
        fits = sides == () or (
            len(sides) == len(score.shape)
            and all(side in (1, whole) for side, whole in zip(sides, score.shape, strict=True))
        )
    if not fits:
        name = mod.fn.__name__
        error = CompilationError(
            f"expected {name}, as score_mod, to return a number for each score, got {scope.describe(value)}",
            hint=f"return the new score from {name}; a number, a column (like q) and a row (like kv) stretch",
        )
        raise error.note(f"{name} is defined here", Visitor(current(), mod, {}).range(mod.tree))
    return kl.broadcast_to(kl.to_tensor(value).to(score.dtype), score.shape)


@kiln.jit
def _changed(score, at, args, MOD: kl.constexpr):
    return _as_scores(MOD(score, at.batch, at.head, at.row, at.key, *args), score, MOD)


# ---- the blocks of keys that a block of queries walks ----------------------------------------------------------------
@kiln.struct
class Span:
    """Positions from ``begin`` to ``end``, of which those beyond ``common`` need a mask. Positions from ``turn`` on
    stand for the first keys, ``length`` before: masked ones come last, so that one loop has all steps. Where only the
    last block, at ``last``, may need a mask, it comes first instead, and the others follow in order."""

    begin: Any
    end: Any
    common: Any
    turn: Any
    length: Any
    STEP: kl.constexpr
    last: Any = None

    @kiln.jit
    def key(self, at):
        """The first key of a step."""
        if self.last is not None:
            return at + kl.where(at == 0, self.last, -self.STEP)
        return at if self.turn is None else kl.where(at < self.turn, at, at - self.length)

    @kiln.jit
    def masks(self, at):
        """Whether a step may need a mask."""
        return at + self.STEP > self.common if self.last is None else at == self.begin

    @kiln.jit
    def cuts(self, start):
        """Whether such a step, with keys from ``start`` on, needs it: the last block is often whole."""
        return True if self.last is None else start + self.STEP > self.common


@kiln.struct
class Chosen:
    """The blocks of a list, SIDE keys each, in steps of N: those up to ``common`` are seen wholly. LAST_FIRST: of these
    the last come first."""

    begin: Any
    end: Any
    common: Any
    list: Any
    columns: Any
    SIDE: kl.constexpr
    N: kl.constexpr
    LAST_FIRST: kl.constexpr = False
    STEP: kl.constexpr = 1

    @kiln.jit
    def key(self, at):
        steps: kl.constexpr = self.SIDE // self.N
        # Fetching ahead asks for one more block than exists, even if there are none: places after the last hold 0.
        at = kl.maximum(kl.minimum(at, self.end - 1), 0)
        if self.LAST_FIRST:
            at = kl.where(at < self.common, self.common - 1 - at, at)
        number, whole = at // steps, self.common // steps
        place = kl.where(number < whole, number, self.columns + number - whole)
        return kl.load(self.list + place) * self.SIDE + at % steps * self.N

    @kiln.jit
    def masks(self, at):
        return at + self.STEP > self.common

    @kiln.jit
    def cuts(self, start):
        return True


@kiln.struct
class BlockLists:
    """For each head's blocks of queries (ROWS by SIDE): how many blocks of keys are seen wholly and in part, and which:
    ``columns`` places for the former, as many for the latter. A stride of 0 means all batches or heads are alike. Or
    for blocks of keys, the blocks of queries that see them."""

    whole: Any
    partial: Any
    lists: Any
    batch_stride: Any
    head_stride: Any
    columns: Any
    ROWS: kl.constexpr
    SIDE: kl.constexpr

    @kiln.jit
    def walk(self, batch, head, first, N: kl.constexpr, LAST_FIRST: kl.constexpr = False):
        row = batch * self.batch_stride + head * self.head_stride + first // self.ROWS
        steps: kl.constexpr = self.SIDE // N
        whole = kl.load(self.whole + row) * steps
        end = whole + kl.load(self.partial + row) * steps
        places = self.lists + row.to(kl.int64) * (2 * self.columns)
        return Chosen(0, end, whole, places, self.columns, self.SIDE, N, LAST_FIRST)


@kiln.struct
class Visible:
    """Which keys a query sees: from ``left`` before its own to ``right`` after it (None: all; CAUSAL: none after),
    restricted to those that MOD shows, in the blocks of ``blocks``."""

    left: Any = None
    right: Any = None
    args: Any = ()
    blocks: Any = None
    CAUSAL: kl.constexpr = False
    MOD: kl.constexpr = None

    @kiln.jit
    def walk(self, batch, head, first, queries, keys, M: kl.constexpr, N: kl.constexpr, LAST_FIRST: kl.constexpr):
        """The blocks of N keys that queries from ``first`` on see; LAST_FIRST: of listed ones the last come first."""
        if self.blocks is not None:
            return self.blocks.walk(batch, head, first, N, LAST_FIRST)
        shift = keys - queries
        # Keys that some query of the block sees, and keys that all of them see.
        end = keys
        common = keys
        if self.CAUSAL:
            end = kl.maximum(kl.minimum(keys, first + M + shift), 0)
            common = kl.minimum(keys, first + shift + 1)
        elif self.right is not None:
            end = kl.maximum(kl.minimum(keys, first + M + shift + self.right), 0)
            common = kl.minimum(keys, first + shift + self.right + 1)
        if self.MOD is not None:
            common = 0
        if self.left is None:
            if self.CAUSAL or self.right is not None or self.MOD is not None:
                return Span(0, end, common, None, None, N)
            return Span(0, end, common, None, None, N, kl.maximum(kl.cdiv(keys, N) - 1, 0) * N)
        begin = kl.maximum(first + shift - self.left, 0)
        length = kl.maximum(kl.cdiv(end - begin, N), 0) * N
        begun = kl.cdiv(kl.maximum(first + M - 1 + shift - self.left, 0) - begin, N) * N
        rest = begin + kl.minimum(begun, length)
        return Span(rest, rest + length, common, begin + length, length, N)

    @kiln.jit
    def of(self, score, at, cut):
        """A tile's scores, -inf where they do not count, if ``cut`` says that there are such."""
        if cut:
            score = kl.where(self.mask(at), score, -float("inf"))
        return score

    @kiln.jit
    def mask(self, at):
        """The mask of a tile's scores that count, for queries that exist."""
        if self.CAUSAL and self.left is None and self.MOD is None and self.blocks is None:
            # The last query sees the last key, so no query sees a key that does not exist.
            return at.key <= at.row + at.shift
        seen = at.key <= at.keys - 1
        if self.CAUSAL and self.left is not None:
            # Both ends in one comparison: as unsigned numbers, keys before the window are farther away than any.
            seen = (at.key - (at.row + at.shift - self.left)).to(kl.uint32) <= self.left.to(kl.uint32)
        elif self.CAUSAL:
            seen = at.key <= at.row + at.shift
        elif self.right is not None:
            seen = at.key <= kl.minimum(at.row + at.shift + self.right, at.keys - 1)
        if self.left is not None and not self.CAUSAL:
            seen = seen & (at.key >= at.row + at.shift - self.left)
        if self.MOD is not None:
            seen = seen & at.apply(self.MOD, self.args)
        return seen
