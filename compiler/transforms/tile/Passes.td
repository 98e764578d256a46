// Passes from tile IR to tile IR. Each is idempotent, leaves valid IR and prints the same text every time.
#ifndef KILN_TILE_PASSES_TD
#define KILN_TILE_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandMapsPass : Pass<"kiln-expand-maps", "::mlir::func::FuncOp"> {
  let summary = "turn functions of scalars into ops on tiles";
  let description = [{
    Each op in the region of a `tile.map` becomes the same op on tiles; ops that depend on no element stay scalar. An
    `scf.if` on an element's value becomes both of its branches and a select; a loop that elements leave at different
    times becomes a loop that runs until the last has left. Loads, stores, atomics and assertions are masked to the
    elements that reach them. In the regions of `tile.reduce`, `tile.scan` and `tile.inline_asm`, an `scf.if` likewise
    becomes its branches and selects.

    ```mlir
    %y = tile.map(%x) {
    ^bb0(%a: f32):
      %c = scf.if %above -> f32 { scf.yield %a : f32 } else { ... scf.yield %e : f32 }
      tile.yield %c : f32
    } : (tensor<64xf32>) -> tensor<64xf32>
    ```
    becomes
    ```mlir
    %e = math.exp %x : tensor<64xf32>
    %y = arith.select %above, %x, %e : tensor<64xi1>, tensor<64xf32>
    ```
    Needs: inlined calls. Guarantees: no `tile.map` is left. Exact.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::mlir::ub::UBDialect",
                           "::kiln::tile::TileDialect"];
}

