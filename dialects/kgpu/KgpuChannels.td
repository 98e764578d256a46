// How elements arrive: channels (rings of slots in shared memory), the copies that fill them, and the roles that stand at
// their ends. DESIGN: a channel is acquired, filled and committed by a producer, received, read and released by a consumer.
#ifndef KILN_KGPU_CHANNELS_TD
#define KILN_KGPU_CHANNELS_TD

include "KgpuBase.td"

//===-- Channels ------------------------------------------------------------------------------------------------------===//

def Kgpu_Completion : I32EnumAttr<"Completion", "how a slot is known to be full", [
    I32EnumAttrCase<"Bytes", 0, "bytes">, I32EnumAttrCase<"Threads", 1, "threads">,
    I32EnumAttrCase<"Groups", 2, "groups">]> {
  let cppNamespace = "::kiln::kgpu";
  let genSpecializedAttr = 0;
}
def Kgpu_CompletionAttr : EnumAttr<Kgpu_Dialect, Kgpu_Completion, "completion"> {
  let assemblyFormat = "$value";
}

/// What is kept in the cache that all ctas share, by the numbers of `tile.load`'s hint (Tile_Eviction).
def Kgpu_EvictionAttr : ConfinedAttr<I32Attr, [IntMinValue<0>, IntMaxValue<2>]>;

