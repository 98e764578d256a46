"""Python's operators as a base class: each calls `_operate` or `_unary`."""

from __future__ import annotations

from typing import Any


class Operators:
    """Operators of a class that implements `_operate(op, left, right)` and `_unary(op)`."""

    __slots__ = ()

    def _operate(self, op: str, left: Any, right: Any) -> Any:
        raise NotImplementedError

    def _unary(self, op: str) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._operate("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._operate("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._operate("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._operate("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._operate("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._operate("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._operate("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._operate("/", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._operate("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._operate("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._operate("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._operate("%", other, self)

    def __pow__(self, other: Any) -> Any:
        return self._operate("**", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._operate("**", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._operate("<<", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._operate("<<", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._operate(">>", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._operate(">>", other, self)

    def __and__(self, other: Any) -> Any:
        return self._operate("&", self, other)

    def __rand__(self, other: Any) -> Any:
        return self._operate("&", other, self)

    def __or__(self, other: Any) -> Any:
        return self._operate("|", self, other)

    def __ror__(self, other: Any) -> Any:
        return self._operate("|", other, self)

    def __xor__(self, other: Any) -> Any:
        return self._operate("^", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._operate("^", other, self)

    def __lt__(self, other: Any) -> Any:
        return self._operate("<", self, other)

    def __le__(self, other: Any) -> Any:
        return self._operate("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._operate(">", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._operate(">=", self, other)

    def __eq__(self, other: Any) -> Any:
        return self._operate("==", self, other)

    def __ne__(self, other: Any) -> Any:
        return self._operate("!=", self, other)

    def __hash__(self) -> int:
        return id(self)

    def __neg__(self) -> Any:
        return self._unary("-")

    def __pos__(self) -> Any:
        return self._unary("+")

    def __invert__(self) -> Any:
        return self._unary("~")
