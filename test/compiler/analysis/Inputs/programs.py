"""Random tile programs of integer and pointer ops, loops, branches, hints and assumptions: typed and seeded."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from evaluation import BITS, SHAPES, Env, Region, Silent, Step, Type, binary, bind, compare, legal, unsigned, wrap


class Program:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.name = f"p{seed}"
        self.count = 0
        self.fixed: set[str] = set()  # values that do not depend on arguments
        self.scopes: list[dict[Type, list[str]]] = [{}]
        self.arguments: list[tuple[str, Type, int, int, int]] = []  # name, type, low, high, divisor
        self.steps: list[Any] = []
        self.build()

    # -- names ------------------------------------------------------------------------------------------------------
    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def publish(self, name: str, type_: Type) -> None:
        self.scopes[-1].setdefault(type_, []).append(name)

    def known(self, type_: Type) -> list[str]:
        return [name for scope in self.scopes for name in scope.get(type_, [])]

    def types(self) -> list[Type]:
        return sorted({type_ for scope in self.scopes for type_ in scope}, key=str)

    def pick(self, type_: Type) -> str:
        names = self.known(type_)
        # Recent values are preferred, which makes expressions deeper.
        return names[-1 - min(int(self.random.expovariate(0.4)), len(names) - 1)]

    def step(self, text: str, type_: Type, run: Callable[[Env], np.ndarray], uses: list[str]) -> str:
        name = self.fresh()
        step = Step(f"{name} = {text}", name, type_, run)
        self.current.append(step)
        self.publish(name, type_)
        if all(use in self.fixed for use in uses):
            self.fixed.add(name)
        return name

    # -- ops --------------------------------------------------------------------------------------------------------
    def constant(self, type_: Type, value: int | None = None) -> str:
        if value is None:
            value = self.random.choice(
                [
                    0,
                    1,
                    2,
                    3,
                    4,
                    5,
                    8,
                    12,
                    16,
                    32,
                    64,
                    96,
                    100,
                    128,
                    1024,
                    -1,
                    -2,
                    -16,
                    -32,
                    7,
                    15,
                    31,
                    63,
                    127,
                    255,
                    1 << 20,
                    1 << 31,
                    self.random.getrandbits(31),
                ]
            )
        number = int(wrap(value, type_.bits))
        if type_.shape is None:
            text = ("false", "true")[number & 1] if type_.bits == 1 else f"{number} : {type_}"
        else:
            text = f"dense<{('false', 'true')[number & 1] if type_.bits == 1 else number}> : {type_}"
        shape = type_.shape or ()
        return self.step(f"arith.constant {text}", type_, lambda env: np.full(shape, number, np.int64), [])

    def row(self) -> str:
        side = self.random.choice([8, 16, 12])
        start, step = self.random.randint(-40, 40), self.random.choice([1, 1, 2, 4, -1, 0, 8])
        values = [start + step * i for i in range(side)]
        if self.random.random() < 0.3:
            values[self.random.randrange(side)] += 4
        return self.step(
            f"arith.constant dense<{values}> : tensor<{side}xi32>",
            Type("i32", (side,)),
            lambda env: np.array(values, np.int64),
            [],
        )

    def make_range(self) -> str:
        side = self.random.choice([16, 32, 64, 96, 12, 1])
        start = self.random.choice([0, 0, 0, 16, 5, 32])
        return self.step(
            f"tile.make_range {start} to {start + side} : tensor<{side}xi32>",
            Type("i32", (side,)),
            lambda env: np.arange(start, start + side, dtype=np.int64),
            [],
        )

    def arithmetic(self) -> None:
        types = [t for t in self.types() if not t.element.startswith("p")]
        type_ = self.random.choice(types)
        a = self.pick(type_)
        b = self.constant(type_) if self.random.random() < 0.35 else self.pick(type_)
        op = self.random.choice(
            [
                "addi",
                "addi",
                "addi",
                "subi",
                "muli",
                "muli",
                "divsi",
                "remsi",
                "divui",
                "remui",
                "floordivsi",
                "andi",
                "ori",
                "xori",
                "shli",
                "shrsi",
                "shrui",
                "minsi",
                "maxsi",
                "minui",
                "maxui",
            ]
        )
        if op.startswith("sh") and self.random.random() < 0.9:
            b = self.constant(type_, self.random.randrange(min(type_.bits, 12)))
        if op[:3] in ("div", "rem", "flo", "and") and self.random.random() < 0.6:
            b = self.constant(type_, self.random.choice([2, 4, 8, 16, 32, 48, -8, -16, 7, 15]))
        self.step(f"arith.{op} {a}, {b} : {type_}", type_, lambda env: binary(op, env[a], env[b], type_.bits), [a, b])

    def comparison(self) -> None:
        types = [t for t in self.types() if not t.element.startswith("p") and t.bits > 1]
        type_ = self.random.choice(types)
        a, b = self.pick(type_), self.constant(type_) if self.random.random() < 0.4 else self.pick(type_)
        if self.random.random() < 0.3:
            a, b = b, a
        predicate = self.random.choice(["slt", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge", "eq", "ne"])
        self.step(
            f"arith.cmpi {predicate}, {a}, {b} : {type_}",
            Type("i1", type_.shape),
            lambda env: compare(predicate, env[a], env[b], type_.bits),
            [a, b],
        )

    def selection(self) -> None:
        type_ = self.random.choice(self.types())
        condition = Type("i1", type_.shape)
        if not self.known(condition) or self.random.random() < 0.2:
            condition = Type("i1", None)
        if not self.known(condition):
            return
        c, a, b = self.pick(condition), self.pick(type_), self.pick(type_)
        suffix = f"{condition}, {type_}" if condition.shape or type_.shape else f"{type_}"
        if condition.shape is None and type_.shape is None:
            suffix = f"{type_}"
        self.step(
            f"arith.select {c}, {a}, {b} : {suffix}",
            type_,
            lambda env: np.where(env[c] != 0, env[a], env[b]),
            [c, a, b],
        )

    def conversion(self) -> None:
        types = [t for t in self.types() if not t.element.startswith("p")]
        type_ = self.random.choice(types)
        a = self.pick(type_)
        target = Type(self.random.choice(["i8", "i32", "i64", "i64"]), type_.shape)
        if target.bits == type_.bits:
            return
        op = "trunci" if target.bits < type_.bits else self.random.choice(["extsi", "extui"])
        width = type_.bits
        self.step(
            f"arith.{op} {a} : {type_} to {target}",
            target,
            lambda env: wrap(unsigned(env[a], width).astype(np.int64) if op == "extui" else env[a], target.bits),
            [a],
        )

    def shape_op(self) -> None:
        type_ = self.random.choice(self.types())
        a = self.pick(type_)
        if type_.shape is None:
            shape = self.random.choice(SHAPES)
            self.step(
                f"tile.splat {a} : {type_} -> {Type(type_.element, shape)}",
                Type(type_.element, shape),
                lambda env: np.full(shape, env[a], np.int64),
                [a],
            )
            return
        kind = self.random.choice(["expand", "broadcast", "trans", "reshape", "join", "split", "cat"])
        shape = type_.shape
        if kind == "expand" and len(shape) < 3:
            axis = self.random.randint(0, len(shape))
            to = Type(type_.element, (*shape[:axis], 1, *shape[axis:]))
            self.step(
                f"tile.expand_dims {a} {axis} : {type_} -> {to}", to, lambda env: np.expand_dims(env[a], axis), [a]
            )
        elif kind == "broadcast" and 1 in shape:
            to = Type(type_.element, tuple(self.random.choice([1, 4, 12, 16]) if s == 1 else s for s in shape))
            if to == type_ or np.prod(to.shape) > 4096:
                return
            self.step(f"tile.broadcast {a} : {type_} -> {to}", to, lambda env: np.broadcast_to(env[a], to.shape), [a])
        elif kind == "trans" and len(shape) > 1:
            order = list(range(len(shape)))
            self.random.shuffle(order)
            to = Type(type_.element, tuple(shape[o] for o in order))
            self.step(
                f"tile.trans {a} [{', '.join(map(str, order))}] : {type_} -> {to}",
                to,
                lambda env: np.transpose(env[a], order),
                [a],
            )
        elif kind == "reshape":
            total = int(np.prod(shape))
            options = [(total,)] if total <= 992 else []
            options += [(k, total // k) for k in (2, 4, 8, 16, 3) if total % k == 0]
            options += [(2, k, total // (2 * k)) for k in (2, 4, 3) if total % (2 * k) == 0] + [(1, total)]
            to = Type(type_.element, self.random.choice(options or [shape]))
            if to != type_ and all(legal(side) for side in to.shape):
                self.step(f"tile.reshape {a} : {type_} -> {to}", to, lambda env: env[a].reshape(to.shape), [a])
        elif kind == "join" and len(shape) < 3:
            b, to = self.pick(type_), Type(type_.element, (*shape, 2))
            self.step(
                f"tile.join {a}, {b} : {type_} -> {to}", to, lambda env: np.stack([env[a], env[b]], axis=-1), [a, b]
            )
        elif kind == "split" and len(shape) > 1 and shape[-1] == 2:
            to = Type(type_.element, shape[:-1])
            lhs, rhs = self.fresh(), self.fresh()
            first = Step("", lhs, to, lambda env: env[a][..., 0])
            second = Step("", rhs, to, lambda env: env[a][..., 1])
            self.current.append(
                Region(
                    f"{lhs}, {rhs} = tile.split {a} : {type_} -> {to}",
                    [],
                    "",
                    [first, second],
                    [],
                    lambda region, env: (first.execute(env), second.execute(env))[0],
                )
            )
            self.publish(lhs, to)
            self.publish(rhs, to)
        elif kind == "cat":
            axis, b = self.random.randrange(len(shape)), self.pick(type_)
            to = Type(type_.element, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))
            if all(legal(side) for side in to.shape):
                self.step(
                    f"tile.cat {a}, {b} {axis} : {type_}, {type_} -> {to}",
                    to,
                    lambda env: np.concatenate([env[a], env[b]], axis=axis),
                    [a, b],
                )

    def pointer(self) -> None:
        options = [t for t in self.types() if t.element in ("i8", "i32", "i64")]
        offset_type = self.random.choice(options)
        element = self.random.choice(["p2", "p4"])
        type_ = Type(element, offset_type.shape)
        if not self.known(type_):
            base = self.pick(Type(element, None))
            if type_.shape is not None:
                self.step(
                    f"tile.splat {base} : {Type(element, None)} -> {type_}",
                    type_,
                    lambda env: np.full(type_.shape, env[base], np.int64),
                    [base],
                )
            return
        p, o = self.pick(type_), self.pick(offset_type)
        size = int(element[1])
        self.step(f"tile.addptr {p}, {o} : {type_}, {offset_type}", type_, lambda env: env[p] + env[o] * size, [p, o])

    def hint(self) -> None:
        """A hint that is true, about a value that does not depend on arguments."""
        candidates = [
            (t, n)
            for t in self.types()
            if t.shape is not None and t.element == "i32"
            for n in self.known(t)
            if n in self.fixed
        ]
        if not candidates:
            return
        type_, name = self.random.choice(candidates)
        env: Env = {}
        for step in self.steps if self.current is self.steps else []:
            step.execute(env)
        if name not in env:
            return
        value = env[name]
        contiguity, divisibility = [], []
        for axis, side in enumerate(type_.shape):
            moved = np.moveaxis(value, axis, -1)
            runs = [
                r
                for r in range(1, side + 1)
                if side % r == 0
                and (wrap(np.diff(moved.reshape(*moved.shape[:-1], side // r, r), axis=-1), 32) == 1).all()
            ]
            run = self.random.choice(runs)
            first = np.bitwise_or.reduce(moved[..., ::run].ravel())
            contiguity.append(run)
            divisibility.append(int(min(first & -first if first else 1 << 20, 1 << 20)))
        lists = [("contiguity", contiguity), ("divisibility", divisibility)]
        if self.random.random() < 0.3:
            lists = lists[:1]
        attributes = ", ".join(f"{key} = array<i64: {', '.join(map(str, numbers))}>" for key, numbers in lists)
        self.step(f"tile.hint {name} {{{attributes}}} : {type_}", type_, lambda env: env[name], [name])

    # -- control flow -----------------------------------------------------------------------------------------------
    def carried(self) -> list[tuple[str, Type]]:
        chosen = []
        for _ in range(self.random.randint(1, 3)):
            type_ = self.random.choice(self.types())
            chosen.append((self.pick(type_), type_))
        return chosen

    def body(self, depth: int, arguments: list[Step]) -> list[Any]:
        saved, self.current = self.current, []
        self.scopes.append({})
        for argument in arguments:
            self.publish(argument.name, argument.type)
        self.statements(self.random.randint(2, 6), depth + 1)
        body, self.current = self.current, saved
        return body

    def loop(self, depth: int) -> None:
        carried = self.carried()
        span, by = self.random.randint(0, 40), self.random.choice([1, 4, 8, 16])
        i32 = Type("i32", None)
        lower = self.constant(i32, self.random.choice([0, 0, 16, -8])) if self.random.random() < 0.7 else self.pick(i32)
        width = self.constant(i32, span)
        upper = self.step(
            f"arith.addi {lower}, {width} : i32",
            i32,
            lambda env: binary("addi", env[lower], env[width], 32),
            [lower, width],
        )
        step = self.constant(i32, by)
        iv = Step("", self.fresh(), i32, lambda env: env["!"])
        arguments = [Step("", self.fresh(), t, lambda env: env["!"]) for _, t in carried]
        results = [Step("", self.fresh(), t, lambda env: env["!"]) for _, t in carried]
        body = self.body(depth, [iv, *arguments])
        yields = [self.pick(t) for _, t in carried]
        self.scopes.pop()
        names, types = ", ".join(r.name for r in results), ", ".join(str(t) for _, t in carried)
        inits = ", ".join(f"{a.name} = {n}" for a, (n, _) in zip(arguments, carried, strict=False))
        head = f"{names} = scf.for {iv.name} = {lower} to {upper} step {step} iter_args({inits}) -> ({types}) : i32 {{"

        def run(region: Region, env: Env) -> None:
            values = [env.get(n) for n, _ in carried]
            if lower not in env or upper not in env:
                values = [None] * len(values)
            else:
                for i in range(int(env[lower]), int(env[upper]), by):
                    bind([iv, *arguments], [np.array(i, np.int64), *values], env)
                    for inner in body:
                        inner.execute(env)
                    values = [env.get(n) for n in yields]
            bind(results, values, env)

        self.current.append(
            Region(head, [(body, f"scf.yield {', '.join(yields)} : {types}")], "", results, [iv, *arguments], run)
        )
        for result in results:
            self.publish(result.name, result.type)

    def branch(self, depth: int) -> None:
        conditions = self.known(Type("i1", None))
        if not conditions:
            return
        condition, carried = self.random.choice(conditions), self.carried()
        types = ", ".join(str(t) for _, t in carried)
        results = [Step("", self.fresh(), t, lambda env: env["!"]) for _, t in carried]
        bodies, yields = [], []
        for _ in range(2):
            body = self.body(depth, [])
            names = [self.pick(t) for _, t in carried]
            self.scopes.pop()
            bodies.append((body, f"scf.yield {', '.join(names)} : {types}"))
            yields.append(names)

        def run(region: Region, env: Env) -> None:
            if condition not in env:
                return bind(results, [None] * len(results), env)
            side = 0 if int(env[condition]) else 1
            for inner in bodies[side][0]:
                inner.execute(env)
            bind(results, [env.get(n) for n in yields[side]], env)

        self.current.append(
            Region(
                f"{', '.join(r.name for r in results)} = scf.if {condition} -> ({types}) {{",
                bodies,
                "",
                results,
                [],
                run,
            )
        )
        for result in results:
            self.publish(result.name, result.type)

    def while_loop(self, depth: int) -> None:
        """At most five iterations: a counter decides; the carried values pass through both regions."""
        i32 = Type("i32", None)
        carried = [(self.constant(i32, 0), i32), *self.carried()]
        limit, one = self.constant(i32, self.random.randint(0, 5)), self.constant(i32, 1)
        before = [Step("", self.fresh(), t, lambda env: env["!"]) for _, t in carried]
        after = [Step("", self.fresh(), t, lambda env: env["!"]) for _, t in carried]
        results = [Step("", self.fresh(), t, lambda env: env["!"]) for _, t in carried]
        types = ", ".join(str(t) for _, t in carried)

        first = self.body(depth, before)
        more = self.fresh()
        first.append(
            Step(
                f"{more} = arith.cmpi slt, {before[0].name}, {limit} : i32",
                more,
                Type("i1", None),
                lambda env: compare("slt", env[before[0].name], env[limit], 32),
            )
        )
        passed = [before[0].name] + [self.pick(t) for _, t in carried[1:]]
        self.scopes.pop()
        second = self.body(depth, after)
        following = self.fresh()
        second.append(
            Step(
                f"{following} = arith.addi {after[0].name}, {one} : i32",
                following,
                i32,
                lambda env: env[after[0].name] + 1,
            )
        )
        yields = [following] + [self.pick(t) for _, t in carried[1:]]
        self.scopes.pop()
        inits = ", ".join(f"{a.name} = {n}" for a, (n, _) in zip(before, carried, strict=False))
        head = f"{', '.join(r.name for r in results)} = scf.while ({inits}) : ({types}) -> ({types}) {{"

        def run(region: Region, env: Env) -> None:
            values = [env.get(n) for n, _ in carried]
            while True:
                bind(before, values, env)
                for inner in first:
                    inner.execute(env)
                values = [env.get(n) for n in passed]
                if not int(env[more]):
                    break
                bind(after, values, env)
                for inner in second:
                    inner.execute(env)
                values = [env.get(n) for n in yields]
            bind(results, values, env)

        arguments = ", ".join(f"{a.name}: {a.type}" for a in after)
        self.current.append(
            Region(
                head,
                [
                    (first, f"scf.condition({more}) {', '.join(passed)} : {types}"),
                    (second, f"scf.yield {', '.join(yields)} : {types}"),
                ],
                f"|^bb0({arguments}):",
                results,
                before + after,
                run,
            )
        )
        for result in results:
            self.publish(result.name, result.type)

    # -- whole programs ---------------------------------------------------------------------------------------------
    def statements(self, count: int, depth: int) -> None:
        plain = (
            [self.arithmetic] * 6
            + [self.comparison] * 2
            + [self.selection, self.conversion, self.pointer, self.pointer, self.hint]
            + [self.shape_op] * 3
        )
        for _ in range(count):
            if depth < 2 and self.random.random() < 0.12:
                self.random.choice([self.loop, self.loop, self.branch, self.while_loop])(depth)
            else:
                self.random.choice(plain)()

    def build(self) -> None:
        self.current = self.steps
        for element, count in (("i32", 3), ("i64", 1), ("p4", 1), ("p2", 1)):
            for _ in range(count):
                bits = min(BITS[element], 48)
                divisor = self.random.choice([1, 1, 4, 16, 48])
                low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
                if element[0] == "p":
                    low, divisor = 0, self.random.choice([4, 16])
                elif self.random.random() < 0.5:
                    low = self.random.choice([0, 1, -100])
                    high = self.random.choice([high, 1000, 70000])
                name, type_ = self.fresh(), Type(element, None)
                self.arguments.append((name, type_, low, high, divisor))
                self.publish(name, type_)
        self.promises()
        pid = self.step("tile.program_id x : i32", Type("i32", None), lambda env: env["pid"], ["pid"])
        self.make_range()
        side = 32
        block = self.constant(Type("i32", None), side)
        start = self.step(
            f"arith.muli {pid}, {block} : i32",
            Type("i32", None),
            lambda env: binary("muli", env[pid], env[block], 32),
            [pid, block],
        )
        wide = self.step(
            f"tile.splat {start} : i32 -> tensor<{side}xi32>",
            Type("i32", (side,)),
            lambda env: np.full((side,), env[start], np.int64),
            [start],
        )
        lanes = self.step(
            f"tile.make_range 0 to {side} : tensor<{side}xi32>",
            Type("i32", (side,)),
            lambda env: np.arange(side, dtype=np.int64),
            [],
        )
        self.step(
            f"arith.addi {wide}, {lanes} : tensor<{side}xi32>",
            Type("i32", (side,)),
            lambda env: binary("addi", env[wide], env[lanes], 32),
            [wide, lanes],
        )
        half = self.constant(Type("i32", (side,)), side // 2)
        self.step(
            f"arith.subi {lanes}, {half} : tensor<{side}xi32>",
            Type("i32", (side,)),
            lambda env: binary("subi", env[lanes], env[half], 32),
            [lanes, half],
        )
        self.row()
        self.statements(self.random.randint(10, 40), 0)

    def promises(self) -> None:
        """tile.assume ops for conditions that the arguments satisfy."""
        for name, type_, low, high, divisor in self.arguments:
            if type_.element[0] == "p":
                continue
            facts = [("sge", low), ("sle", high)]
            for predicate, value in facts:
                limit = self.constant(type_, value)
                swapped = self.random.random() < 0.5
                a, b = (limit, name) if swapped else (name, limit)
                word = {"sge": "sle", "sle": "sge"}[predicate] if swapped else predicate
                held = self.step(
                    f"arith.cmpi {word}, {a}, {b} : {type_}",
                    Type("i1", None),
                    lambda env, w=word, x=a, y=b, t=type_: compare(w, env[x], env[y], t.bits),
                    [a, b],
                )
                self.current.append(Silent(f"tile.assume {held}"))
            if divisor > 1 and self.random.random() < 0.5:
                by, zero = self.constant(type_, divisor), self.constant(type_, 0)
                rest = self.step(
                    f"arith.remsi {name}, {by} : {type_}",
                    type_,
                    lambda env, x=name, y=by, t=type_: binary("remsi", env[x], env[y], t.bits),
                    [name],
                )
                held = self.step(
                    f"arith.cmpi eq, {rest}, {zero} : {type_}",
                    Type("i1", None),
                    lambda env, x=rest, y=zero, t=type_: compare("eq", env[x], env[y], t.bits),
                    [name],
                )
                self.current.append(Silent(f"tile.assume {held}"))

    def text(self) -> str:
        arguments = ", ".join(
            f"{name}: {type_} {{tile.divisibility = {divisor} : i64}}" for name, type_, _, _, divisor in self.arguments
        )
        lines = [line for step in self.steps for line in step.lines()]
        return f"func.func @{self.name}({arguments}) {{\n  " + "\n  ".join(lines) + "\n  return\n}\n"

    def environments(self, count: int) -> list[Env]:
        result = []
        for number in range(count):
            env: Env = {"pid": np.array(self.random.choice([0, 1, 7, 2**31 - 2, 2**26 - 1, 67108863]), np.int64)}
            for name, _, low, high, divisor in self.arguments:
                value = {0: low, 1: high}.get(number, self.random.randint(low, high))
                if number > 3:
                    value = self.random.randint(max(low, -300), min(high, 3000))
                value -= value % divisor
                env[name] = np.array(value if value >= low else value + divisor, np.int64)
            result.append(env)
        return result
