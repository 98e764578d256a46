// How elements arrive in shared memory: channels (rings of slots), the copies that fill them, and the roles at their
// ends. A producer acquires, fills and commits a slot; a consumer receives, reads and releases it.
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

/// Eviction priorities of the L2, numbered as the hint of `tile.load` (Tile_Eviction).
def Kgpu_EvictionAttr : ConfinedAttr<I32Attr, [IntMinValue<0>, IntMaxValue<2>]>;

def Kgpu_ChannelOp : Kgpu_EarlyOp<"channel"> {
  let summary = "a ring of slots between a producer and a consumer";
  let description = [{
    Shared memory for the slots, followed by their barriers: each slot has one that is full when everything that was
    committed has arrived, and one that is empty when every reader has released the slot. Contents are undefined. The
    channel lives as long as the kernel runs; it stands in the kernel's body, outside of roles.

    `completion` says when a slot is full: when the `bytes` that copies announce have arrived (tensor maps); when the
    `threads` of the producer have stored and arrived (a role may be its own consumer: each of its groups of warps stores
    a part of a slot, and all read all of it); or when `groups` of copies that the consumer's own threads have issued are
    complete (one role, no barriers in memory: each thread waits for its own copies, then at a barrier of the role).

    `fillers` warps commit a slot (1 where copies announce bytes). `readers` warps of each cta release it: the warps of
    all roles that receive from the channel, or, where these take turns so that only one of them reads each slot, the
    warps of that one. In a cluster, all ctas together fill a part that every cta has whole, each sending its share to
    all; such a slot is empty when the readers of all ctas have released it.

    `warps_apart` is a wish that layouts try to fulfil: that each warp copies what it reads itself. Whether it has come
    true, the channel's receives say (`by_warp`).

    - `channel_c1`: `offset` is at least 0 and a multiple of 1024, or of 16 if slots have no parts.
    - `channel_c2`: at least one filler and one reader.
    - `channel_c3`: stands in the function's body.
    - `channel_c4`: `warps_apart` only where the channel completes by groups.

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
                       Arg<OptionalAttr<I64Attr>, "bytes from the start of shared memory, once planned">:$offset,
                       Arg<UnitAttr, "each warp should copy what it reads">:$warps_apart);
  let results = (outs Res<Kgpu_ChannelType, "the ring", [MemAlloc<Kgpu_SharedMemory>]>:$channel);
  let assemblyFormat = [{
    $completion (`warps_apart` $warps_apart^)? `fillers` $fillers `readers` $readers attr-dict `:` type($channel)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes from one slot to the next: parts follow each other, each at a multiple of 1024.
    int64_t getSlotStride();
    /// Where part `index` lies in a slot.
    int64_t getPartOffset(unsigned index);
    /// The full barrier of slot `slot`, in bytes from the start of the channel; the empty one lies 8 bytes after it.
    int64_t getBarrierOffset(int64_t slot);
    /// Bytes of the whole channel: the slots, then 16 bytes of barriers for each.
    int64_t getBytes();
    /// The alignment of its offset: the period of the swizzles, if it has parts.
    int64_t getAlignment();
    /// Arrivals that make a slot empty: the readers of this cta, or of all ctas where they share a part.
    int64_t getReleases(int64_t clusterSize);
    /// True when every one of several ctas has some part whole: copies into it reach all of them.
    bool isMulticast();
  }];
}

def Kgpu_CursorOp : Kgpu_EarlyOp<"cursor", [Pure]> {
  let summary = "the first place in a ring";
  let description = [{
    Slot 0 in the first round. The producer and each consumer start here, each with a cursor of its own, and stay in
    step.

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
    The next slot. After the last slot it is the first again, with the other parity.

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
  let summary = "the place after a loop that another consumer runs";
  let description = [{
    Where a cursor ends up after a loop over these bounds that advances it once per iteration. A consumer that takes
    turns with others uses it to pass the slots that they read.

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
  let results = (outs Res<Kgpu_CursorType, "the place after the loop">:$result);
  let assemblyFormat = [{
    $cursor `for` $lowerBound `to` $upperBound `step` $step attr-dict `:` type($cursor) `,` type($step)
  }];
}

/// An op on one slot: the cursor runs over as many slots as the channel has.
class Kgpu_ChannelStep<string mnemonic, list<Trait> traits = []> : Kgpu_EarlyOp<mnemonic, traits # [
    TypesMatchWith<"the cursor has as many slots as the channel", "channel", "cursor",
                   "CursorType::get($_self.getContext(), ::mlir::cast<ChannelType>($_self).getSlots())">]> {
  let hasVerifier = 1;
}

def Kgpu_AcquireOp : Kgpu_ChannelStep<"acquire"> {
  let summary = "wait until a slot may be filled";
  let description = [{
    Waits until every reader has released what this slot held one round before (in the first round it does not wait),
    and returns the slot's parts. Every thread of the role waits.

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
    Everything that fills the slot in this round stands before this op. If copies announce `bytes`, one thread arrives
    and announces how many will come to this cta. If `threads` fill the slot, each warp arrives once its stores are
    done. `groups` closes the group of copies that each thread has issued. That group may be empty: then the slot is
    received but must not be read.

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
    Waits until everything committed to the slot in this round has arrived, and returns its parts. Every thread of the
    role waits. If the channel completes by `groups`, each thread waits until at most its last `pending` groups are in
    flight, whichever channel they belong to; after a barrier of the role, products then see what was copied.

    `by_warp` says that each warp reads only what its own lanes have copied to the slot. Then no barrier of the role
    follows, but one of each warp alone: it also keeps a lane from filling a slot that another lane of its warp still
    reads. `kiln-wait-by-warp` sets this, and `kiln-verify-channels` proves it again.

    `again` returns the parts of a slot that the role has received and not released, and waits for nothing: in a loop
    that begins one step during the one before, an iteration takes over a slot this way. `again unless` a condition holds
    which makes it another slot: the wait is there in either case, and a slot that is held is full.

    - `receive_c1`: the cursor has as many slots as the channel.
    - `receive_c2`: the results are the channel's parts.
    - `receive_c3`: `pending` is at least 0, and 0 unless the channel completes by groups.
    - `receive_c4`: with `again` the channel does not complete by groups: those are received with a barrier of the role.
    - `receive_c5`: `by_warp` only if the channel completes by groups.
    - `receive_c6`: `unless` only with `again`.

    ```mlir
    func.func @receive(%p: !kgpu.cursor<2>, %other: i1) {
      %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      %m = kgpu.receive %c[%p] : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
        -> !kgpu.mem<32xf32, #layout.map<row_major [32]>>
      %n = kgpu.receive %c[%p] again : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
        -> !kgpu.mem<32xf32, #layout.map<row_major [32]>>
      %r = kgpu.receive %c[%p] again unless %other
        : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
        -> !kgpu.mem<32xf32, #layout.map<row_major [32]>>
      %g = kgpu.channel groups warps_apart fillers 4 readers 4
        : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
      %o = kgpu.receive %g[%p] pending 1 by_warp : !kgpu.channel<2 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>
        -> !kgpu.mem<32xf32, #layout.map<row_major [32]>>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Kgpu_ChannelType, "the ring",
                           [MemRead<Kgpu_Asynchrony>, MemWrite<Kgpu_Asynchrony>]>:$channel,
                       Arg<Kgpu_CursorType, "which slot">:$cursor,
                       Arg<DefaultValuedAttr<I32Attr, "0">, "groups that may be in flight">:$pending,
                       Arg<UnitAttr, "the role holds the slot already">:$again,
                       Arg<Optional<I1>, "whether it is another slot after all">:$unless,
                       Arg<UnitAttr, "each warp reads only what it has copied">:$by_warp);
  let results = (outs Res<Variadic<Kgpu_MemType>, "its parts, to be read">:$parts);
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$parts, "::mlir::Value":$channel, "::mlir::Value":$cursor,
                                 CArg<"uint32_t", "0">:$pending), [{
    build($_builder, $_state, parts, channel, cursor, pending, /*again=*/false, /*unless=*/::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $channel `[` $cursor `]` (`pending` $pending^)? (`again` $again^)? (`unless` $unless^)? (`by_warp` $by_warp^)?
    attr-dict
    `:` type($channel) (`->` type($parts)^)?
  }];
}

def Kgpu_ReleaseOp : Kgpu_ChannelStep<"release"> {
  let summary = "a slot has been read";
  let description = [{
    Each warp of the role signals that it will not read the slot's contents any more: its loads are done, and products
    that read the slot have been waited for. With `when` false it does nothing: a consumer that runs one step behind has
    nothing to release in its first step.

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
                       Arg<Optional<I1>, "false: do nothing">:$when);
  let assemblyFormat = "$channel `[` $cursor `]` (`when` $when^)? attr-dict `:` type($channel)";
  let hasVerifier = 0;
}

//===-- Copies --------------------------------------------------------------------------------------------------------===//

def Kgpu_TensorMapOp : Kgpu_EarlyOp<"tensor_map", [Pure]> {
  let summary = "a described array as the copy engine sees it";
  let description = [{
    Boxes of `box` elements of the array (one number per dimension), whose rows are swizzled over `swizzle` bytes in
    shared memory (0: not swizzled). The launch derives the map from the kernel's arguments, so the descriptor may
    depend on nothing else.

    - `tensor_map_c1`: one extent of the box per dimension, each 1 to 256.
    - `tensor_map_c2`: the swizzle is 0, 32, 64 or 128; the box's last side takes a multiple of 16 bytes, and no more
      than the swizzle where that is not 0.
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
    Copies the block of the mapped array that starts at `offsets` to `mem`; where the block is outside the array, it
    writes zeros (or what the descriptor pads with). The bytes that arrive are counted at the full barrier of that slot
    of the channel. One thread of the role issues one copy per box of the block: panel by panel, or, where a box has
    fewer rows than it could have, those of all panels before the next rows, so that longer pieces of a row are
    requested together.

    In a cluster, each cta copies its own piece of a part that is split over the ctas. A part that each cta has whole is
    cut into as many pieces as there are ctas, and each cta copies one of them to all.

    The array may have more dimensions than the memory: leading ones, in which the box has sides of 1.

    - `copy_in_c1`: one offset per dimension of the box.
    - `copy_in_c2`: the memory is a part that `kgpu.acquire` of this channel and cursor gave.
    - `copy_in_c3`: the box, repeated, fills the memory of a cta as its layout says; in dimensions that precede the
      memory's it has sides of 1.
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

/// The threads of a role copy a tile to a part of a slot, each thread its share.
class Kgpu_ThreadsCopy<string mnemonic> : Kgpu_ChannelStep<mnemonic, [AttrSizedOperandSegments]>;

def Kgpu_CopyBlockOp : Kgpu_ThreadsCopy<"copy_block"> {
  let summary = "threads fill a part of a slot with a block of a described array";
  let description = [{
    Reads as `tile.desc_load` does, with zeros outside the array, but bypasses registers: each thread copies some of the
    block, in the widest pieces that the alignment of the addresses allows (16, 8 or 4 bytes; narrower pieces do go
    through a register). The copies join the thread's open group, which the next `kgpu.commit` closes. With `when` false
    it does nothing.

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
                       Arg<Optional<I1>, "false: do nothing">:$when,
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
    Reads as `tile.load` does, with zeros where the mask is false, but bypasses registers as `kgpu.copy_block` does:
    each thread copies what its pointers point to, several elements at once where they are contiguous.

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
                       Arg<Optional<I1>, "false: do nothing">:$when,
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
  let summary = "bring a block of a mapped array into the L2";
  let description = [{
    Brings the block that a `kgpu.copy_in` of these offsets to memory of this type would copy into the cache that all
    ctas share; in a cluster each cta prefetches what it would copy. One thread of the role issues it, and nothing waits
    for it.

    As far as the program can tell it reads nothing: data that is written in the meantime is there afterwards. So it may
    precede the wait for the previous launch, whatever that launch writes.

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
    Writes the tile in `mem` to the block of the mapped array that starts at `offsets`; elements outside the array are
    not written. One thread of the role issues the copies and closes their group. Until `kgpu.copy_out_wait` the memory
    is being read. The copy engine sees what threads stored there only after a `kgpu.fence_async` of theirs and a
    barrier. In a cluster each cta writes its own piece. The array may have further leading dimensions, as for
    `kgpu.copy_in`.

    With a `kind` the engine combines the tile with what is in the array, each element in one atomic step that is
    relaxed for all threads of the device.

    With `by_group` one thread of each group of the role issues the copies of that group's rows and closes their group;
    the first group has the first rows of a cta, and so on. So a different thread waits in each group.

    - `copy_out_c1`: one offset per dimension of the box.
    - `copy_out_c2`: the box, repeated, fills the memory of a cta as its layout says; in dimensions that precede the
      memory's it has sides of 1.
    - `copy_out_c3`: fadd takes f16, bf16 or f32; add, umax, umin, and, or, xor take i32 (which the engine treats as
      unsigned); there is no other kind.
    - `copy_out_c4`: with `by_group` the op stands in a role, and the rows of a matrix split into whole boxes for each
      of the role's groups.

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
                       Arg<UnitAttr, "a thread of each group copies the group's rows">:$by_group);
  let builders = [OpBuilder<(ins "::mlir::Value":$mem, "::mlir::Value":$map, "::mlir::ValueRange":$offsets,
                                 "::mlir::StringAttr":$kind), [{
    build($_builder, $_state, mem, map, offsets, kind, /*by_group=*/false);
  }]>];
  let assemblyFormat = "$mem (`by` $kind^)? `to` $map `[` $offsets `]` (`by_group` $by_group^)? attr-dict `:` type($mem)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// True when the engine can combine elements of this type by `kind`.
    static bool canReduce(::kiln::tile::RMWKind kind, ::mlir::Type element);
    /// How it combines with what is there; std::nullopt: it overwrites it.
    std::optional<::kiln::tile::RMWKind> reduction();
    /// Rows of a cta that one thread copies: those of its group; 0 where one thread copies all.
    int64_t rowsOfGroup();
  }];
}

def Kgpu_CopyOutWaitOp : Kgpu_EarlyOp<"copy_out_wait",
    [MemoryEffects<[MemRead<Kgpu_Asynchrony>, MemWrite<Kgpu_Asynchrony>]>]> {
  let summary = "wait for copies to global memory";
  let description = [{
    The thread that issued the copies waits until all groups of them but the last `pending` are done, or, with `read`,
    until their shared memory has been read. Other threads of the role know of it only after a barrier.

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
                       Arg<I32Attr, "groups that may be in flight">:$pending);
  let assemblyFormat = "(`read` $read^)? $pending attr-dict";
  let hasVerifier = 1;
}

def Kgpu_FenceAsyncOp : Kgpu_EarlyOp<"fence_async", [MemoryEffects<[MemRead<Kgpu_SharedMemory>,
                                                                    MemWrite<Kgpu_SharedMemory>]>]> {
  let summary = "makes this thread's accesses to shared memory visible to the copy engine and to products";
  let description = [{
    Threads access shared memory through one proxy, the copy engine and tensor cores through another. What a thread has
    stored is ordered before what they do after a later barrier only if this op stands in between. (Loads need no fence:
    a load that has its value is not affected by what overwrites its place.)

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
  let summary = "different warps run different code";
  let description = [{
    The threads of the cta split up: each region is run by its own warps, all regions at once; after the op the roles
    wait for each other. Role r has `groups[r]` groups of `warps[r]` warps, numbered after those of the preceding roles.
    Inside a role, everything that is said elsewhere of the kernel's threads (layouts, barriers, the first thread, what
    every thread does) applies to the role's threads.

    `registers[r]`, if present, is the number of registers of each thread of the role (0: as launched). Then every role
    starts at a multiple of four warps, unless it has the registers of the preceding role and fits beside it into four
    warps; a role of four warps or more starts there in any case. Warps that pad the preceding role to a multiple of four
    do nothing.

    Roles use scalars, maps, channels and memory from outside. No tile crosses the boundary: only channels carry tiles.

    - `roles_c1`: there is at least one region; each has a name and numbers of warps, groups and registers.
    - `roles_c2`: warps are a power of two, groups at least one.
    - `roles_c3`: registers are 0, or 24 to 240 and a multiple of 8.
    - `roles_c4`: no tensor from outside is used inside.
    - `roles_c5`: the op stands in the function's body; there is at most one.

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
  let arguments = (ins Arg<StrArrayAttr, "the roles' names">:$names,
                       Arg<DenseI32ArrayAttr, "warps of a group">:$warps,
                       Arg<DenseI32ArrayAttr, "groups">:$groups,
                       Arg<DenseI32ArrayAttr, "registers of a thread; 0: as launched">:$registers);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    unsigned size() { return getNames().size(); }
    /// Warps of a role, over all its groups.
    int32_t warpsOf(unsigned role) { return getWarps()[role] * getGroups()[role]; }
    /// The first warp of the cta that runs a role.
    int32_t firstWarp(unsigned role);
    /// Warps of the cta, including padding.
    int32_t totalWarps();
    /// Warps that a role takes, including padding.
    int32_t paddedWarps(unsigned role);
    /// It follows the preceding role within the same four warps: they have the same registers.
    bool sharesGroup(unsigned role);
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

def Kgpu_BeginTurnOp : Kgpu_EarlyOp<"begin_turn", [MemoryEffects<[MemRead<Tile_Order>, MemWrite<Tile_Order>]>]> {
  let summary = "wait for this group's turn";
  let description = [{
    The groups of a role take turns, the first group first: a group waits until the group before it has ended its turn.
    Nothing is ordered by it but what groups issue: it makes no write visible. All groups of the role take equally many
    turns, since they run the same code with the same scalars.

    - `begin_turn_c1`: stands in a role of several groups.
    - `begin_turn_c2`: the next turn op of its block is `kgpu.end_turn`.

    ```mlir
    func.func @turns() {
      kgpu.roles @load warps 1 {
        kgpu.end_role
      } @multiply groups 2 warps 4 {
        kgpu.begin_turn
        kgpu.end_turn
        kgpu.end_role
      }
      return
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Kgpu_EndTurnOp : Kgpu_EarlyOp<"end_turn", [MemoryEffects<[MemRead<Tile_Order>, MemWrite<Tile_Order>]>]> {
  let summary = "let the next group begin its turn";
  let description = [{
    What this group has issued by now comes before what the next group issues in its turn. It does not wait.

    - `end_turn_c1`: the turn op before it in its block is `kgpu.begin_turn`.

    ```mlir
    func.func @turns() {
      kgpu.roles @load warps 1 {
        kgpu.end_role
      } @multiply groups 2 warps 4 {
        kgpu.begin_turn
        kgpu.end_turn
        kgpu.end_role
      }
      return
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

//===-- Persistent programs -------------------------------------------------------------------------------------------===//

def Kgpu_FirstProgramOp : Kgpu_EarlyOp<"first_program", [Pure]> {
  let summary = "the first program instance that this block runs";
  let description = [{
    In a kernel marked `kgpu.persistent`, a block (a cluster) runs the instances first_program, first_program +
    program_step, ... below the launch's number of programs, which are numbered with x fastest. The launch starts as
    many blocks as can be resident at once, or fewer.

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
  let summary = "the distance between successive program instances of one block";
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
