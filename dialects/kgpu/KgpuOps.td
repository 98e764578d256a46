// Ops of the kgpu dialect: layout conversions, shared memory, barriers, and the parts of a reduction that one warp does
// alone. Asynchronous ops have files of their own: KgpuChannels.td and KgpuProducts.td.
#ifndef KILN_KGPU_OPS_TD
#define KILN_KGPU_OPS_TD

include "KgpuBase.td"
include "KgpuChannels.td"
include "KgpuProducts.td"

//===-- Layouts -------------------------------------------------------------------------------------------------------===//

def Kgpu_ConvertOp : Kgpu_Op<"convert", [Pure]> {
  let summary = "the same tile in another layout";
  let description = [{
    The two layouts determine its cost: nothing, register moves, shuffles inside a warp, or (before
    `kiln-lower-exchanges`) a trip through shared memory.

    - `convert_c1`: the types differ in their layouts only.
    - `convert_c2`: both layouts have the same numbers of lanes, warps, groups and ctas.

    ```mlir
    func.func @convert(%x: tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>>)
        -> tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>> {
      %y = kgpu.convert %x : tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>>
        -> tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>
      return %y : tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "the tile">:$source);
  let results = (outs Res<Tile_Tile, "the same elements elsewhere">:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Kgpu_KeepOp : Kgpu_Op<"keep", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "the same tile, kept in registers as it is";
  let description = [{
    The operand's value, which no later stage can recognise as the operand: what is computed from the result is computed
    again rather than reused from the same computation on the operand. A row that is converted before an exchange and
    again after it can so wait for the exchange in its narrow type. It costs one instruction per word: elements of 8 and
    16 bits are kept packed in words, as they were loaded.

    - `keep_c1`: elements have 8, 16 or 32 bits.

    ```mlir
    func.func @keep(%x: tensor<512xf16, #layout.map<blocked [512] vector 8 warps 2>>)
        -> tensor<512xf32, #layout.map<blocked [512] vector 8 warps 2>> {
      %y = kgpu.keep %x : tensor<512xf16, #layout.map<blocked [512] vector 8 warps 2>>
      %z = arith.extf %y : tensor<512xf16, #layout.map<blocked [512] vector 8 warps 2>> to
        tensor<512xf32, #layout.map<blocked [512] vector 8 warps 2>>
      return %z : tensor<512xf32, #layout.map<blocked [512] vector 8 warps 2>>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_NumberTile, "the tile">:$source);
  let results = (outs Res<Tile_NumberTile, "the same elements">:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
  let hasVerifier = 1;
}

//===-- Shared memory -------------------------------------------------------------------------------------------------===//

def Kgpu_AllocOp : Kgpu_EarlyOp<"alloc"> {
  let summary = "shared memory for a tile";
  let description = [{
    Memory for `slots` tiles of the result's type, one after the other, with undefined contents. The result is the first
    slot. The memory lives as long as it is used; `kiln-plan-shared-memory` gives it an `offset` in bytes, and may give
    the same bytes to two allocations that are not alive at the same time.

    - `alloc_c1`: `offset` is at least 0 and a multiple of 16.
    - `alloc_c2`: there is at least one slot.
    - `alloc_c3`: memory with an mbarrier has elements of 4 or 8 bytes; each cta holds all of them, or a piece.
    - `alloc_c4`: memory with a `turn` has one slot and no mbarrier, and the allocation stands in a role.

    Allocations of several roles with the same `turn` are given the same bytes: the roles take turns using them.
    `kiln-verify-channels` proves that channels order each role's accesses after all earlier ones of the others.

    Memory with an `mbarrier` is filled by stores from all ctas of the cluster, and the stores signal their completion:
    after each slot lies an mbarrier that counts the bytes that have arrived, and `kgpu.await` waits for it instead of a
    barrier. Nothing tells a sender that a slot has been read. Hence the rules for such memory: no other allocation
    shares its bytes; the op stands in the body of the function or of a role, or in a loop there; in a loop the memory
    has two slots, and in each iteration every warp sends something to every cta. What a warp sends in the next
    iteration then proves that it has read what it received in this one.

    ```mlir
    func.func @alloc() {
      %m = kgpu.alloc {slots = 2 : i32} : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<OptionalAttr<I64Attr>, "bytes from the start of shared memory, once planned">:$offset,
                       Arg<DefaultValuedAttr<I32Attr, "1">, "how many tiles it holds">:$slots,
                       Arg<UnitAttr, "filled by stores that signal an mbarrier">:$mbarrier,
                       Arg<DefaultValuedAttr<I32Attr, "-1">, "roles take turns with all memory of this number">:$turn);
  let results = (outs Res<Kgpu_MemType, "the first slot", [MemAlloc<Kgpu_SharedMemory>]>:$mem);
  let assemblyFormat = "attr-dict `:` type($mem)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes of the elements of one slot: a multiple of 16.
    int64_t getTileBytes();
    /// Bytes from one slot to the next: a multiple of 16.
    int64_t getSlotBytes() { return getTileBytes() + (getMbarrier() ? 16 : 0); }
    /// Bytes of all slots.
    int64_t getBytes() { return getSlotBytes() * int32_t(getSlots()); }
    /// The number of the memory that roles take turns with, if it is such memory.
    std::optional<int32_t> turnNumber() {
      int32_t turn = getTurn();
      return turn < 0 ? std::nullopt : std::optional<int32_t>(turn);
    }
  }];
}

def Kgpu_SlotOp : Kgpu_EarlyOp<"slot", [Pure, AllTypesMatch<["mem", "result"]>]> {
  let summary = "one of the slots of an allocation";
  let description = [{
    Slot `index` of an allocation. An index out of range is undefined behaviour.

    - `slot_c1`: the memory is the result of a `kgpu.alloc`.

    ```mlir
    func.func @slot(%phase: i32) -> tensor<4xf32, #layout.map<replicated [4] warps 4>> {
      %m = kgpu.alloc {slots = 2 : i32} : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
      %s = kgpu.slot %m[%phase] : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
      %x = kgpu.local_load %s : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
        -> tensor<4xf32, #layout.map<replicated [4] warps 4>>
      return %x : tensor<4xf32, #layout.map<replicated [4] warps 4>>
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "the allocation">:$mem, Arg<I32, "which slot">:$index);
  let results = (outs Res<Kgpu_MemType, "that slot">:$result);
  let assemblyFormat = "$mem `[` $index `]` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Kgpu_ViewOp : Kgpu_EarlyOp<"view", [Pure]> {
  let summary = "part of a memory as a tile of another shape";
  let description = [{
    The elements from `offset` on (in elements), placed as the result's layout says. So a tile that was stored row-major
    is read as its reshape, or two tiles that were stored one after the other are read as one.

    - `view_c1`: the memory is the result of a `kgpu.alloc` or a `kgpu.slot`.
    - `view_c2`: the element type stays.
    - `view_c3`: the result lies within the memory.
    - `view_c4`: either each cta holds all of both, or each cta holds the same part of both: the same elements, or the
      same piece of one dimension.

    ```mlir
    func.func @view() {
      %m = kgpu.alloc : !kgpu.mem<4x32xf32, #layout.map<row_major [4, 32]>>
      %v = kgpu.view %m offset 64 : !kgpu.mem<4x32xf32, #layout.map<row_major [4, 32]>>
        -> !kgpu.mem<64xf32, #layout.map<row_major [64]>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "the whole">:$mem, Arg<I64Attr, "where the part starts, in elements">:$offset);
  let results = (outs Res<Kgpu_MemType, "the part">:$result);
  let assemblyFormat = "$mem `offset` $offset attr-dict `:` type($mem) `->` type($result)";
  let hasVerifier = 1;
}

def Kgpu_TransOp : Kgpu_EarlyOp<"trans", [Pure]> {
  let summary = "a memory with its dimensions in another order";
  let description = [{
    Dimension i of the result is dimension `order[i]` of the memory; nothing moves. For example, what a copy stored row
    by row is read as the transposed operand of a product.

    - `trans_c1`: the order names each dimension once.
    - `trans_c2`: the result is the memory with shape and layout in that order.

    ```mlir
    func.func @trans() {
      %m = kgpu.alloc : !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
      %t = kgpu.trans %m [1, 0] : !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
        -> !kgpu.mem<32x64xf16, #layout.map<row_major [32, 64] order [0, 1]>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "the memory">:$mem, Arg<DenseI32ArrayAttr, "its dimensions">:$order);
  let results = (outs Res<Kgpu_MemType, "the same bytes">:$result);
  let assemblyFormat = "$mem $order attr-dict `:` type($mem) `->` type($result)";
  let builders = [OpBuilder<(ins "::mlir::Value":$mem, "::llvm::ArrayRef<int32_t>":$order)>];
  let hasVerifier = 1;
}

def Kgpu_LocalStoreOp : Kgpu_EarlyOp<"local_store"> {
  let summary = "write a tile to shared memory";
  let description = [{
    The owner of each element writes it. An element that the memory's layout keeps in several ctas is written in all of
    them: by its one owner (through distributed shared memory) where the tile is spread over the ctas, by an owner in
    each cta where the tile is replicated over them. A scalar is written by the first thread of all ctas, to a memory of
    one element. With `byOwner`, replicas of the tile in other ctas do not hold the value (the result of an atomic): the
    one owner among all ctas writes every cta's memory.

    - `local_store_c1`: the tile has the memory's shape and element type; a scalar's memory has shape 1.
    - `local_store_c2`: the memory keeps the whole tile in each cta, or is split over ctas as the tile is. Or it has an
      mbarrier and each cta has a piece; then each thread holds part of every piece, all threads in the same registers,
      and each element goes to the cta whose piece it is in.

    ```mlir
    func.func @local_store(%x: tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>>) {
      %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
      kgpu.local_store %x, %m : tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>>,
        !kgpu.mem<128xf32, #layout.map<row_major [128]>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_AnyLike, "the tile">:$value,
                       Arg<Kgpu_MemType, "where it goes", [MemWrite<Kgpu_SharedMemory>]>:$mem,
                       Arg<UnitAttr, "only the owner's copy is valid">:$byOwner);
  let assemblyFormat = "$value `,` $mem attr-dict `:` type($value) `,` type($mem)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// True when a thread writes memory of another cta.
    bool crossesCtas();
    /// True when each element is written by its one owner among all ctas.
    bool fromOneOwner() { return getByOwner() || !::mlir::isa<::mlir::RankedTensorType>(getValue().getType()); }
  }];
}

def Kgpu_LocalLoadOp : Kgpu_EarlyOp<"local_load"> {
  let summary = "read a tile from shared memory";
  let description = [{
    Each thread reads the elements that its layout assigns to it, from its own cta's memory.

    - `local_load_c1`: the tile has the memory's shape and element type; a scalar's memory has shape 1.
    - `local_load_c2`: each cta's memory holds all that its threads read.

    ```mlir
    func.func @local_load() -> tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>> {
      %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
      %x = kgpu.local_load %m : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
        -> tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>>
      return %x : tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>>
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "where it lies", [MemRead<Kgpu_SharedMemory>]>:$mem);
  let results = (outs Res<Tile_AnyLike, "the tile">:$result);
  let assemblyFormat = "$mem attr-dict `:` type($mem) `->` type($result)";
  let hasVerifier = 1;
}

def Kgpu_LocalGatherOp : Kgpu_Op<"local_gather"> {
  let summary = "pick elements of shared memory along a dimension by index";
  let description = [{
    `result[..., i, ...] = mem[..., indices[..., i, ...], ...]`, with the index in dimension `axis`. An index outside
    the axis gives an unspecified element of the memory, never a fault.

    - `local_gather_c1`: the axis is one of the memory's dimensions.
    - `local_gather_c2`: the indices have the memory's rank and, except along the axis, its sizes.
    - `local_gather_c3`: the result has the indices' shape and layout and the memory's element type.
    - `local_gather_c4`: indices are not i1.

    ```mlir
    func.func @local_gather(%i: tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>)
        -> tensor<64xf32, #layout.map<blocked [64] vector 1 warps 2>> {
      %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
      %x = kgpu.local_gather %m[%i] 0 : !kgpu.mem<128xf32, #layout.map<row_major [128]>>,
        tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>
        -> tensor<64xf32, #layout.map<blocked [64] vector 1 warps 2>>
      return %x : tensor<64xf32, #layout.map<blocked [64] vector 1 warps 2>>
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "where elements come from", [MemRead<Kgpu_SharedMemory>]>:$mem,
                       Arg<Tile_IntTile, "which element along the axis">:$indices,
                       Arg<I32Attr, "the dimension that is indexed">:$axis);
  let results = (outs Res<Tile_Tile, "the picked elements">:$result);
  let assemblyFormat = "$mem `[` $indices `]` $axis attr-dict `:` type($mem) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Kgpu_LocalAtomicAddOp : Kgpu_Op<"local_atomic_add"> {
  let summary = "add to elements of shared memory atomically";
  let description = [{
    For each element of `indices` whose mask is true (every one, without a mask), its owner does `mem[index] += value`.
    Each cta adds what its own threads hold to its own memory: an element that is replicated over ctas is added in each.
    An index outside the memory adds nothing. The additions are unordered.

    - `local_atomic_add_c1`: the memory has one dimension and elements of i32.
    - `local_atomic_add_c2`: the indices have one dimension and are not i1.
    - `local_atomic_add_c3`: value and mask have the indices' shape and layout.

    ```mlir
    func.func @local_atomic_add(%i: tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>) {
      %m = kgpu.alloc : !kgpu.mem<16xi32, #layout.map<row_major [16]>>
      kgpu.local_atomic_add %m[%i], %i : !kgpu.mem<16xi32, #layout.map<row_major [16]>>,
        tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>,
        tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "the counters",
                           [MemRead<Kgpu_SharedMemory>, MemWrite<Kgpu_SharedMemory>]>:$mem,
                       Arg<Tile_IntTile, "which counter">:$indices, Arg<Tile_I32Tile, "what is added">:$value,
                       Arg<Optional<Tile_I1Tile>, "which elements count">:$mask);
  let assemblyFormat = [{
    $mem `[` $indices `]` `,` $value (`mask` $mask^)? attr-dict
    `:` type($mem) `,` type($indices) `,` type($value) (`mask` type($mask)^)?
  }];
  let hasVerifier = 1;
}

//===-- Barriers ------------------------------------------------------------------------------------------------------===//

def Kgpu_Scope : I32EnumAttr<"Scope", "who waits for whom", [
    I32EnumAttrCase<"Group", 0, "group">, I32EnumAttrCase<"Role", 1, "role">, I32EnumAttrCase<"Cta", 2, "cta">,
    I32EnumAttrCase<"Cluster", 3, "cluster">]> {
  let cppNamespace = "::kiln::kgpu";
  let genSpecializedAttr = 0;
}
def Kgpu_ScopeAttr : EnumAttr<Kgpu_Dialect, Kgpu_Scope, "scope"> {
  let assemblyFormat = "$value";
}

def Kgpu_BarrierOp : Kgpu_Op<"barrier", [MemoryEffects<[MemRead<Tile_Order>, MemWrite<Tile_Order>]>]> {
  let summary = "all threads wait for each other";
  let description = [{
    No thread of the scope continues before all its threads have arrived; what they did to memory before is visible to
    all of them after. The scope is the `cta` or the `cluster`; inside a role, it is the `role`, in place of the cta, or
    the `group`: then each group of the role has a barrier of its own, and the groups are not ordered among each other.
    Only `kiln-insert-barriers` creates barriers, since it knows which accesses need one: ops that use shared memory do
    not bring their own.

    ```mlir
    func.func @barrier() {
      kgpu.barrier cta
      kgpu.barrier cluster
      kgpu.roles @load warps 1 {
        kgpu.barrier role
        kgpu.end_role
      } @multiply groups 2 warps 4 {
        kgpu.barrier group
        kgpu.end_role
      }
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_ScopeAttr, "whose threads wait">:$scope);
  let assemblyFormat = "$scope attr-dict";
}

def Kgpu_CloseReadsOp : Kgpu_Op<"close_reads", [MemoryEffects<[MemRead<Tile_Order>, MemWrite<Tile_Order>]>]> {
  let summary = "the reads before are issued before anything after";
  let description = [{
    Orders what this thread issues. Without it, the assembler would move a read down to where its value is used. It
    waits for nothing and does not affect other threads. Created by `kiln-close-reads`.

    ```mlir
    func.func @close_reads(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) -> (f32, f32) {
      %x = tile.load %p : !tile.ptr<f32> -> f32
      %y = tile.load %q : !tile.ptr<f32> -> f32
      kgpu.close_reads
      return %x, %y : f32, f32
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Kgpu_ClusterArriveOp : Kgpu_Op<"cluster_arrive", [MemoryEffects<[MemRead<Tile_Order>, MemWrite<Tile_Order>]>]> {
  let summary = "first half of a barrier of the cluster";
  let description = [{
    Signals that this thread has arrived, and does not wait; `kgpu.cluster_wait` is the other half. Between the two
    halves there is no other barrier of the cluster, and no return (`kiln-verify-barriers`). A kernel starts with a pair
    of them, so that no cta writes to another that has not started. That arrival is `relaxed`: it makes nothing that
    this thread did before visible to others. It also initialises the mbarriers, so there is at most one where there are
    mbarriers. (On existing GPUs an arrival that orders memory waits until its effects are visible to the whole GPU, for
    about a microsecond.)

    ```mlir
    func.func @cluster_arrive() {
      kgpu.cluster_arrive relaxed
      kgpu.cluster_wait
      return
    }
    ```
  }];
  let arguments = (ins Arg<UnitAttr, "orders no memory">:$relaxed);
  let assemblyFormat = "(`relaxed` $relaxed^)? attr-dict";
}

def Kgpu_AwaitOp : Kgpu_EarlyOp<"await"> {
  let summary = "wait until what was sent has arrived";
  let description = [{
    Waits until every element of this slot of memory with an mbarrier has been stored once, by whichever ctas; the
    stores are visible after it. Every thread takes part: of the cta, or of the role that the memory is allocated in.

    - `await_c1`: the memory is a slot of memory with an mbarrier.

    ```mlir
    func.func @await(%x: tensor<4xf32, #layout.map<digits [4] reg (1) warp (2)>>) {
      %m = kgpu.alloc {mbarrier} : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
      kgpu.await %m : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "the slot", [MemRead<Kgpu_SharedMemory>, MemWrite<Kgpu_SharedMemory>]>:$mem);
  let assemblyFormat = "$mem attr-dict `:` type($mem)";
  let hasVerifier = 1;
}

def Kgpu_ClusterWaitOp : Kgpu_Op<"cluster_wait", [MemoryEffects<[MemRead<Tile_Order>, MemWrite<Tile_Order>]>]> {
  let summary = "second half of a barrier of the cluster";
  let description = [{
    Waits until every thread of the cluster has arrived; what they did before arriving is visible after it.

    ```mlir
    func.func @cluster_wait() {
      kgpu.cluster_arrive
      kgpu.cluster_wait
      return
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===-- Parts of reductions -------------------------------------------------------------------------------------------===//

def Kgpu_PartialReduceOp : Kgpu_Op<"partial_reduce", [Pure, SameOperandsShape, SingleBlock]> {
  let summary = "what each warp can combine by itself along a dimension";
  let description = [{
    As `tile.reduce`, but each warp combines only its own elements along the axis. The axis of the result has one
    element for each distinct position along the axis that a warp, group or cta of the operand's layout holds, in the
    order of the axis. The result's layout is the operand's with only those coordinates along the axis: registers along
    it are gone and lanes along it replicate. Combining the result along the axis gives the reduction.

    A warp's elements may lie in several pieces along the axis, with elements of other warps between them; then the
    region has to be commutative. Where it is not known to be, `ordered` keeps the pieces apart: registers that step
    over other warps' elements remain along the axis of the result.

    - `partial_reduce_c1`: the axis is one of the dimensions.
    - `partial_reduce_c2`: one result per operand, of its element type, shape and layout as above.
    - `partial_reduce_c3`: the region takes two scalars per operand: all elements of tuple a, then all of tuple b.
    - `partial_reduce_c4`: the region ends in `kgpu.yield` of one scalar per operand.
    - `partial_reduce_c5`: the layout's digits along the axis step along no other dimension.
    - `partial_reduce_c6`: nothing in the region touches memory.

    ```mlir
    func.func @partial_reduce(%x: tensor<512xf32, #layout.map<blocked [512] vector 4 warps 4>>) {
      %s = kgpu.partial_reduce(%x) axis 0 {
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        kgpu.yield %c : f32
      } : (tensor<512xf32, #layout.map<blocked [512] vector 4 warps 4>>)
        -> (tensor<4xf32, #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>>)
      return
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<Tile_NumberTile>, "tiles of one shape and layout">:$operands,
                       Arg<I32Attr, "the dimension that shrinks">:$axis,
                       Arg<UnitAttr, "keep the order of the axis">:$ordered);
  let results = (outs Res<Variadic<Tile_NumberTile>, "one per operand">:$results);
  let regions = (region SizedRegion<1>:$combine);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Kgpu_PartialScanOp : Kgpu_Op<"partial_scan", [Pure, SameOperandsShape, SingleBlock]> {
  let summary = "what each warp can scan by itself along a dimension";
  let description = [{
    As `tile.scan`, but over the segments of the axis that one warp holds alone. The results are the scanned tiles, one
    per operand, then the sums of the segments, as an ordered `kgpu.partial_reduce` of the operands would give them.

    - `partial_scan_c1`: the axis is one of the dimensions.
    - `partial_scan_c2`: two results per operand: one of its type, then (after all of those) its sums.
    - `partial_scan_c3`: the region takes two scalars per operand: all elements of tuple a, then all of tuple b.
    - `partial_scan_c4`: the region ends in `kgpu.yield` of one scalar per operand.
    - `partial_scan_c5`: along the axis the layout has registers, then lanes, then registers and warps, by digits that
      step along no other dimension.
    - `partial_scan_c6`: nothing in the region touches memory.

    ```mlir
    func.func @partial_scan(%x: tensor<512xi32, #layout.map<blocked [512] vector 4 warps 4>>) {
      %y, %s = kgpu.partial_scan(%x) axis 0 {
      ^bb0(%a: i32, %b: i32):
        %c = arith.addi %a, %b : i32
        kgpu.yield %c : i32
      } : (tensor<512xi32, #layout.map<blocked [512] vector 4 warps 4>>)
        -> (tensor<512xi32, #layout.map<blocked [512] vector 4 warps 4>>,
            tensor<4xi32, #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>>)
      return
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<Tile_NumberTile>, "tiles of one shape and layout">:$operands,
                       Arg<I32Attr, "the dimension that is scanned">:$axis,
                       Arg<UnitAttr, "run from the last element to the first">:$reverse);
  let results = (outs Res<Variadic<Tile_NumberTile>, "scanned tiles, then sums">:$results);
  let regions = (region SizedRegion<1>:$combine);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Kgpu_AddPrefixOp : Kgpu_Op<"add_prefix", [Pure, SingleBlock]> {
  let summary = "combine each element with the scan of all segments before its own";
  let description = [{
    The operands are the scanned tiles of a `kgpu.partial_scan` and, in the same order, the scan of its sums. Each
    element becomes the combination of the scan at the preceding segment with the element; the first segment stays as it
    is.

    - `add_prefix_c1`: one tile of scanned sums per scanned tile, and one result per scanned tile, of its type.
    - `add_prefix_c2`: the axis is one of the dimensions.
    - `add_prefix_c3`: every warp holds the sums, one element per segment, along the axis in lanes, then registers.
    - `add_prefix_c4`: the region takes two scalars per scanned tile: all elements of tuple a, then all of tuple b.
    - `add_prefix_c5`: the region ends in `kgpu.yield` of one scalar per scanned tile.
    - `add_prefix_c6`: nothing in the region touches memory.

    ```mlir
    func.func @add_prefix(%y: tensor<512xi32, #layout.map<blocked [512] vector 4 warps 4>>,
                          %p: tensor<4xi32, #layout.map<blocked [4] vector 1 warps 4>>) {
      %z = kgpu.add_prefix(%y, %p) axis 0 {
      ^bb0(%a: i32, %b: i32):
        %c = arith.addi %a, %b : i32
        kgpu.yield %c : i32
      } : (tensor<512xi32, #layout.map<blocked [512] vector 4 warps 4>>,
           tensor<4xi32, #layout.map<blocked [4] vector 1 warps 4>>)
        -> tensor<512xi32, #layout.map<blocked [512] vector 4 warps 4>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<Tile_NumberTile>, "scanned tiles, then scanned sums">:$operands,
                       Arg<I32Attr, "the dimension that was scanned">:$axis,
                       Arg<UnitAttr, "it was scanned from the last element to the first">:$reverse);
  let results = (outs Res<Variadic<Tile_NumberTile>, "one per scanned tile">:$results);
  let regions = (region SizedRegion<1>:$combine);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Kgpu_YieldOp : Kgpu_Op<"yield", [Pure, Terminator, ReturnLike,
                                     ParentOneOf<["PartialReduceOp", "PartialScanOp", "AddPrefixOp"]>]> {
  let summary = "results of a combine region";
  let description = [{
    Ends the region of a kgpu op; that op states what it has to yield.

    - `yield_c1`: the parent is one of those ops.

    ```mlir
    func.func @yield(%x: tensor<512xi32, #layout.map<blocked [512] vector 4 warps 4>>) {
      %s = kgpu.partial_reduce(%x) axis 0 {
      ^bb0(%a: i32, %b: i32):
        %c = arith.maxsi %a, %b : i32
        kgpu.yield %c : i32
      } : (tensor<512xi32, #layout.map<blocked [512] vector 4 warps 4>>)
        -> (tensor<4xi32, #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>>)
      return
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<AnyType>, "the results">:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{}]>];
}

//===-- Order and products --------------------------------------------------------------------------------------------===//

def Kgpu_CompareOp : Kgpu_Op<"compare", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "steps of a sorting network along the last dimension";
  let description = [{
    Runs the network's steps for each stride from `from` down to `to`, halving it each time. A step compares the
    elements at i and i + stride, for all i without the bit `stride`: the smaller goes to i and the larger to i +
    stride, or, where i has the bit `run`, the other way round; `descending` swaps the two cases. Integers are signed
    unless `isUnsigned`. Runs of 2, 4, ... up to the side, each with strides from half the run to 1, sort a row; when
    the run is the whole side, no position has its bit.

    - `compare_c1`: the last dimension is a power of two.
    - `compare_c2`: strides and run are powers of two, with 1 <= to <= from < run <= side.
    - `compare_c3`: the layout's digits along the last dimension step along it alone, each by a different distance, and
      those for the strides are digits of registers and lanes, so that no step leaves a warp.

    ```mlir
    func.func @compare(%x: tensor<64xi32, #layout.map<blocked [64] vector 2>>)
        -> tensor<64xi32, #layout.map<blocked [64] vector 2>> {
      %y = kgpu.compare %x from 4 to 1 run 8 : tensor<64xi32, #layout.map<blocked [64] vector 2>>
      return %y : tensor<64xi32, #layout.map<blocked [64] vector 2>>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_IntTile, "the rows">:$value, Arg<I32Attr, "the first stride">:$from,
                       Arg<I32Attr, "the last stride">:$to, Arg<I32Attr, "elements per run; the order alternates">:$run,
                       Arg<UnitAttr, "the larger first">:$descending,
                       Arg<UnitAttr, "compare as unsigned">:$isUnsigned);
  let results = (outs Res<Tile_IntTile, "the rows, nearer to sorted">:$result);
  let assemblyFormat = "$value `from` $from `to` $to `run` $run attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Kgpu_DotOp : Kgpu_Op<"dot", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "matrix product of tiles in shared memory, by each thread's multiply-adds";
  let description = [{
    As `tile.dot`, but the inputs are read from shared memory as the product is computed: each thread has the
    accumulators that its layout assigns to it, and reads the rows and columns that they need. Inputs are widened to the
    accumulator's type, or to f32 if that is f16; the sum is then rounded once, at the end.

    - `dot_c1`: all have rank 2, or all have rank 3.
    - `dot_c2`: M, N, K and batch sides agree.
    - `dot_c3`: inputs are floats no wider than a float accumulator, or integers no wider than an integer one.
    - `dot_c4`: each cta holds both inputs whole.

    ```mlir
    func.func @dot(%c: tensor<16x32xf32, #layout.map<blocked [16, 32] vector 4 warps 4>>)
        -> tensor<16x32xf32, #layout.map<blocked [16, 32] vector 4 warps 4>> {
      %a = kgpu.alloc : !kgpu.mem<16x8xf16, #layout.map<row_major [16, 8] order [0, 1]>>
      %b = kgpu.alloc : !kgpu.mem<8x32xf16, #layout.map<row_major [8, 32]>>
      %d = kgpu.dot %a, %b, %c : !kgpu.mem<16x8xf16, #layout.map<row_major [16, 8] order [0, 1]>>,
        !kgpu.mem<8x32xf16, #layout.map<row_major [8, 32]>>
        -> tensor<16x32xf32, #layout.map<blocked [16, 32] vector 4 warps 4>>
      return %d : tensor<16x32xf32, #layout.map<blocked [16, 32] vector 4 warps 4>>
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "M by K", [MemRead<Kgpu_SharedMemory>]>:$lhs,
                       Arg<Kgpu_MemType, "K by N", [MemRead<Kgpu_SharedMemory>]>:$rhs,
                       Arg<Tile_NumberTile, "M by N">:$acc);
  let results = (outs Res<Tile_NumberTile, "M by N">:$result);
  let assemblyFormat = "$lhs `,` $rhs `,` $acc attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KILN_KGPU_OPS_TD
