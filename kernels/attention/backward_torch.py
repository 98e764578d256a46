"""Attention as torch differentiates it. Imported where a tensor requires a gradient, so only beside torch."""

from __future__ import annotations

from typing import Any

import torch
from kiln.kernels.attention.backward import attention_backward
from kiln.kernels.attention.kernel import attention as forward
from kiln.kernels.operator import refuse_gradient
from torch.autograd.function import once_differentiable

# What of attention's options the backward pass takes, and what its log-sum-exp holds already; with any other one,
# gradients are refused.
SHARED = ("causal", "softmax_scale", "window", "softcap", "alibi_slopes", "bias")
HELD = ("sinks",)


class Attention(torch.autograd.Function):
    """Log-sum-exp, the second result, has no gradient."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, options: dict[str, Any], plan: Any) -> tuple[Any, Any]:
        out, lse = forward(q, k, v, return_lse=True, plan=plan, **options)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = options
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout: Any, _: Any) -> tuple[Any, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        options = {name: value for name, value in ctx.options.items() if name in SHARED}
        found = attention_backward(q, k, v, out, lse, dout, **options)
        return (*(x if needed else None for x, needed in zip(found, wanted, strict=True)), None, None)


def attention(*args: Any, **kwargs: Any) -> Any:
    """`attention` of tensors of which some require a gradient."""
    signature = forward.signature
    bound = signature.bind(*args, **kwargs)
    given = dict(bound.arguments)
    q, k, v = (given.pop(name) for name in ("q", "k", "v"))
    return_lse, plan = given.pop("return_lse", False), given.pop("plan", None)
    for name, value in given.items():
        if _requires(value):
            refuse_gradient(name)
        if name not in SHARED + HELD and value is not signature.parameters[name].default:
            refuse_gradient(next(n for n, x in (("q", q), ("k", k), ("v", v)) if _requires(x)), name)
    options = {name: value for name, value in given.items() if name in SHARED + HELD}
    out, lse = Attention.apply(q, k, v, options, plan)
    return (out, lse) if return_lse else out


def _requires(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", False))