def Kgpu_ChannelOp : Kgpu_EarlyOp<"channel"> {
  let summary = "a ring of slots between a producer and a consumer";
  let description = [{
    Shared memory for the slots and, behind them, what orders them: per slot a barrier that is full when everything that was
    committed has come, and one that is empty when every reader has released it. Contents undefined. Alive as long as the
    kernel runs; stands in the kernel's body, outside of roles.

    `completion` says how a slot gets full: by `bytes` that copies announce (tensor maps), by `threads` of the producer that
    have stored and arrived, or by `groups` of copies that the consumer's own threads have issued (one role; no barriers in
    memory: each thread waits for its own copies, then at a barrier of the role).

    `fillers` warps commit a slot (1 where copies announce bytes), `readers` warps of each cta release it: those of all roles
    that receive from the channel, or, where these take turns, so that each slot is read by one of them, of that one. In a cluster a
    part that every cta has whole is filled by all ctas together, each sending its share to all; such a slot is empty when
    the readers of all ctas have released it.

    - `channel_c1`: `offset` is at least 0 and a multiple of 1024.
    - `channel_c2`: at least one filler and one reader.
    - `channel_c3`: stands in the function's body.

    ```mlir
    func.func @channel() {
      %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_CompletionAttr, "how a slot is known to be full">:$completion,
                       Arg<I32Attr, "warps that commit a slot">:$fillers,
                       Arg<I32Attr, "warps of each cta that release a slot">:$readers,
                       Arg<OptionalAttr<I64Attr>, "bytes from the start of shared memory, once planned">:$offset);
  let results = (outs Res<Kgpu_ChannelType, "the ring", [MemAlloc<Kgpu_SharedMemory>]>:$channel);
  let assemblyFormat = "$completion `fillers` $fillers `readers` $readers attr-dict `:` type($channel)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes from one slot to the next: parts one behind the other, each at a multiple of 1024.
    int64_t getSlotStride();
    /// Where part `index` lies in a slot.
    int64_t getPartOffset(unsigned index);
    /// From the start of the channel: the full barrier of slot `slot`; the empty one lies 8 bytes behind it.
    int64_t getBarrierOffset(int64_t slot);
    /// All of it: slots, then 16 bytes of barriers for each.
    int64_t getBytes();
    /// Arrivals that make a slot empty: the readers of each cta, of all ctas where a part is shared by them.
    int64_t getReleases(int64_t clusterSize);
    /// Some part is whole in each of several ctas: copies into it reach all of them.
    bool isMulticast();
  }];
}

def Kgpu_CursorOp : Kgpu_EarlyOp<"cursor", [Pure]> {
  let summary = "the first place in a ring";
  let description = [{
    Slot 0, first time around. A producer and each consumer go around with a cursor of their own, from here, in step.

    ```mlir
    func.func @cursor() -> !kgpu.cursor<4> {
      %p = kgpu.cursor : !kgpu.cursor<4>
      %q = kgpu.advance %p : !kgpu.cursor<4>
      return %q : !kgpu.cursor<4>
    }
    ```
  }];
  let results = (outs Res<Kgpu_CursorType, "slot 0">:$cursor);
  let assemblyFormat = "attr-dict `:` type($cursor)";
}

def Kgpu_AdvanceOp : Kgpu_EarlyOp<"advance", [Pure, AllTypesMatch<["cursor", "result"]>]> {
  let summary = "the next place in a ring";
  let description = [{
    The next slot; after the last the first again, with the other parity.

    ```mlir
    func.func @advance(%p: !kgpu.cursor<4>) -> !kgpu.cursor<4> {
      %q = kgpu.advance %p : !kgpu.cursor<4>
      return %q : !kgpu.cursor<4>
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_CursorType, "a place">:$cursor);
  let results = (outs Res<Kgpu_CursorType, "the next">:$result);
  let assemblyFormat = "$cursor attr-dict `:` type($cursor)";
}

def Kgpu_SkipOp : Kgpu_EarlyOp<"skip", [Pure, AllTypesMatch<["cursor", "result"]>,
                                        AllTypesMatch<["lowerBound", "upperBound", "step"]>]> {
  let summary = "the place behind a loop that others run";
  let description = [{
    Where a loop over these bounds leaves the cursor that each of its iterations advances by one. A consumer that takes turns
    with others goes past the slots that they read so.

    ```mlir
    func.func @skip(%p: !kgpu.cursor<4>, %n: i32) -> !kgpu.cursor<4> {
      %c0 = arith.constant 0 : i32
      %c64 = arith.constant 64 : i32
      %q = kgpu.skip %p for %c0 to %n step %c64 : !kgpu.cursor<4>, i32
      return %q : !kgpu.cursor<4>
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_CursorType, "a place">:$cursor, Arg<AnySignlessInteger, "of the loop">:$lowerBound,
                       Arg<AnySignlessInteger, "of the loop">:$upperBound, Arg<AnySignlessInteger, "of the loop">:$step);
  let results = (outs Res<Kgpu_CursorType, "the place behind">:$result);
  let assemblyFormat = [{
    $cursor `for` $lowerBound `to` $upperBound `step` $step attr-dict `:` type($cursor) `,` type($step)
  }];
}

/// An op on one slot: the cursor goes around as many slots as the channel has.
class Kgpu_ChannelStep<string mnemonic, list<Trait> traits = []> : Kgpu_EarlyOp<mnemonic, traits # [
    TypesMatchWith<"the cursor has as many slots as the channel", "channel", "cursor",
                   "CursorType::get($_self.getContext(), ::mlir::cast<ChannelType>($_self).getSlots())">]> {
  let hasVerifier = 1;
}

def Kgpu_AcquireOp : Kgpu_ChannelStep<"acquire"> {
  let summary = "wait until a slot may be filled";
  let description = [{
    Waits until every reader has released what this slot held one round before (the first round waits for nothing), and gives
    the slot's parts. Every thread of the role waits.

    - `acquire_c1`: the cursor has as many slots as the channel.
    - `acquire_c2`: the results are the channel's parts.

    ```mlir
    func.func @acquire(%p: !kgpu.cursor<2>) {
      %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      %m = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
        -> !kgpu.mem<32xf32, #layout.map<row_major [32]>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_ChannelType, "the ring",
                           [MemRead<Kgpu_Asynchrony>, MemWrite<Kgpu_Asynchrony>]>:$channel,
                       Arg<Kgpu_CursorType, "which slot">:$cursor);
  let results = (outs Res<Variadic<Kgpu_MemType>, "its parts, to be written">:$parts);
  let assemblyFormat = "$channel `[` $cursor `]` attr-dict `:` type($channel) (`->` type($parts)^)?";
}

def Kgpu_CommitOp : Kgpu_ChannelStep<"commit"> {
  let summary = "what fills a slot is on its way";
  let description = [{
    Everything that fills the slot this round stands before this op. Where copies announce `bytes`, one thread arrives and
    says how many are to come to this cta; where `threads` fill, each warp arrives once its stores are done; `groups` closes
    the group of copies that each thread has issued, which may be none: then the slot is to be received, but not read.

    - `commit_c1`: the cursor has as many slots as the channel.

    ```mlir
    func.func @commit(%p: !kgpu.cursor<2>) {
      %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      kgpu.commit %c[%p] : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_ChannelType, "the ring", [MemWrite<Kgpu_Asynchrony>]>:$channel,
                       Arg<Kgpu_CursorType, "which slot">:$cursor);
  let assemblyFormat = "$channel `[` $cursor `]` attr-dict `:` type($channel)";
  let hasVerifier = 0;
}

def Kgpu_ReceiveOp : Kgpu_ChannelStep<"receive"> {
  let summary = "wait until a slot is full";
  let description = [{
    Waits until everything committed to the slot this round has come, and gives its parts. Every thread of the role waits.
    Of a channel that completes by `groups`, each thread waits until at most its last `pending` groups are under way, of
    whatever channel; behind a barrier of the role products then see what was copied.

    - `receive_c1`: the cursor has as many slots as the channel.
    - `receive_c2`: the results are the channel's parts.
    - `receive_c3`: `pending` is at least 0, and 0 unless the channel completes by groups.

    ```mlir
    func.func @receive(%p: !kgpu.cursor<2>) {
      %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      %m = kgpu.receive %c[%p] : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
        -> !kgpu.mem<32xf32, #layout.map<row_major [32]>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_ChannelType, "the ring",
                           [MemRead<Kgpu_Asynchrony>, MemWrite<Kgpu_Asynchrony>]>:$channel,
                       Arg<Kgpu_CursorType, "which slot">:$cursor,
                       Arg<DefaultValuedAttr<I32Attr, "0">, "groups that may be under way">:$pending);
  let results = (outs Res<Variadic<Kgpu_MemType>, "its parts, to be read">:$parts);
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$parts, "::mlir::Value":$channel, "::mlir::Value":$cursor), [{
    build($_builder, $_state, parts, channel, cursor, /*pending=*/0);
  }]>];
  let assemblyFormat = "$channel `[` $cursor `]` (`pending` $pending^)? attr-dict `:` type($channel) (`->` type($parts)^)?";
}

def Kgpu_ReleaseOp : Kgpu_ChannelStep<"release"> {
  let summary = "a slot has been read";
  let description = [{
    Each warp of the role says that it reads nothing of the slot's content any more: its loads are done, and products that
    read the slot have been waited for. With `when` false, nothing: a consumer that is a step behind has nothing to release
    in its first.

    - `release_c1`: the cursor has as many slots as the channel.

    ```mlir
    func.func @release(%p: !kgpu.cursor<2>, %second: i1) {
      %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      kgpu.release %c[%p] : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      kgpu.release %c[%p] when %second : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_ChannelType, "the ring", [MemWrite<Kgpu_Asynchrony>]>:$channel,
                       Arg<Kgpu_CursorType, "which slot">:$cursor,
                       Arg<Optional<I1>, "whether at all">:$when);
  let assemblyFormat = "$channel `[` $cursor `]` (`when` $when^)? attr-dict `:` type($channel)";
  let hasVerifier = 0;
}

//===-- Copies --------------------------------------------------------------------------------------------------------===//

def Kgpu_TensorMapOp : Kgpu_EarlyOp<"tensor_map", [Pure]> {
  let summary = "a described array as the copy engine sees it";
  let description = [{
    Boxes of `box` elements of the array (one number per dimension), whose rows are swizzled over `swizzle` bytes in shared
    memory (0: not). Derived by the launch from the arguments of the kernel, so the descriptor is made of nothing else.

    - `tensor_map_c1`: one extent of the box per dimension, each 1 to 256.
    - `tensor_map_c2`: the swizzle is 0, 32, 64 or 128; the box's last side takes a multiple of 16 bytes, and no more than the
      swizzle where that is not 0.
    - `tensor_map_c3`: the descriptor is a `tile.make_desc` whose operands are arguments of the kernel, constants, or such
      integers extended.
    - `tensor_map_c4`: rank 1 to 5; the last stride is the constant 1.

    ```mlir
    func.func @tensor_map(%b: !tile.ptr<f16>, %m: i64, %n: i64, %s: i64) {
      %one = arith.constant 1 : i64
      %d = tile.make_desc %b, shape [%m, %n] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
      %t = kgpu.tensor_map %d box [128, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_DescType, "the array">:$desc, Arg<DenseI64ArrayAttr, "what one copy moves">:$box,
                       Arg<I32Attr, "bytes of a swizzled row; 0: none">:$swizzle);
  let results = (outs Res<Kgpu_TensorMapType, "its map">:$map);
  let assemblyFormat = "$desc `box` $box `swizzle` $swizzle attr-dict `:` type($desc)";
  let hasVerifier = 1;
}

def Kgpu_CopyInOp : Kgpu_ChannelStep<"copy_in"> {
  let summary = "the copy engine fills a part of a slot";
  let description = [{
    The block of the mapped array that starts at `offsets` goes to `mem`, zeros (or what the descriptor pads with) where it is
    outside the array; when it has come, its bytes are announced at the full barrier of that slot of the channel. One thread
    of the role issues as many copies as the block has boxes: panel by panel, or, where a box has fewer rows than it might,
    those of all panels before the next rows, so that longer pieces of a row are asked for at once.

    In a cluster, a part that is split over the ctas gets each cta's piece from that cta; a part that each cta has whole is
    cut into as many pieces as there are ctas, and each cta copies one of them to all.

    The array may have more dimensions than the memory: in front, where the box has sides of 1.

    - `copy_in_c1`: one offset per dimension of the box.
    - `copy_in_c2`: the memory is a part that `kgpu.acquire` of this channel and cursor gave.
    - `copy_in_c3`: the box, repeated, fills the memory of a cta as its layout says; it has sides of 1 in dimensions in front
      of the memory's.
    - `copy_in_c4`: the channel completes by bytes.

    ```mlir
    func.func @copy_in(%b: !tile.ptr<f16>, %m: i64, %s: i64, %p: !kgpu.cursor<2>, %i: i32) {
      %one = arith.constant 1 : i64
      %d = tile.make_desc %b, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
      %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
      %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
      %s0 = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
        -> !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
      kgpu.copy_in %t[%i, %i] to %s0 of %c[%p] : !kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>, !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_TensorMapType, "the array", [MemRead<Tile_GlobalMemory>]>:$map,
                       Arg<Variadic<I32>, "position of the block's first element">:$offsets,
                       Arg<Kgpu_MemType, "where it goes", [MemWrite<Kgpu_SharedMemory>]>:$mem,
                       Arg<Kgpu_ChannelType, "whose slot that is", [MemWrite<Kgpu_Asynchrony>]>:$channel,
                       Arg<Kgpu_CursorType, "which slot">:$cursor,
                       Arg<DefaultValuedAttr<Kgpu_EvictionAttr, "0">, "eviction hint">:$evict);
  let assemblyFormat = [{
    $map `[` $offsets `]` `to` $mem `of` $channel `[` $cursor `]` attr-dict `:` type($mem) `,` type($channel)
  }];
}

/// The threads of a role copy a tile to a part of a slot, each its share of it.
class Kgpu_ThreadsCopy<string mnemonic> : Kgpu_ChannelStep<mnemonic, [AttrSizedOperandSegments]>;

def Kgpu_CopyBlockOp : Kgpu_ThreadsCopy<"copy_block"> {
  let summary = "threads fill a part of a slot with a block of a described array";
  let description = [{
    As `tile.desc_load` reads it, zeros where it is outside the array, but past the registers: each thread copies some of
    it, as many bytes at once as addresses are multiples of (16, 8 or 4; less goes through a register after all). The
    copies are of the group that the thread has open, which the next `kgpu.commit` closes. With `when` false, nothing.

    - `copy_block_c1`: one offset per dimension of the block.
    - `copy_block_c2`: the memory is a part that `kgpu.acquire` of this channel and cursor gave.
    - `copy_block_c3`: the memory has the block's shape and elements.
    - `copy_block_c4`: the channel completes by groups.

    ```mlir
    func.func @copy_block(%d: !tile.desc<tensor<64x64xf16>>, %p: !kgpu.cursor<2>, %i: i32, %more: i1) {
      %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
      %s0 = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
        -> !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
      kgpu.copy_block %d[%i, %i] when %more to %s0 of %c[%p] : !tile.desc<tensor<64x64xf16>>, !kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>, !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_DescType, "the array", [MemRead<Tile_GlobalMemory>]>:$desc,
                       Arg<Variadic<I32>, "position of the block's first element">:$offsets,
                       Arg<Optional<I1>, "whether at all">:$when,
                       Arg<Kgpu_MemType, "where it goes", [MemWrite<Kgpu_SharedMemory>]>:$mem,
                       Arg<Kgpu_ChannelType, "whose slot that is", [MemWrite<Kgpu_Asynchrony>]>:$channel,
                       Arg<Kgpu_CursorType, "which slot">:$cursor,
                       Arg<OptionalAttr<DenseI32ArrayAttr>, "dimensions to check; absent: all">:$boundary,
                       Arg<DefaultValuedAttr<Kgpu_EvictionAttr, "0">, "eviction hint">:$evict);
  let assemblyFormat = [{
    $desc `[` $offsets `]` (`when` $when^)? `to` $mem `of` $channel `[` $cursor `]` attr-dict
    `:` type($desc) `,` type($mem) `,` type($channel)
  }];
}

def Kgpu_CopyTileOp : Kgpu_ThreadsCopy<"copy_tile"> {
  let summary = "threads fill a part of a slot with what a tile of pointers points to";
  let description = [{
    As `tile.load` reads it, zeros where the mask is false, but past the registers, as `kgpu.copy_block` does: each thread
    copies what its pointers point to, several elements at once where they lie side by side.

    - `copy_tile_c1`: the mask has the pointers' shape.
    - `copy_tile_c2`: the memory is a part that `kgpu.acquire` of this channel and cursor gave.
    - `copy_tile_c3`: the memory has the pointers' shape and the elements they point to.
    - `copy_tile_c4`: the channel completes by groups.

    ```mlir
    func.func @copy_tile(%x: tensor<64x64x!tile.ptr<f16>>, %inside: tensor<64x64xi1>, %p: !kgpu.cursor<2>) {
      %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
      %s0 = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
        -> !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
      kgpu.copy_tile %x mask %inside to %s0 of %c[%p] : tensor<64x64x!tile.ptr<f16>> mask tensor<64x64xi1>,
        !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>, !kgpu.channel<2 x (!kgpu.mem<64x64xf16,
        #layout.map<swizzled [64, 64] element 2 bytes 128>>)>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrLike, "addresses", [MemRead<Tile_GlobalMemory>]>:$ptr,
                       Arg<Optional<Tile_MaskLike>, "which elements are read">:$mask,
                       Arg<Optional<I1>, "whether at all">:$when,
                       Arg<Kgpu_MemType, "where it goes", [MemWrite<Kgpu_SharedMemory>]>:$mem,
                       Arg<Kgpu_ChannelType, "whose slot that is", [MemWrite<Kgpu_Asynchrony>]>:$channel,
                       Arg<Kgpu_CursorType, "which slot">:$cursor,
                       Arg<DefaultValuedAttr<Kgpu_EvictionAttr, "0">, "eviction hint">:$evict);
  let assemblyFormat = [{
    $ptr (`mask` $mask^)? (`when` $when^)? `to` $mem `of` $channel `[` $cursor `]` attr-dict
    `:` type($ptr) (`mask` type($mask)^)? `,` type($mem) `,` type($channel)
  }];
}

def Kgpu_PrefetchOp : Kgpu_EarlyOp<"prefetch", [MemoryEffects<[MemRead<Tile_Order>, MemWrite<Tile_Order>]>]> {
  let summary = "bring a block of a mapped array near";
  let description = [{
    The block that a `kgpu.copy_in` of these offsets to memory of this type copies goes to the cache that all ctas share; in
    a cluster each cta asks for what it would copy. One thread of the role asks, and nobody waits for it.

    It reads nothing as far as the program can tell: what is written meanwhile is there afterwards. So it may stand before
    the launch ahead of this one has been waited for, whatever that one writes.

    - `prefetch_c1`: one offset per dimension of the box.
    - `prefetch_c2`: the box, repeated, fills such memory of a cta, as for `kgpu.copy_in`.

    ```mlir
    func.func @prefetch(%b: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32) {
      %one = arith.constant 1 : i64
      %d = tile.make_desc %b, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
      %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
      kgpu.prefetch %t[%i, %i] as !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_TensorMapType, "the array">:$map,
                       Arg<Variadic<I32>, "position of the block's first element">:$offsets,
                       Arg<TypeAttrOf<Kgpu_MemType>, "what it would fill">:$memory);
  let assemblyFormat = "$map `[` $offsets `]` `as` $memory attr-dict";
  let hasVerifier = 1;
}

def Kgpu_CopyOutOp : Kgpu_EarlyOp<"copy_out"> {
  let summary = "the copy engine writes a block to global memory";
  let description = [{
    The tile in `mem` goes to the block of the mapped array that starts at `offsets`; what is outside the array is not written.
    One thread of the role issues the copies and closes their group. The memory is read until `kgpu.copy_out_wait`. What
    threads stored there is seen only behind a `kgpu.fence_async` of theirs and a barrier. In a cluster each cta writes its
    own piece. The array may have more dimensions in front, as for `kgpu.copy_in`.

    With a `kind` the engine combines the tile with what is in the array, each element in one indivisible step that is
    relaxed for all threads of the device.

    With `by_group` one thread of each group of the role issues the copies of that group's rows and closes their group: of a
    cta's rows the first group has the first ones. So who waits is another thread in each group.

    - `copy_out_c1`: one offset per dimension of the box.
    - `copy_out_c2`: the box, repeated, fills the memory of a cta as its layout says; it has sides of 1 in dimensions in front
      of the memory's.
    - `copy_out_c3`: fadd takes f16, bf16 or f32; add, umax, umin, and, or, xor i32 (the engine knows i32 as unsigned); there
      is no other.
    - `copy_out_c4`: by group, it stands in a role, and the rows of a matrix part into whole boxes for each of its groups.

    ```mlir
    func.func @copy_out(%b: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32) {
      %one = arith.constant 1 : i64
      %d = tile.make_desc %b, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
      %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
      %c = kgpu.alloc : !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
      kgpu.fence_async
      kgpu.copy_out %c to %t[%i, %i] : !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
      kgpu.copy_out_wait read 0
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_MemType, "what is written", [MemRead<Kgpu_SharedMemory>]>:$mem,
                       Arg<Kgpu_TensorMapType, "the array", [MemWrite<Tile_GlobalMemory>]>:$map,
                       Arg<Variadic<I32>, "position of the block's first element">:$offsets,
                       Arg<OptionalAttr<StrAttr>, "how it combines with what is there, a kind of tile.atomic_rmw">:$kind,
                       Arg<UnitAttr, "each group's rows by a thread of its own">:$by_group);
  let builders = [OpBuilder<(ins "::mlir::Value":$mem, "::mlir::Value":$map, "::mlir::ValueRange":$offsets,
                                 "::mlir::StringAttr":$kind), [{
    build($_builder, $_state, mem, map, offsets, kind, /*by_group=*/false);
  }]>];
  let assemblyFormat = "$mem (`by` $kind^)? `to` $map `[` $offsets `]` (`by_group` $by_group^)? attr-dict `:` type($mem)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the engine combines elements of this type so.
    static bool canReduce(::kiln::tile::RMWKind kind, ::mlir::Type element);
    /// How it combines with what is there; nothing: it takes its place.
    std::optional<::kiln::tile::RMWKind> reduction();
    /// Rows of a cta that a thread copies: those of its group; 0 where one thread copies all.
    int64_t rowsOfGroup();
  }];
}

def Kgpu_CopyOutWaitOp : Kgpu_EarlyOp<"copy_out_wait",
    [MemoryEffects<[MemRead<Kgpu_Asynchrony>, MemWrite<Kgpu_Asynchrony>]>]> {
  let summary = "wait for copies to global memory";
  let description = [{
    The thread that issued them waits until all but the last `pending` groups of copies are done, or, with `read`, until
    their shared memory has been read. Other threads of the role know of it only behind a barrier.

    - `copy_out_wait_c1`: at least 0 groups.

    ```mlir
    func.func @copy_out_wait() {
      kgpu.copy_out_wait read 1
      kgpu.copy_out_wait 0
      return
    }
    ```
  }];
  let arguments = (ins Arg<UnitAttr, "until the memory has been read">:$read,
                       Arg<I32Attr, "groups that may be under way">:$pending);
  let assemblyFormat = "(`read` $read^)? $pending attr-dict";
  let hasVerifier = 1;
}

def Kgpu_FenceAsyncOp : Kgpu_EarlyOp<"fence_async", [MemoryEffects<[MemRead<Kgpu_SharedMemory>,
                                                                    MemWrite<Kgpu_SharedMemory>]>]> {
  let summary = "what this thread did to shared memory is seen by the copy engine and by products";
  let description = [{
    Threads reach shared memory one way, the copy engine and tensor cores another. What a thread has stored is ordered before
    what they do behind a later barrier only with this in between. (What it has read is not: a load that has its value is
    not touched by what overwrites its place.)

    ```mlir
    func.func @fence_async() {
      kgpu.fence_async
      return
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===-- Roles ---------------------------------------------------------------------------------------------------------===//

def Kgpu_RolesOp : Kgpu_EarlyOp<"roles", [NoRegionArguments, RecursiveMemoryEffects]> {
  let summary = "different warps do different things";
  let description = [{
    The threads of the cta part: each region is run by warps of its own, all at once; they wait for each other behind the op.
    Role r has `groups[r]` groups of `warps[r]` warps, on warps behind those of the roles before it. What is said elsewhere of
    the threads of the kernel (layouts, barriers, the first thread, what every thread does) is said of the role's threads
    inside of it.

    `registers[r]`, if there, is how many registers each thread of the role has (0: as launched). Then roles start at
    multiples of four warps, as does one of four warps or more in any case; warps that fill up the four before it do
    nothing.

    Roles use scalars, maps, channels and memory from outside; no tile crosses: only channels carry those.

    - `roles_c1`: one name, number of warps, of groups and of registers for each region, of which there is one at least.
    - `roles_c2`: warps are a power of two, groups at least one.
    - `roles_c3`: registers are 0, or 24 to 240 and a multiple of 8.
    - `roles_c4`: no tensor from outside is used inside.
    - `roles_c5`: stands in the function's body; there is one at most.

    ```mlir
    func.func @roles(%n: i32) {
      kgpu.roles @load warps 1 registers 24 {
        kgpu.end_role
      } @multiply groups 2 warps 4 registers 240 {
        kgpu.end_role
      }
      return
    }
    ```
  }];
  let arguments = (ins Arg<StrArrayAttr, "what each is called">:$names,
                       Arg<DenseI32ArrayAttr, "warps of a group">:$warps,
                       Arg<DenseI32ArrayAttr, "groups">:$groups,
                       Arg<DenseI32ArrayAttr, "registers of a thread; 0: as launched">:$registers);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    unsigned size() { return getNames().size(); }
    /// Warps of a role, of all its groups.
    int32_t warpsOf(unsigned role) { return getWarps()[role] * getGroups()[role]; }
    /// The first warp of the cta that runs a role.
    int32_t firstWarp(unsigned role);
    /// Warps of the cta, filling included.
    int32_t totalWarps();
    /// Warps filling included that one role takes.
    int32_t paddedWarps(unsigned role);
  }];
}

def Kgpu_EndRoleOp : Kgpu_EarlyOp<"end_role", [Pure, Terminator, ReturnLike, HasParent<"RolesOp">]> {
  let summary = "the end of a role";
  let description = [{
    ```mlir
    func.func @end_role() {
      kgpu.roles @load warps 1 {
        kgpu.end_role
      }
      return
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===-- Persistent programs -------------------------------------------------------------------------------------------===//

def Kgpu_FirstProgramOp : Kgpu_EarlyOp<"first_program", [Pure]> {
  let summary = "the first program instance that this block runs";
  let description = [{
    In a kernel marked `kgpu.persistent` a block (a cluster) runs instances first_program, first_program + program_step, ...
    below the number of programs of the launch, which are counted x fastest. The launch starts as many blocks as are
    resident at once, or fewer.

    ```mlir
    func.func @first_program() -> i32 {
      %p = kgpu.first_program : i32
      return %p : i32
    }
    ```
  }];
  let results = (outs Res<I32, "its number">:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Kgpu_ProgramStepOp : Kgpu_EarlyOp<"program_step", [Pure]> {
  let summary = "how far the program instances of one block are apart";
  let description = [{
    The number of blocks (of clusters) of the launch. See `kgpu.first_program`.

    ```mlir
    func.func @program_step() -> i32 {
      %p = kgpu.program_step : i32
      return %p : i32
    }
    ```
  }];
  let results = (outs Res<I32, "blocks of the launch">:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

#endif // KILN_KGPU_CHANNELS_TD
