// Ops that access global memory: through pointers, descriptors and block pointers; atomics.
#ifndef KILN_TILE_MEMORY_TD
#define KILN_TILE_MEMORY_TD

include "TileEnums.td"

def Tile_LoadOp : Tile_EffectOp<"load", [AttrSizedOperandSegments]> {
  let summary = "read the elements that pointers point at";
  let description = [{
    Each element is read from its own address. An element whose mask is false is not read: it is `other`, or zero (null
    for a pointer) without an `other`. The reads of one load are unordered. `cache` and `evict` are hints that a target
    may ignore; a volatile load is neither moved, merged nor removed.

    - `load_c1`: the result has the pointers' shape and the pointee as element.
    - `load_c2`: the mask has the pointers' shape.
    - `load_c3`: `other` has the type of the result.
    - `load_c4`: `other` comes with a mask.
    - `load_c5`: the cache modifier is none, ca, cg, cs or cv (wb and wt apply to stores).

    ```mlir
    func.func @load(%p: tensor<64x!tile.ptr<f32>>, %m: tensor<64xi1>, %o: tensor<64xf32>) -> tensor<64xf32> {
      %v = tile.load %p mask %m other %o {evict = #tile<evict evict_first>}
        : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> other tensor<64xf32> -> tensor<64xf32>
      return %v : tensor<64xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrLike, "addresses">:$ptr,
                       Arg<Optional<Tile_MaskLike>, "which elements are read">:$mask,
                       Arg<Optional<Tile_AnyLike>, "elements that are not read">:$other,
                       Arg<DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">, "cache hint">:$cache,
                       Arg<DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">, "eviction hint">:$evict,
                       Arg<UnitAttr, "keep this access as it is">:$isVolatile);
  let results = (outs Res<Tile_AnyLike, "the elements">:$result);
  let assemblyFormat = [{
    $ptr (`mask` $mask^)? (`other` $other^)? attr-dict
    `:` type($ptr) (`mask` type($mask)^)? (`other` type($other)^)? `->` type($result)
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_EffectOp<"store"> {
  let summary = "write elements where pointers point";
  let description = [{
    Each element whose mask is true (or every one, without a mask) is written to its own address. When several elements
    of one store share an address, it ends up with one of them.

    - `store_c1`: the value has the pointers' shape and the pointee as element.
    - `store_c2`: the mask has the pointers' shape.
    - `store_c3`: the cache modifier is none, wb, cg, cs or wt (ca and cv apply to loads).

    ```mlir
    func.func @store(%p: tensor<64x!tile.ptr<f32>>, %v: tensor<64xf32>, %m: tensor<64xi1>) {
      tile.store %p, %v mask %m : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrLike, "addresses">:$ptr, Arg<Tile_AnyLike, "the elements">:$value,
                       Arg<Optional<Tile_MaskLike>, "which elements are written">:$mask,
                       Arg<DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">, "cache hint">:$cache,
                       Arg<DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">, "eviction hint">:$evict);
  let assemblyFormat = [{
    $ptr `,` $value (`mask` $mask^)? attr-dict `:` type($ptr) `,` type($value) (`mask` type($mask)^)?
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_PrefetchOp : Tile_EffectOp<"prefetch"> {
  let summary = "ask for memory that will be read soon";
  let description = [{
    The memory at each address whose mask is true (or every one, without a mask) may be brought nearer, into a cache
    that all programs see. Nothing is read, so the program waits for nothing, and it need not be known yet what the
    memory will hold: a launch may ask for memory before it waits for the launch that writes it. A target may ignore
    the op.

    - `prefetch_c1`: the mask has the pointers' shape.

    ```mlir
    func.func @prefetch(%p: tensor<64x!tile.ptr<f32>>, %m: tensor<64xi1>) {
      tile.prefetch %p mask %m : tensor<64x!tile.ptr<f32>> mask tensor<64xi1>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrLike, "addresses">:$ptr,
                       Arg<Optional<Tile_MaskLike>, "which of them will be read">:$mask);
  let assemblyFormat = "$ptr (`mask` $mask^)? attr-dict `:` type($ptr) (`mask` type($mask)^)?";
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_MakeDescOp : Tile_Op<"make_desc", [Pure, SameVariadicOperandSize]> {
  let summary = "describe a strided array in global memory";
  let description = [{
    Element (i, j, ...) of the array is at `base + i * strides[0] + j * strides[1] + ...` elements. Extents are at
    least 0. `padding` is what blocks loaded through the descriptor hold outside the array.

    - `make_desc_c1`: one extent and one stride per dimension of the block.
    - `make_desc_c2`: the base points at the block's element type.
    - `make_desc_c3`: nan padding only with a float element type.

    ```mlir
    func.func @make_desc(%b: !tile.ptr<f16>, %m: i64, %n: i64, %s: i64) -> !tile.desc<tensor<64x32xf16>> {
      %one = arith.constant 1 : i64
      %d = tile.make_desc %b, shape [%m, %n] strides [%s, %one] {padding = #tile<padding nan>}
        : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
      return %d : !tile.desc<tensor<64x32xf16>>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrType, "address of element (0, 0, ...)">:$base,
                       Arg<Variadic<I64>, "extents, in elements">:$shape,
                       Arg<Variadic<I64>, "strides, in elements">:$strides,
                       Arg<DefaultValuedAttr<Tile_PaddingAttr, "Padding::Zero">, "what lies outside">:$padding);
  let results = (outs Res<Tile_DescType, "the descriptor">:$result);
  let assemblyFormat = [{
    $base `,` `shape` `[` $shape `]` `strides` `[` $strides `]` attr-dict `:` type($base) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_DescLoadOp : Tile_EffectOp<"desc_load"> {
  let summary = "read one block of a described array";
  let description = [{
    Element (i, j, ...) of the result is element (offsets[0] + i, offsets[1] + j, ...) of the array, or the padding of
    the descriptor where that is outside the array in a dimension that `boundary` lists (without a list: in any
    dimension). In the other dimensions the program promises that the block is inside.

    - `desc_load_c1`: one offset per dimension of the block.
    - `desc_load_c2`: the result is the block.
    - `desc_load_c3`: `boundary` lists dimensions of the block, ascending, each once.
    - `desc_load_c4`: the cache modifier is none, ca, cg, cs or cv.

    ```mlir
    func.func @desc_load(%d: !tile.desc<tensor<64x32xf16>>, %i: i32, %j: i32) -> tensor<64x32xf16> {
      %v = tile.desc_load %d[%i, %j] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      return %v : tensor<64x32xf16>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_DescType, "the array">:$desc,
                       Arg<Variadic<I32>, "position of the block's first element">:$offsets,
                       Arg<OptionalAttr<DenseI32ArrayAttr>, "dimensions to check; absent: all">:$boundary,
                       Arg<DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">, "cache hint">:$cache,
                       Arg<DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">, "eviction hint">:$evict);
  let results = (outs Res<Tile_NumberTile, "the block">:$result);
  let assemblyFormat = "$desc `[` $offsets `]` attr-dict `:` type($desc) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DescStoreOp : Tile_EffectOp<"desc_store"> {
  let summary = "write one block of a described array";
  let description = [{
    The counterpart of `tile.desc_load`: elements outside the array in a checked dimension are not written.

    - `desc_store_c1`: one offset per dimension of the block.
    - `desc_store_c2`: the value is the block.
    - `desc_store_c3`: `boundary` lists dimensions of the block, ascending, each once.
    - `desc_store_c4`: the cache modifier is none, wb, cg, cs or wt.

    ```mlir
    func.func @desc_store(%d: !tile.desc<tensor<64x32xf16>>, %i: i32, %j: i32, %v: tensor<64x32xf16>) {
      tile.desc_store %d[%i, %j], %v {boundary = array<i32: 0>} : !tile.desc<tensor<64x32xf16>>, tensor<64x32xf16>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_DescType, "the array">:$desc,
                       Arg<Variadic<I32>, "position of the block's first element">:$offsets,
                       Arg<Tile_NumberTile, "the block">:$value,
                       Arg<OptionalAttr<DenseI32ArrayAttr>, "dimensions to check; absent: all">:$boundary,
                       Arg<DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">, "cache hint">:$cache,
                       Arg<DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">, "eviction hint">:$evict);
  let assemblyFormat = "$desc `[` $offsets `]` `,` $value attr-dict `:` type($desc) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_DescReduceOp : Tile_EffectOp<"desc_reduce"> {
  let summary = "atomically combine one block into a described array";
  let description = [{
    For each element of the block that is inside the array, memory becomes `kind(memory, value)` in one atomic step, as
    by a relaxed `tile.atomic_rmw` for all threads of the device, except that the old value is not returned. Elements
    outside the array have no effect.

    - `desc_reduce_c1`: one offset per dimension of the block.
    - `desc_reduce_c2`: the value is the block.
    - `desc_reduce_c3`: add, max, umax, min, umin, and, or, xor take i32 or i64; fadd, fmax and fmin f16, bf16, f32 or
      f64; there is no xchg.

    ```mlir
    func.func @desc_reduce(%d: !tile.desc<tensor<64x32xf32>>, %i: i32, %j: i32, %v: tensor<64x32xf32>) {
      tile.desc_reduce fadd %d[%i, %j], %v : !tile.desc<tensor<64x32xf32>>, tensor<64x32xf32>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_RMWKindAttr, "how value and memory combine">:$kind,
                       Arg<Tile_DescType, "the array">:$desc,
                       Arg<Variadic<I32>, "position of the block's first element">:$offsets,
                       Arg<Tile_NumberTile, "the block">:$value);
  let assemblyFormat = "$kind $desc `[` $offsets `]` `,` $value attr-dict `:` type($desc) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_MakeBlockPtrOp : Tile_Op<"make_block_ptr", [Pure, AttrSizedOperandSegments]> {
  let summary = "a movable block of a strided array";
  let description = [{
    The array is described as in `tile.make_desc`; the block starts at `offsets`. `order` names the dimensions from the
    fastest in memory to the slowest. It is a hint: only the strides determine addresses.

    - `make_block_ptr_c1`: one extent, one stride and one offset per dimension of the block.
    - `make_block_ptr_c2`: the base points at the block's element type.
    - `make_block_ptr_c3`: the order is a permutation of the dimensions.

    ```mlir
    func.func @make_block_ptr(%b: !tile.ptr<f16>, %m: i64, %n: i64, %i: i32, %j: i32)
        -> !tile.block_ptr<tensor<64x32xf16>> {
      %one = arith.constant 1 : i64
      %p = tile.make_block_ptr %b, shape [%m, %n] strides [%n, %one] offsets [%i, %j] {order = array<i32: 1, 0>}
        : !tile.ptr<f16> -> !tile.block_ptr<tensor<64x32xf16>>
      return %p : !tile.block_ptr<tensor<64x32xf16>>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrType, "address of element (0, 0, ...)">:$base,
                       Arg<Variadic<I64>, "extents, in elements">:$shape,
                       Arg<Variadic<I64>, "strides, in elements">:$strides,
                       Arg<Variadic<I32>, "position of the block's first element">:$offsets,
                       Arg<DenseI32ArrayAttr, "dimensions, fastest first">:$order);
  let results = (outs Res<Tile_BlockPtrType, "the block pointer">:$result);
  let assemblyFormat = [{
    $base `,` `shape` `[` $shape `]` `strides` `[` $strides `]` `offsets` `[` $offsets `]` attr-dict
    `:` type($base) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_AdvanceOp : Tile_Op<"advance", [Pure, AllTypesMatch<["ptr", "result"]>]> {
  let summary = "move a block pointer";
  let description = [{
    The result's block starts `offsets` elements further on in each dimension of the same array.

    - `advance_c1`: one offset per dimension of the block.

    ```mlir
    func.func @advance(%p: !tile.block_ptr<tensor<64x32xf16>>, %k: i32) -> !tile.block_ptr<tensor<64x32xf16>> {
      %zero = arith.constant 0 : i32
      %q = tile.advance %p[%zero, %k] : !tile.block_ptr<tensor<64x32xf16>>
      return %q : !tile.block_ptr<tensor<64x32xf16>>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_BlockPtrType, "the block pointer">:$ptr,
                       Arg<Variadic<I32>, "signed distances, in elements">:$offsets);
  let results = (outs Res<Tile_BlockPtrType, "the moved block pointer">:$result);
  let assemblyFormat = "$ptr `[` $offsets `]` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_BlockLoadOp : Tile_EffectOp<"block_load"> {
  let summary = "read the block a block pointer points at";
  let description = [{
    As `tile.desc_load` at the block pointer's position, except that no dimension is checked unless `boundary` lists it.
    Elements outside the array in a checked dimension are the padding, by default zero.

    - `block_load_c1`: the result is the block.
    - `block_load_c2`: `boundary` lists dimensions of the block, ascending, each once.
    - `block_load_c3`: nan padding only with a float element type.
    - `block_load_c4`: the cache modifier is none, ca, cg, cs or cv.

    ```mlir
    func.func @block_load(%p: !tile.block_ptr<tensor<64x32xf16>>) -> tensor<64x32xf16> {
      %v = tile.block_load %p {boundary = array<i32: 0, 1>, padding = #tile<padding zero>}
        : !tile.block_ptr<tensor<64x32xf16>> -> tensor<64x32xf16>
      return %v : tensor<64x32xf16>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_BlockPtrType, "the block pointer">:$ptr,
                       Arg<DefaultValuedAttr<DenseI32ArrayAttr, "{}">, "dimensions to check">:$boundary,
                       Arg<OptionalAttr<Tile_PaddingAttr>, "what lies outside">:$padding,
                       Arg<DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">, "cache hint">:$cache,
                       Arg<DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">, "eviction hint">:$evict);
  let results = (outs Res<Tile_NumberTile, "the block">:$result);
  let assemblyFormat = "$ptr attr-dict `:` type($ptr) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_BlockStoreOp : Tile_EffectOp<"block_store"> {
  let summary = "write the block a block pointer points at";
  let description = [{
    The counterpart of `tile.block_load`: elements outside the array in a checked dimension are not written.

    - `block_store_c1`: the value is the block.
    - `block_store_c2`: `boundary` lists dimensions of the block, ascending, each once.
    - `block_store_c3`: the cache modifier is none, wb, cg, cs or wt.

    ```mlir
    func.func @block_store(%p: !tile.block_ptr<tensor<64x32xf16>>, %v: tensor<64x32xf16>) {
      tile.block_store %p, %v {boundary = array<i32: 0>} : !tile.block_ptr<tensor<64x32xf16>>, tensor<64x32xf16>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_BlockPtrType, "the block pointer">:$ptr, Arg<Tile_NumberTile, "the block">:$value,
                       Arg<DefaultValuedAttr<DenseI32ArrayAttr, "{}">, "dimensions to check">:$boundary,
                       Arg<DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">, "cache hint">:$cache,
                       Arg<DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">, "eviction hint">:$evict);
  let assemblyFormat = "$ptr `,` $value attr-dict `:` type($ptr) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_AtomicRMWOp : Tile_EffectOp<"atomic_rmw", [AllTypesMatch<["value", "result"]>]> {
  let summary = "atomically combine values into memory, returning what was there";
  let description = [{
    For each element, memory becomes `kind(memory, value)` in one atomic step, and the result is what was there before.
    The elements of one op are unordered; two that share an address both take effect. An element whose mask is false
    accesses no memory and gives zero. `sem` orders the program's other accesses around the op, as seen by the threads
    that `scope` names.

    If one side is NaN, fmax and fmin return the other. max and min are signed; umax and umin are unsigned.

    - `atomic_rmw_c1`: the value has the pointers' shape and the pointee as element.
    - `atomic_rmw_c2`: the mask has the pointers' shape.
    - `atomic_rmw_c3`: add, max, umax, min, umin, and, or, xor take i32 or i64.
    - `atomic_rmw_c4`: fadd, fmax and fmin take f16, bf16, f32 or f64.
    - `atomic_rmw_c5`: xchg takes i32, i64, f32 or f64.

    ```mlir
    func.func @atomic_rmw(%p: tensor<64x!tile.ptr<f32>>, %v: tensor<64xf32>, %m: tensor<64xi1>) -> tensor<64xf32> {
      %old = tile.atomic_rmw fadd relaxed gpu %p, %v mask %m
        : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
      return %old : tensor<64xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_RMWKindAttr, "how value and memory combine">:$kind,
                       Arg<Tile_PtrLike, "addresses">:$ptr, Arg<Tile_NumberLike, "right-hand sides">:$value,
                       Arg<Optional<Tile_MaskLike>, "which elements take part">:$mask,
                       Arg<Tile_MemSemanticAttr, "memory order">:$sem,
                       Arg<Tile_MemScopeAttr, "threads it is ordered with">:$scope);
  let results = (outs Res<Tile_NumberLike, "memory before the op">:$result);
  let assemblyFormat = [{
    $kind $sem $scope $ptr `,` $value (`mask` $mask^)? attr-dict
    `:` type($ptr) `,` type($value) (`mask` type($mask)^)?
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_AtomicCASOp : Tile_EffectOp<"atomic_cas", [AllTypesMatch<["compare", "value", "result"]>]> {
  let summary = "atomic compare and swap, returning what was there";
  let description = [{
    For each element, in one atomic step: if memory equals `compare`, bit by bit, it becomes `value`. The result is what
    was there before. It never fails spuriously.

    - `atomic_cas_c1`: the value has the pointers' shape and the pointee as element.
    - `atomic_cas_c2`: the element has 16, 32 or 64 bits.

    ```mlir
    func.func @atomic_cas(%lock: !tile.ptr<i32>, %free: i32, %taken: i32) -> i32 {
      %old = tile.atomic_cas acq_rel gpu %lock, %free, %taken : !tile.ptr<i32>, i32
      return %old : i32
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrLike, "addresses">:$ptr, Arg<Tile_NumberLike, "what memory must hold">:$compare,
                       Arg<Tile_NumberLike, "what it becomes">:$value,
                       Arg<Tile_MemSemanticAttr, "memory order">:$sem,
                       Arg<Tile_MemScopeAttr, "threads it is ordered with">:$scope);
  let results = (outs Res<Tile_NumberLike, "memory before the op">:$result);
  let assemblyFormat = [{
    $sem $scope $ptr `,` $compare `,` $value attr-dict `:` type($ptr) `,` type($value)
  }];
  let hasVerifier = 1;
}

#endif // KILN_TILE_MEMORY_TD
