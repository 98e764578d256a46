"""Attention as torch differentiates it. Imported only when a tensor requires a gradient, so torch is present."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from kiln.kernels.attention import backward, flex, kernel
from kiln.kernels.operator import is_dispatched, refuse_gradient
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Form:
    """A form of attention and its backward.

    factors   the leading array arguments of both; ``placed``: further positional arguments of both
    beside    those that get a gradient on request: the backward's option has their name, prefixed with "d"
    lost      options of the forward that the backward does not need
    refused   options that have no backward
    """

    forward: Any
    backward: Any
    factors: tuple[str, str, str]
    placed: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    lost: tuple[str, ...] = ("return_lse", "deterministic", "plan")
    refused: tuple[str, ...] = ("out",)

    def differentiate(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for tensors, some of which require a gradient."""
        signature = self.forward.signature
        given = dict(signature.bind(*args, **kwargs).arguments)
        factors = [given.pop(name) for name in self.factors]
        for name in self.refused:
            if given.pop(name, None) is not None:
                needy = next((n for n, x in zip(self.factors, factors, strict=True) if _requires(x)), self.factors[0])
                refuse_gradient(needy, name)
        beside = {name: given.pop(name) for name in self.beside if given.get(name) is not None}
        for name, value in given.items():
            if _requires(value):
                refuse_gradient(name)
        out, lse = Attention.apply(self, given, tuple(beside), *factors, *beside.values())
        return (out, lse) if given.get("return_lse") else out


class Attention(torch.autograd.Function):
    """Log-sum-exp, the second result, has no gradient."""

    @staticmethod
    def forward(ctx: Any, form: Form, given: dict[str, Any], beside: tuple[str, ...], *tensors: Any) -> tuple[Any, Any]:
        named = dict(zip((*form.factors, *beside), tensors, strict=True))
        out, lse = form.forward(**named, **{**given, "return_lse": True})
        ctx.save_for_backward(*tensors, out, lse)
        ctx.form, ctx.given, ctx.beside = form, given, beside
        ctx.mark_non_differentiable(lse)
        mask = given.get("block_mask")
        if mask is not None and not is_dispatched(mask.lists):
            _ = mask.by_keys  # from the current values of the mask's arguments; while tracing they have none
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout: Any, _: Any) -> tuple[Any, ...]:
        form, given = ctx.form, ctx.given
        *tensors, out, lse = ctx.saved_tensors
        wanted = ctx.needs_input_grad[3:]
        placed = [given[name] for name in form.placed]
        options = {name: value for name, value in given.items() if name not in form.lost + form.placed}
        options |= dict(zip(ctx.beside, tensors[3:], strict=True))
        asked = {f"d{name}": True for name, needed in zip(ctx.beside, wanted[3:], strict=True) if needed}
        deterministic = given.get("deterministic", True)
        found = list(
            form.backward(*tensors[:3], out, lse, dout, *placed, **options, **asked, deterministic=deterministic)
        )
        gradients = [found.pop(0) if needed or i < 3 else None for i, needed in enumerate(wanted)]
        return (None, None, None, *(x if needed else None for x, needed in zip(gradients, wanted, strict=True)))


def _requires(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_requires, value))
    return bool(getattr(value, "requires_grad", False))


def _glue(form: Form) -> Callable[..., Any]:
    return lambda *args, **kwargs: form.differentiate(args, kwargs)


attention = _glue(Form(kernel.attention, backward.attention_backward, ("q", "k", "v"), beside=("bias", "sinks")))
attention_varlen = _glue(
    Form(
        kernel.attention_varlen,
        backward.attention_varlen_backward,
        ("q", "k", "v"),
        placed=("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"),
        beside=("sinks",),
    )
)
flex_attention = _glue(Form(flex.flex_attention, flex.flex_attention_backward, ("query", "key", "value")))
