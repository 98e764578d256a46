// Matrix products on tensor cores.
#ifndef KILN_KGPU_PRODUCTS_TD
#define KILN_KGPU_PRODUCTS_TD

include "KgpuBase.td"

def Kgpu_Factor : AnyTypeOf<[Kgpu_MemType, Tile_NumberTile], "a tile in shared memory or in registers">;

def Kgpu_WarpgroupMmaOp : Kgpu_EarlyOp<"warpgroup_mma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "matrix product by groups of four warps, begun but not waited for";
  let description = [{
    `result = acc + lhs * rhs`, started but not complete: the result is in flight until a `kgpu.mma_wait` settles it.
    In flight, it may only be carried by loops and used as the accumulator of the next product or the operand of a wait
    (`kgpu.mma_wait`). Until the wait, the operands' memory is being read. With `accumulate` false, the accumulator is
    taken to be zero, whatever it holds.

    Each group of four warps has 64 rows of the accumulator, or several times 64, as `wgmma_accumulator` says; where
    there are too few rows for that, each group has columns of all rows instead. The right operand is in memory; the
    left one is in memory or in registers, as `wgmma_operand_a` says. Memory is swizzled, and its layout says which of
    its two dimensions is contiguous: either one for elements of 16 bits, only K for others. `depth` holds two numbers;
    only the elements of K from the first to before the second are multiplied.

    In a cluster, operands in memory may be split along K: each cta multiplies its own pieces, and the accumulator holds
    the sums of all ctas, one below the other, hence that many times M rows. K below is then what one cta holds.

    | inputs | accumulator | K of one instruction |
    |---|---|---|
    | f16 | f16, f32 | 16 |
    | bf16 | f32 | 16 |
    | f32 (as tf32) | f32 | 8 |
    | f8E4M3FN, f8E5M2 (may differ) | f16, f32 | 32 |
    | i8 | i32 | 32 |

    - `warpgroup_mma_c1`: M, N and K agree; where K is split, the accumulator has that many times M rows. All have rank
      2.
    - `warpgroup_mma_c2`: the types are of the table.
    - `warpgroup_mma_c3`: M of a cta is a multiple of 64; N is a multiple of 8 and at most 256, or a multiple of 256; K
      is a multiple of the instruction's.
    - `warpgroup_mma_c4`: where tiles have layouts, those of the accumulator and the left operand are as above, and each
      cta's part of the accumulator has the rows and columns of its operands.
    - `warpgroup_mma_c5`: memory is laid out by `swizzled`, with all of K in each cta, or both operands are in memory
      and split along K; elements of other than 16 bits are contiguous along K.
    - `warpgroup_mma_c6`: `depth` is a beginning and an end within K, multiples of the instruction's.
    - `warpgroup_mma_c7`: where groups have columns of the accumulator, not rows, panels of the right operand's memory
      are as wide as the run of columns that a group has, or their width divides all columns that it has.

    ```mlir
    func.func @warpgroup_mma(%c: tensor<64x128xf32>) -> tensor<64x128xf32> {
      %a = kgpu.alloc : !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
      %b = kgpu.alloc : !kgpu.mem<64x128xf16, #layout.map<swizzled [64, 128] element 2 bytes 128>>
      %d = kgpu.warpgroup_mma %a, %b, %c : !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>,
        !kgpu.mem<64x128xf16, #layout.map<swizzled [64, 128] element 2 bytes 128>> -> tensor<64x128xf32>
      %e = kgpu.mma_wait %d pending 0 : tensor<64x128xf32>
      return %e : tensor<64x128xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_Factor, "M by K", [MemRead<Kgpu_SharedMemory>]>:$lhs,
                       Arg<Kgpu_MemType, "K by N", [MemRead<Kgpu_SharedMemory>]>:$rhs,
                       Arg<Tile_NumberTile, "M by N", [MemWrite<Kgpu_Asynchrony>]>:$acc,
                       Arg<Optional<I1>, "false: begin from zero">:$accumulate,
                       Arg<DefaultValuedAttr<DenseI64ArrayAttr, "{}">, "which part of K; empty: all">:$depth);
  let results = (outs Res<Tile_NumberTile, "M by N, in flight">:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $acc (`accumulate` $accumulate^)? attr-dict
    `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Kgpu_MmaWaitOp : Kgpu_EarlyOp<"mma_wait", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "wait for products";
  let description = [{
    Waits until all products (`kgpu.warpgroup_mma`) that this thread's group has started are done, except at most the
    last
    `pending`. The result is the accumulator. It is settled where nothing is pending, or where, in the same block, at
    least
    `pending` products have been started after the one that produces it; otherwise it is still in flight. In any case,
    the memory that the completed products have read may be written again.

    - `mma_wait_c1`: at least 0 products pending.

    ```mlir
    func.func @mma_wait(%c: tensor<64x128xf32>) -> tensor<64x128xf32> {
      %d = kgpu.mma_wait %c pending 1 : tensor<64x128xf32>
      %e = kgpu.mma_wait %d pending 0 : tensor<64x128xf32>
      return %e : tensor<64x128xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_NumberTile, "in flight", [MemRead<Kgpu_Asynchrony>, MemWrite<Kgpu_Asynchrony>]>:$acc,
                       Arg<I32Attr, "products that may be in flight">:$pending);
  let results = (outs Res<Tile_NumberTile, "the accumulator">:$result);
  let assemblyFormat = "$acc `pending` $pending attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Kgpu_WarpMmaOp : Kgpu_EarlyOp<"warp_mma", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "matrix product by each warp";
  let description = [{
    `result = acc + lhs * rhs`, complete when the op is: each warp multiplies fragments that its threads hold in
    registers, as the layouts `mma_accumulator` and `mma_operand` say. The products of a batch go to different warps
    first. Where there are several groups, fragments lie as for `kgpu.warpgroup_mma`, as `wgmma_accumulator` and
    `wgmma_operand_a` say, and every warp holds all of the right operand.

    | inputs | accumulator | K of one instruction |
    |---|---|---|
    | f16 | f16, f32 | 16 |
    | bf16 | f32 | 16 |
    | f32 (as tf32) | f32 | 8 |
    | f8E4M3FN, f8E5M2 (may differ) | f32 | 32 |
    | i8 | i32 | 32 |
    | f64 | f64 | 4 |

    - `warp_mma_c1`: M, N and K agree, and the batch side if there is one.
    - `warp_mma_c2`: the types are of the table.
    - `warp_mma_c3`: M is a multiple of 16 (of f64: 8), N of 8, K of the instruction's.
    - `warp_mma_c4`: where tiles have layouts, they are as above and match each other.

    ```mlir
    func.func @warp_mma(%a: tensor<64x32xf16>, %b: tensor<32x64xf16>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %d = kgpu.warp_mma %a, %b, %c : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      return %d : tensor<64x64xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_NumberTile, "M by K">:$lhs, Arg<Tile_NumberTile, "K by N">:$rhs,
                       Arg<Tile_NumberTile, "M by N">:$acc);
  let results = (outs Res<Tile_NumberTile, "M by N">:$result);
  let assemblyFormat = "$lhs `,` $rhs `,` $acc attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

def Kgpu_RescaleOp : Kgpu_EarlyOp<"rescale", [Pure, AllTypesMatch<["value", "factor", "result"]>] #
    ElementwiseMappable.traits> {
  let summary = "a product with a factor that is 1 most of the time";
  let description = [{
    `value * factor`, element by element, for factors that are 1 in most places most of the time: a warp whose factors
    are all 1 skips the multiplication.

    - `rescale_c1`: value, factor and result are of one type.

    ```mlir
    func.func @rescale(%sums: tensor<64x128xf32>, %factor: tensor<64x128xf32>) -> tensor<64x128xf32> {
      %scaled = kgpu.rescale %sums, %factor : tensor<64x128xf32>
      return %scaled : tensor<64x128xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_FloatTile, "what is scaled">:$value, Arg<Tile_FloatTile, "1 nearly everywhere">:$factor);
  let results = (outs Res<Tile_FloatTile, "the product">:$result);
  let assemblyFormat = "$value `,` $factor attr-dict `:` type($result)";
}

def Kgpu_AnyOp : Kgpu_EarlyOp<"any", [Pure]> {
  let summary = "whether any element that a warp holds is true";
  let description = [{
    Each warp asks for itself. So a branch that the answer decides contains nothing that warps do together: no barrier,
    no product of a group, no step at a channel (`kiln-verify-barriers`).

    - `any_c1`: the mask is a tile of i1.

    ```mlir
    func.func @any(%c: tensor<64xi1>) -> i1 {
      %any = kgpu.any %c : tensor<64xi1>
      return %any : i1
    }
    ```
  }];
  let arguments = (ins Arg<Tile_I1Tile, "what may hold">:$mask);
  let results = (outs Res<I1, "the warp's answer">:$result);
  let assemblyFormat = "$mask attr-dict `:` type($mask)";
}

#endif // KILN_KGPU_PRODUCTS_TD