def LowerBlockPointersPass : Pass<"kiln-lower-block-pointers", "::mlir::func::FuncOp"> {
  let summary = "turn block pointers into descriptors and offsets";
  let description = [{
    A block pointer is a descriptor and one i32 offset per dimension. The descriptor of a block pointer never changes
    (`tile.advance` only moves the offsets), so each use is traced to it, and only the parts are carried through
    `scf.for`, `scf.if`, `scf.while` and `arith.select`: the offsets, and base, extents and strides where they are not
    the same values on every path.

    ```mlir
    %b = tile.make_block_ptr %p, shape [%m] strides [%s] offsets [%i] {order = array<i32: 0>} : ...
    %v = tile.block_load %b {boundary = array<i32: 0>} : !tile.block_ptr<tensor<64xf32>> -> tensor<64xf32>
    %c = tile.advance %b[%k] : !tile.block_ptr<tensor<64xf32>>
    ```
    becomes
    ```mlir
    %d = tile.make_desc %p, shape [%m] strides [%s] : !tile.ptr<f32> -> !tile.desc<tensor<64xf32>>
    %v = tile.desc_load %d[%i] {boundary = array<i32: 0>} : !tile.desc<tensor<64xf32>> -> tensor<64xf32>
    %j = arith.addi %i, %k : i32
    ```
    Needs: functions with no block pointers among arguments or results (inlined calls). Guarantees: no value of block
    pointer type is left, and loads keep their boundary and padding. Exact.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def DropMasksPass : Pass<"kiln-drop-masks", "::mlir::func::FuncOp"> {
  let summary = "replace masks that are true for every element";
  let description = [{
    A comparison of tiles becomes true where it holds for all elements: by the ranges of both sides, by a `tile.assume`
    made before it, or because it compares with the end of a loop whose counter and end are multiples of one power of
    two. Accesses then lose their masks, and selects their conditions.

    ```mlir
    %last = arith.subi %n, %c64 : i32
    %whole = arith.cmpi sle, %start, %last : i32
    tile.assume %whole
    %i = arith.addi %starts, %range : tensor<64xi32>    // %start + 0 … 63
    %mask = arith.cmpi slt, %i, %ns : tensor<64xi32>
    %x = tile.load %p mask %mask other %zero
    ```
    becomes
    ```mlir
    %x = tile.load %p
    ```
    after the clean-up that follows. A promise about a sum that may wrap is no promise: `%start + 64 <= %n` needs
    `%start` to be known to be small, or the form above and a promise that `%n` is at least 64.

    Needs: inlined calls. Guarantees: a mask is dropped only where promises that were made before hold. Exact.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def CombineTilesPass : Pass<"kiln-combine-tiles", "::mlir::func::FuncOp"> {
  let summary = "fuse related ops, and compute on small shapes before broadcasting";
  let description = [{
    - `dot(a, b, 0) + c` and `c + dot(a, b, 0)`, the dot used once and in the same block: `dot(a, b, c)`. Numeric effect
      for floats: the sum starts from `c` instead of zero; exact for integers.
    - `select(m, load(p, m), z)` and `select(m, load(p, m, y), z)`, the load used once: `load(p, m, z)`. Exact.
    - `select(a, select(b, x, y), y)` is `select(a & b, x, y)`; `select(a, x, select(b, x, y))` is
      `select(a | b, x, y)`. Exact.
    - An elementwise op all of whose operands are splats, constants or expansions (`tile.broadcast`, `tile.expand_dims`)
      of the same smaller shape is computed on that shape and expanded afterwards. Exact.

    ```mlir
    %t = tile.dot %a, %b, %zero : tensor<64x32xf16>, tensor<32x16xf16> -> tensor<64x16xf32>
    %sum = arith.addf %t, %acc : tensor<64x16xf32>
    %v = tile.load %p mask %m : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> -> tensor<64xf32>
    %w = arith.select %m, %v, %z : tensor<64xi1>, tensor<64xf32>
    %xs = tile.splat %x : f32 -> tensor<64xf32>
    %ys = tile.splat %y : f32 -> tensor<64xf32>
    %q = arith.mulf %xs, %ys : tensor<64xf32>
    ```
    becomes
    ```mlir
    %sum = tile.dot %a, %b, %acc : tensor<64x32xf16>, tensor<32x16xf16> -> tensor<64x16xf32>
    %w = tile.load %p mask %m other %z : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> other tensor<64xf32>
      -> tensor<64xf32>
    %xy = arith.mulf %x, %y : f32
    %q = tile.splat %xy : f32 -> tensor<64xf32>
    ```
    Needs: nothing. Guarantees: no op is computed more often than before.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::kiln::tile::TileDialect"];
}

def TakeUnlikelyPass : Pass<"kiln-take-unlikely", "::mlir::func::FuncOp"> {
  let summary = "take the branches that may be taken at will";
  let description = [{
    Answers each `tile.unlikely` with yes. What only served to ask becomes dead.

    ```mlir
    %any = tile.unlikely %c : tensor<64xi1>
    %y = scf.if %any -> tensor<64xf32> {
      %e = math.exp %x : tensor<64xf32>
      scf.yield %e : tensor<64xf32>
    } else { scf.yield %z : tensor<64xf32> }
    ```
    becomes
    ```mlir
    %e = math.exp %x : tensor<64xf32>
    ```
    Needs: nothing. Guarantees: no `tile.unlikely` is left. Exact, as the op promises.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def UnrollLoopsPass : Pass<"kiln-unroll-loops", "::mlir::func::FuncOp"> {
  let summary = "unroll the loops that ask for it";
  let description = [{
    `scf.for` with `tile.unroll = N : i32`, N > 1: N iterations become one, and a loop over the rest follows unless the
    trip count is known to be a multiple of N. The attribute goes; the other loop hints stay on the unrolled loop.
    Innermost loops first.

    ```mlir
    scf.for %i = %c0 to %c7 step %c1 { use(%i) } {tile.unroll = 3 : i32}
    ```
    becomes
    ```mlir
    scf.for %i = %c0 to %c6 step %c3 { use(%i), use(%i + 1), use(%i + 2) }
    scf.for %i = %c6 to %c7 step %c1 { use(%i) }
    ```

    Needs: nothing. Guarantees: no `tile.unroll` is left; iterations run in the same order on the same values. Exact.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def HoistInvariantsPass : Pass<"kiln-hoist-invariants", "::mlir::func::FuncOp"> {
  let summary = "move loop invariants in front of the loop";
  let description = [{
    Pure ops whose operands come from outside a loop move in front of it, unless the loop has `tile.no_licm`. A load
    moves too if nothing in the loop may write memory (stores, atomics, barriers, calls with effects), it is directly in
    the body of an `scf.for`, it is not volatile, and executing it is harmless because the loop provably runs at least
    once. Divisions by a value not known to be nonzero stay, because a loop that never runs must not fault.

    ```mlir
    scf.for %i = %c0 to %n step %c1 { %w = arith.mulf %a, %b ... use(%i, %w) }
    ```
    becomes
    ```mlir
    %w = arith.mulf %a, %b
    scf.for %i = %c0 to %n step %c1 { ... use(%i, %w) }
    ```

    Needs: nothing. Guarantees: no memory access happens that did not happen before. Exact.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def WidenOffsetsPass : Pass<"kiln-widen-offsets", "::mlir::func::FuncOp"> {
  let summary = "compute addresses in 64 bits where 32 may overflow";
  let description = [{
    An offset of `tile.addptr` that the range analysis cannot prove to stay inside its width is recomputed in i64: the
    sums, products, shifts, selects and shape ops it is made of are cloned on sign-extended leaves, as far up as
    overflow is possible; `scf.for` and `scf.if` carry a second, widened copy. Leaves are loads, arguments, reductions,
    quotients, remainders, bit operations, explicit casts and values carried by `scf.while`. An offset that cannot
    overflow is left alone, and so is every use of the same values that is not an address: there, arithmetic wraps.

    ```mlir
    %o = arith.muli %pid, %stride : i32
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i32
    ```
    becomes
    ```mlir
    %a = arith.extsi %pid : i32 to i64
    %b = arith.extsi %stride : i32 to i64
    %o = arith.muli %a, %b : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64
    ```
    Needs: nothing. Guarantees: where no operation overflows, the same addresses. Where one does, the address that the
    program's formula denotes, instead of one 2^32 elements away.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::kiln::tile::TileDialect"];
}

def PrintAlignmentPass : Pass<"kiln-print-alignment", "::mlir::func::FuncOp"> {
  let summary = "annotate ops with the results of the analyses (for tests)";
  let description = [{
    Sets `kiln.alignment` on every op with integer or pointer results, one string per result: per dimension the size of
    the groups, the step inside them and the divisor of their first element, then the range of all elements. Arguments
    of an op's regions go to `kiln.alignment_args`.
  }];
}

#endif // KILN_TILE_PASSES_TD
