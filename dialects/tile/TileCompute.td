// Ops that compute across elements: dot, reductions, scans, gather, histogram, sorting.
#ifndef KILN_TILE_COMPUTE_TD
#define KILN_TILE_COMPUTE_TD

include "TileEnums.td"

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "matrix product added to an accumulator";
  let description = [{
    `result[m, n] = acc[m, n] + sum over k of lhs[m, k] * rhs[k, n]`, for each index of the leading batch dimension if
    there is one. Inputs are widened to the accumulator's type; the order of summation is the target's, the same in
    every run. Integers are signed and wrap. With an f16 accumulator the products of one dot are summed in f32 and the
    sum is rounded to f16 at its end; only a tensor core may round more often, once for each instruction along K.

    `precision` concerns f32 inputs only and says what may replace a product of two of them. A target may always be
    more precise: the CPU multiplies in f32 whatever is asked, as do GPUs without an instruction for the precision.

    | precision | each input is replaced by | products of the parts |
    |---|---|---|
    | ieee | itself | 1 |
    | tf32 | one tf32 (11 significant bits) | 1 |
    | tf32x3 | the sum of 2 tf32 | 3, all but low times low |
    | bf16x3 | the sum of 2 bf16 (8 significant bits) | 3, all but low times low |
    | bf16x6 | the sum of 3 bf16 | 6, all that count as much as high times lowest |

    `maxImpreciseAcc` is the number of products of f8 inputs that may be summed in less than the accumulator's precision
    before their sum is added to the accumulator in full precision (0: none). If it exceeds K, the reduced precision may
    extend over successive dots, accumulator included.

    | inputs | accumulator |
    |---|---|
    | i8 | i32 |
    | f8E4M3FN, f8E5M2 (may differ) | f16, f32 |
    | f16 | f16, f32 |
    | bf16 | f32 |
    | f32 | f32 |
    | f64 | f64 |

    - `dot_c1`: all tiles have rank 2, or all have rank 3.
    - `dot_c2`: the last dimension of lhs equals the one before last of rhs (K).
    - `dot_c3`: batch dimensions are equal.
    - `dot_c4`: the accumulator is M by N, with the batch dimension if there is one.
    - `dot_c5`: the inputs have one element type, except that the two f8 types mix.
    - `dot_c6`: the accumulator's element type is one the table allows.
    - `dot_c7`: `maxImpreciseAcc` is at least 0.

    ```mlir
    func.func @dot(%a: tensor<64x32xf16>, %b: tensor<32x128xf16>, %c: tensor<64x128xf32>) -> tensor<64x128xf32> {
      %d = tile.dot %a, %b, %c : tensor<64x32xf16>, tensor<32x128xf16> -> tensor<64x128xf32>
      return %d : tensor<64x128xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_NumberTile, "M by K">:$lhs, Arg<Tile_NumberTile, "K by N">:$rhs,
                       Arg<Tile_NumberTile, "M by N">:$acc,
                       Arg<DefaultValuedAttr<Tile_PrecisionAttr, "Precision::IEEE">, "products of f32">:$precision,
                       Arg<DefaultValuedAttr<I32Attr, "0">, "imprecise sums of f8 products">:$maxImpreciseAcc);
  let results = (outs Res<Tile_NumberTile, "M by N">:$result);
  let assemblyFormat = "$lhs `,` $rhs `,` $acc attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure, SameOperandsShape, SingleBlock]> {
  let summary = "combine the elements along a dimension";
  let description = [{
    Along the axis, the region combines the elements of the n operands (as tuples) in pairs until one tuple is left. The
    region receives tuple a (earlier along the axis) and tuple b, `^bb(a_0, ..., b_0, ...)`, and yields a tuple. It has
    to be associative; the target chooses how elements are paired, in the same way in every run. An axis of size 1 gives
    its elements. The result lacks the axis; reducing the only dimension gives scalars.

    - `reduce_c1`: the axis is one of the dimensions.
    - `reduce_c2`: one result per operand, of its element type and of its shape without the axis.
    - `reduce_c3`: the region takes two scalars per operand: all elements of tuple a, then all of tuple b.
    - `reduce_c4`: the region ends in `tile.yield` of one scalar per operand.
    - `reduce_c5`: nothing in the region touches memory.
    - `reduce_c6`: all operands have the same shape, and there is at least one.

    ```mlir
    func.func @reduce(%x: tensor<64x32xf32>) -> tensor<64xf32> {
      %s = tile.reduce(%x) axis 1 {
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tile.yield %c : f32
      } : (tensor<64x32xf32>) -> tensor<64xf32>
      return %s : tensor<64xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<Tile_NumberTile>, "tiles of one shape">:$operands,
                       Arg<I32Attr, "the dimension that is removed">:$axis);
  let results = (outs Res<Variadic<Tile_NumberLike>, "one per operand">:$results);
  let regions = (region SizedRegion<1>:$combine);
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_ScanOp : Tile_Op<"scan", [Pure, SameOperandsShape, SingleBlock]> {
  let summary = "running combination along a dimension";
  let description = [{
    Element i along the axis becomes the combination of elements 0 to i (of i to the last, with `reverse`). The region
    is as in `tile.reduce`; a is the combination so far, which with `reverse` is that of the later elements.

    - `scan_c1`: the axis is one of the dimensions.
    - `scan_c2`: one result per operand, of its type.
    - `scan_c3`: the region takes two scalars per operand: all elements of tuple a, then all of tuple b.
    - `scan_c4`: the region ends in `tile.yield` of one scalar per operand.
    - `scan_c5`: nothing in the region touches memory.
    - `scan_c6`: all operands have the same shape, and there is at least one.

    ```mlir
    func.func @scan(%x: tensor<64xf32>) -> tensor<64xf32> {
      %s = tile.scan(%x) axis 0 {
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tile.yield %c : f32
      } : (tensor<64xf32>) -> tensor<64xf32>
      return %s : tensor<64xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<Tile_NumberTile>, "tiles of one shape">:$operands,
                       Arg<I32Attr, "the dimension that is scanned">:$axis,
                       Arg<UnitAttr, "run from the last element to the first">:$reverse);
  let results = (outs Res<Variadic<Tile_NumberTile>, "one per operand">:$results);
  let regions = (region SizedRegion<1>:$combine);
  let hasCustomAssemblyFormat = 1;
  let hasFolder = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_MapOp : Tile_EffectOp<"map", [SingleBlock]> {
  let summary = "a function of scalars, applied to each element";
  let description = [{
    Element i of each result is what the region yields for element i of the operands. The region may branch and loop
    (`scf`), load, store, combine atomically and assert. Each element takes its own path: what is in a branch happens
    for the elements that take it. The target chooses the order of the elements.

    `kiln-expand-maps` replaces it by ops on tiles: no later pass sees it.

    - `map_c1`: all operands and results have the same shape, and there is at least one operand.
    - `map_c2`: the region takes one scalar per operand.
    - `map_c3`: the region ends in `tile.yield` of one scalar per result.
    - `map_c4`: every value in the region is a number or a pointer.
    - `map_c5`: of the ops that access memory or report to the host, the region holds only loads, stores,
      `tile.atomic_rmw` and `tile.assert`.

    ```mlir
    func.func @map(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
      %y = tile.map(%x) {
      ^bb0(%a: f32):
        %zero = arith.constant 0.0 : f32
        %above = arith.cmpf ogt, %a, %zero : f32
        %c = scf.if %above -> f32 {
          scf.yield %a : f32
        } else {
          %e = math.exp %a : f32
          scf.yield %e : f32
        }
        tile.yield %c : f32
      } : (tensor<64x32xf32>) -> tensor<64x32xf32>
      return %y : tensor<64x32xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<Tile_Tile>, "tiles of one shape">:$operands);
  let results = (outs Res<Variadic<Tile_Tile>, "what the region yields">:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $operands `)` $body attr-dict `:` functional-type($operands, $results)";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike,
                                     ParentOneOf<["ReduceOp", "ScanOp", "MapOp", "InlineAsmOp"]>]> {
  let summary = "results of a combine, map or portable region";
  let description = [{
    Ends the region of `tile.reduce`, `tile.scan`, `tile.map` or `tile.inline_asm`; those state what it has to yield.

    - `yield_c1`: the parent is one of those ops.

    ```mlir
    func.func @yield(%x: tensor<64xi32>) -> i32 {
      %s = tile.reduce(%x) axis 0 {
      ^bb0(%a: i32, %b: i32):
        %c = arith.maxsi %a, %b : i32
        tile.yield %c : i32
      } : (tensor<64xi32>) -> i32
      return %s : i32
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<AnyType>, "the results">:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{}]>];
}

def Tile_GatherOp : Tile_Op<"gather", [Pure]> {
  let summary = "pick elements along a dimension by index";
  let description = [{
    `result[..., i, ...] = source[..., indices[..., i, ...], ...]`, with the index in dimension `axis`. An index outside
    the axis gives an unspecified element, never a fault.

    - `gather_c1`: the axis is one of the source's dimensions.
    - `gather_c2`: the indices have the source's rank and, except along the axis, its sizes.
    - `gather_c3`: the result has the shape of the indices and the source's element type.
    - `gather_c4`: indices are not i1.

    ```mlir
    func.func @gather(%x: tensor<64x32xf32>, %i: tensor<64x8xi32>) -> tensor<64x8xf32> {
      %y = tile.gather %x[%i] 1 : tensor<64x32xf32>, tensor<64x8xi32> -> tensor<64x8xf32>
      return %y : tensor<64x8xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_NumberTile, "where elements come from">:$source,
                       Arg<Tile_IntTile, "which element along the axis">:$indices,
                       Arg<I32Attr, "the dimension that is indexed">:$axis);
  let results = (outs Res<Tile_NumberTile, "the picked elements">:$result);
  let assemblyFormat = "$source `[` $indices `]` $axis attr-dict `:` type($source) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_HistogramOp : Tile_Op<"histogram", [Pure]> {
  let summary = "how often each of 0..n-1 occurs";
  let description = [{
    Element b of the result is the number of elements equal to b whose mask is true (of all, without a mask). Values
    outside 0..n-1 are not counted.

    - `histogram_c1`: value and result have one dimension.
    - `histogram_c2`: the mask has the shape of the value.
    - `histogram_c3`: the value is not i1.

    ```mlir
    func.func @histogram(%x: tensor<1024xi32>) -> tensor<64xi32> {
      %h = tile.histogram %x : tensor<1024xi32> -> tensor<64xi32>
      return %h : tensor<64xi32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_IntTile, "the values to count">:$value,
                       Arg<Optional<Tile_I1Tile>, "which values count">:$mask);
  let results = (outs Res<Tile_I32Tile, "one count per bin">:$result);
  let assemblyFormat = "$value (`mask` $mask^)? attr-dict `:` type($value) (`mask` type($mask)^)? `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SortOp : Tile_Op<"sort", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "sort along the last dimension";
  let description = [{
    Ascending, or descending with `descending`. Integers are signed unless `isUnsigned`. It is not specified where NaNs
    are placed, nor which of -0.0 and 0.0 comes first.

    - `sort_c1`: `isUnsigned` only with an integer element type.

    ```mlir
    func.func @sort(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
      %y = tile.sort %x {descending} : tensor<64x32xf32>
      return %y : tensor<64x32xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_NumberTile, "the tile">:$value, Arg<UnitAttr, "largest first">:$descending,
                       Arg<UnitAttr, "compare integers as unsigned">:$isUnsigned);
  let results = (outs Res<Tile_NumberTile, "the sorted rows">:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_TopkOp : Tile_Op<"topk", [Pure]> {
  let summary = "the k first elements of the sorted last dimension";
  let description = [{
    The k largest elements of each row, largest first; the k smallest, smallest first, if `ascending`. Comparison is as
    in `tile.sort`.

    - `topk_c1`: the result has the value's element type and leading dimensions.
    - `topk_c2`: the result's last dimension, k, is at most the value's.
    - `topk_c3`: `isUnsigned` only with an integer element type.

    ```mlir
    func.func @topk(%x: tensor<64x32xf32>) -> tensor<64x4xf32> {
      %y = tile.topk %x : tensor<64x32xf32> -> tensor<64x4xf32>
      return %y : tensor<64x4xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_NumberTile, "the tile">:$value, Arg<UnitAttr, "smallest first">:$ascending,
                       Arg<UnitAttr, "compare integers as unsigned">:$isUnsigned);
  let results = (outs Res<Tile_NumberTile, "the first k of each row">:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KILN_TILE_COMPUTE_TD
