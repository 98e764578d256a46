"""Linear layers of known models, for `kiln tune gemm --shapes MODEL`: columns and K of each product that a token's row
goes through. Projections that are computed in one product (q, k and v; gate and up) are one layer here."""

from __future__ import annotations

from typing import NamedTuple

from kiln import errors


class Layer(NamedTuple):
    """Weights of `n` rows of `k`."""

    name: str
    n: int
    k: int


def _transformer(hidden: int, heads: int, kv_heads: int, head: int, inner: int, vocabulary: int) -> tuple[Layer, ...]:
    return (
        Layer("qkv", (heads + 2 * kv_heads) * head, hidden),
        Layer("o", hidden, heads * head),
        Layer("gate_up", 2 * inner, hidden),
        Layer("down", hidden, inner),
        Layer("lm_head", vocabulary, hidden),
    )


MODELS: dict[str, tuple[Layer, ...]] = {
    "llama-3-8b": _transformer(4096, 32, 8, 128, 14336, 128256),
    "granite-8b": _transformer(4096, 32, 8, 128, 12800, 49155),
    "qwen2.5-7b": _transformer(3584, 28, 4, 128, 18944, 152064),
}

# Numbers of rows in decoding, batched decoding and prompts.
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def shapes(text: str, rows: tuple[int, ...] = ROWS) -> list[tuple[int, int, int]]:
    """(m, n, k) of each product that `text` names: models (`llama-3-8b`), one of a model's layers (`llama-3-8b:down`),
    weights (`4096x14336`) or whole products (`16x4096x14336`), parted by commas; the first three for each of `rows`."""
    found: list[tuple[int, int, int]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        model, _, layer = part.lower().partition(":")
        if model in MODELS:
            layers = [one for one in MODELS[model] if layer in ("", one.name)]
            if not layers:
                near = errors.near_match(layer, [one.name for one in MODELS[model]])
                known = ", ".join(one.name for one in MODELS[model])
                raise errors.UserError(
                    f"--shapes: {model} has no layer {layer!r}"
                    + (f"; did you mean {near!r}?" if near else f"; it has {known}")
                )
            found += [(m, one.n, one.k) for one in layers for m in rows]
            continue
        sides = part.lower().replace("×", "x").split("x")
        if not all(side.isdigit() and int(side) > 0 for side in sides) or len(sides) not in (2, 3):
            near = errors.near_match(model, MODELS)
            raise errors.UserError(
                f"--shapes: expected a model ({', '.join(MODELS)}), NxK or MxNxK, got {part!r}"
                + (f"; did you mean {near!r}?" if near else "")
            )
        *m, n, k = (int(side) for side in sides)
        found += [(each, n, k) for each in m or rows]
    return list(dict.fromkeys(found))
