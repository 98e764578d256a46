"""Libraries' uses of runtime classes: a launcher that caches compiled kernels, and a tuner of their own."""

import inspect

import numpy as np
import triton
import triton.language as tl


class Entry(triton.KernelInterface):
    def __init__(self, fn):
        self.fn = fn
        while not isinstance(fn, triton.runtime.JITFunction):
            fn = fn.fn
        self.constants = [p.num for p in fn.params if p.is_constexpr]
        self.defaults = {p.name: p.default for p in fn.params if p.default is not inspect._empty}
        self.names = list(fn.signature.parameters)
        self.code = {}

    def run(self, *args, **kwargs):
        grid = kwargs["grid"]
        key = tuple(a for i, a in enumerate(args) if i in self.constants) + (kwargs["BLOCK"],)
        if key not in self.code:
            self.code[key] = self.fn.run(*args, **kwargs)
        else:
            given = [*args, *({**self.defaults, **kwargs}[name] for name in self.names[len(args) :])]
            self.code[key][(*grid, 1, 1)[:3]](*given)
        return self.code[key]


class Tuner(triton.runtime.Autotuner):
    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        timings = {c: self._bench(*args, config=c, **kwargs) for c in self.prune_configs(kwargs)}
        self.best_config = min(timings, key=timings.get)
        return self.fn.run(*args, **kwargs, **self.best_config.all_kwargs())


@Entry
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr, BY: tl.constexpr = 3):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * BY, mask=i < n)


x = np.arange(100, dtype=np.float32)
for _ in range(3):
    y = np.zeros_like(x)
    scale[(2,)](x, y, 100, BLOCK=64)
    assert (y == 3 * x).all()
assert len(scale.code) == 1 and scale.constants == [3, 4] and scale.defaults == {"BY": 3}

jit = scale.fn
assert jit.src.startswith("def scale(x, y") and jit.starting_line_number > 1 and len(jit.cache_key) >= 32
assert triton.runtime.jit.get_jit_fn_file_line(scale)[1] == jit.starting_line_number + 2
configs = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})]
tuned = Tuner(jit, jit.arg_names, configs, ["n"], None, None)
y = np.zeros_like(x)
tuned[lambda m: (triton.cdiv(100, m["BLOCK"]),)](x, y, 100)
assert (y == 3 * x).all() and tuned.best_config in tuned.configs and tuned.base_fn.__name__ == "scale"
