// Passes from kgpu IR to kgpu IR. Each leaves valid IR and prints the same text every time.
#ifndef KILN_KGPU_PASSES_TD
#define KILN_KGPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def CheckRegistersPass : Pass<"kiln-check-registers", "::mlir::func::FuncOp"> {
  let summary = "refuse tiles that far exceed a thread's registers";
  let description = [{
    Every later pass, LLVM and ptxas spend time on each element of a tile that a thread holds. A tile that spills many
    times over would take minutes, for code too slow to use. Such a kernel is out of resources: the error is reported
    at the op with the largest tile and says how many elements a thread would hold and which launch options spread them.
    Sorts are measured by their steps, of which there are many per element.

    Changes nothing. Needs: layouts on every tile. Guarantees: no thread holds more than 1024 elements of a tile, or
    performs more than 16384 comparisons of one tile's elements in a sort.
  }];
}

def LowerSortsPass : Pass<"kiln-lower-sorts", "::mlir::func::FuncOp"> {
  let summary = "lower sorts to steps of a bitonic network";
  let description = [{
    Lowers `tile.sort` and `tile.topk` to integer keys that order like their elements, rows padded to a power of two,
    and steps that stay inside a warp (`kgpu.compare`). Where a row is spread over warps, warp digits are swapped with
    register digits between steps by conversions, which kiln-lower-exchanges lowers like all others. For the first k of
    a row, runs of k are sorted in alternating order, and pairs of runs are reduced to the first k of both until one run
    is left.

    ```mlir
    %s = tile.sort %x : tensor<2x16xi32, #rows_in_a_warp>
    ```
    becomes
    ```mlir
    %1 = kgpu.compare %x from 1 to 1 run 2 : ...
    %2 = kgpu.compare %1 from 2 to 1 run 4 : ...
    %3 = kgpu.compare %2 from 4 to 1 run 8 : ...
    %s = kgpu.compare %3 from 8 to 1 run 16 : ...
    ```
    Needs: layouts on every tile. Guarantees: no `tile.sort`, no `tile.topk`. Numeric effect: every NaN becomes the same
    NaN, which sorts last.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::kiln::kgpu::KgpuDialect"];
}

def MergeReductionsPass : Pass<"kiln-merge-reductions", "::mlir::func::FuncOp"> {
  let summary = "merge independent reductions so that they share an exchange";
  let description = [{
    Reductions across warps of tiles with the same layout, along the same axis, neither of which depends on the other,
    become one op with several operands: their partial results cross the warps together, with one barrier. Pure ops that
    use the first result move after the second reduction.

    ```mlir
    %s = tile.reduce(%x) axis 0 {sum} : (tensor<4096xf32, #four_warps>) -> f32
    %m = tile.reduce(%y) axis 0 {max} : (tensor<4096xf32, #four_warps>) -> f32
    ```
    becomes
    ```mlir
    %s, %m = tile.reduce(%x, %y) axis 0 {sum, max} : ...
    ```
    Needs: layouts on every tile. Guarantees: nothing more than before. Numeric effect: none.
  }];
}

def SinkFactorsPass : Pass<"kiln-sink-factors", "::mlir::func::FuncOp"> {
  let summary = "convert operands of products right before they are multiplied, and loaded tiles behind first copies";
  let description = [{
    Fragments are replicated across the warps that share them, so they take several times the registers of the loaded
    tile. A conversion used only by a `kgpu.warp_mma` in the same block moves down to it.

    What is computed from a tile that is loaded in front of a ring's first copies, and used only behind them, moves
    behind them: an exchange waits for the tile, and the copies would wait for the exchange.

    ```mlir
    %a = kgpu.convert %x : !loaded -> !factor
    %s = arith.addf %c, %c : !sums
    %d = kgpu.warp_mma %a, %b, %s : !factor, !factor -> !sums
    ```
    becomes
    ```mlir
    %s = arith.addf %c, %c : !sums
    %a = kgpu.convert %x : !loaded -> !factor
    %d = kgpu.warp_mma %a, %b, %s : !factor, !factor -> !sums
    ```

    Needs: layouts on every tile. Guarantees: nothing more than before. Numeric effect: none.
  }];
}

def LowerExchangesPass : Pass<"kiln-lower-exchanges", "::mlir::func::FuncOp"> {
  let summary = "exchange data between warps or ctas through shared memory";
  let description = [{
    Afterwards only stores to and loads from shared memory move elements between warps: every remaining `tile.reduce`,
    `tile.scan`, `kgpu.convert`, ... works in registers or by shuffles. Ops that can stay in registers or inside a warp
    are left alone.

    - a conversion between warps: store, then load, through the memory layout with the fewest bank conflicts.
    - a reduction along warps: `kgpu.partial_reduce`, a store of one element per warp, a load of all of them into each
      warp, and the rest inside the warp: one exchange. Along ctas, each cta stores into every cta's memory. That memory
      has an mbarrier, which is awaited, if elements have 4 or 8 bytes and the reduction is in the kernel's body or in a
      loop there.
    - a scan along warps: `kgpu.partial_scan`, an exchange of the segments' sums, a scan of those in each warp,
      `kgpu.add_prefix`. If the axis is not spread in the order registers, lanes, registers: convert to a layout whose
      axis is inside a warp.
    - a shape op whose result layout does not follow from its operand's: perform it with the layout that does follow,
      then convert; if there is none, a row-major store and a load of the same bytes as the other shape.
    - a gather whose axis is not inside a warp: a store, and a load by index (`kgpu.local_gather`).
    - a histogram: counters in memory, zeroed, incremented by the owners (`kgpu.local_atomic_add`), and loaded.
    - a product: both inputs are stored, and read by the accumulator's threads (`kgpu.dot`).
    - an atomic whose result is used by threads that do not own its element: store by the owners, load by all.
    - a scalar read from memory that steers control flow, or a tile whose elements several threads hold: store by one
      thread, load by all, unless nothing writes that memory during the launch.

    ```mlir
    %s = tile.reduce(%x) axis 0 {...} : (tensor<4096xf32, #four_warps>) -> f32
    ```
    becomes
    ```mlir
    %p = kgpu.partial_reduce(%x) axis 0 {...} : (tensor<4096xf32, #four_warps>) -> (tensor<4xf32, #one_each>)
    %m = kgpu.alloc : !kgpu.mem<4xf32, #in_order>
    kgpu.local_store %p, %m : ...
    %q = kgpu.local_load %m : ... -> tensor<4xf32, #all_in_each>
    %s = tile.reduce(%q) axis 0 {...} : (tensor<4xf32, #all_in_each>) -> f32
    ```
    Needs: layouts on every tile, no sorts. Guarantees: the above. Numeric effect: a reduction's operands are combined
    in a different grouping; their order is kept unless the combining region is known to be commutative.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::kiln::kgpu::KgpuDialect"];
}

def WaitByWarpPass : Pass<"kiln-wait-by-warp", "::mlir::func::FuncOp"> {
  let summary = "let warps that read only what they copy wait for nobody else";
  let description = [{
    In a channel that asks for it (`warps_apart`), marks the receives of slots that are read: `by_warp`, if in every part
    the digits of a warp's number say, by the layouts of all copies and of all loads, the same bits of an element's
    place. Each warp then reads only what its own lanes have copied, and a barrier of the warp takes the place of that of
    the cta. Receives whose slots nothing reads, after the loop, keep theirs: other memory may be reused behind them.
    Otherwise a remark at the first load or copy in the way says why warps wait for each other.

    ```mlir
    %k = kgpu.receive %ring[%at] pending 1 : ...
    ```
    becomes
    ```mlir
    %k = kgpu.receive %ring[%at] pending 1 by_warp : ...
    ```
    Needs: layouts on every tile, exchanges lowered. Guarantees: what `kiln-verify-channels` checks. Numeric effect: none.
  }];
}

def AlternateSlotsPass : Pass<"kiln-alternate-slots", "::mlir::func::FuncOp"> {
  let summary = "let iterations of a loop alternate between two slots of memory";
  let description = [{
    An exchange in a loop stores, waits, loads; the next iteration's stores must not overtake this one's loads. If the
    loop's body contains another exchange, that one's barrier separates them. If not, the allocation gets two slots, and
    the barrier of the intervening iteration is enough.

    ```mlir
    scf.for ... {
      %m = kgpu.alloc : !kgpu.mem<4xf32, #m>      (store, load)
    }
    ```
    becomes
    ```mlir
    scf.for ... iter_args(%phase = %zero) {
      %m = kgpu.alloc {slots = 2 : i32} : !kgpu.mem<4xf32, #m>
      %slot = kgpu.slot %m[%phase] : ...          (store, load)
      ... yield %phase xor 1
    }
    ```
    Needs: exchanges lowered. Guarantees: nothing more than before. Numeric effect: none.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::kiln::kgpu::KgpuDialect"];
}

def RecomputeAfterExchangePass : Pass<"kiln-recompute-after-exchange", "::mlir::func::FuncOp"> {
  let summary = "keep wide rows in their narrow type during an exchange";
  let description = [{
    A float32 tile of 64 or more registers a thread that is used on both sides of an exchange occupies those registers
    during the exchange. Registers limit how many blocks share a multiprocessor, and so how much memory traffic is in
    flight. Where the tile is a few cheap ops away from tiles of 16 bits or fewer, and those together are narrower than
    the live tile, the ops are repeated after the exchange on a `kgpu.keep` of the narrow tiles.

    ```mlir
    %v = arith.extf %row : tensor<8192xf16, #row> to tensor<8192xf32, #row>
    (statistics of %v, one exchange)
    %y = arith.mulf %v, %scale : tensor<8192xf32, #row>
    ```
    becomes
    ```mlir
    %v = arith.extf %row : tensor<8192xf16, #row> to tensor<8192xf32, #row>
    (statistics of %v, one exchange)
    %kept = kgpu.keep %row : tensor<8192xf16, #row>
    %again = arith.extf %kept : tensor<8192xf16, #row> to tensor<8192xf32, #row>
    %y = arith.mulf %again, %scale : tensor<8192xf32, #row>
    ```
    Needs: exchanges lowered. Guarantees: no op that touches memory is repeated. Numeric effect: none.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect"];
}

def HintStreamsPass : Pass<"kiln-hint-streams", "::mlir::func::FuncOp"> {
  let summary = "give eviction priorities to data that is read once, and to data that is read again";
  let description = [{
    Data private to one program that a loop reads, and that a later loop over the same range reads again, is kept until
    then; the second read marks it to be evicted first.

    In a launch that reads several times what the L2 holds (`kgpu.streaming` on the module), other tiles that only one
    program reads get the priority that the L2 keeps longest: they then displace each other, and not the lines that wait
    to be written back.

    A read is private to one program if its address varies with the program in every way in which the addresses of the
    kernel's writes do: by the same `tile.program_id`s, and by quotients and remainders of them. Rows qualify; a norm's
    weights or a bias by columns do not. Other reads in loops, scalars, and reads that already have a hint stay
    unchanged.

    ```mlir
    %x = tile.load %rows : ...
    %w = tile.load %weights : ...
    tile.store %others, %y : ...
    ```
    becomes
    ```mlir
    %x = tile.load %rows {evict = #tile<evict evict_last>} : ...
    %w = tile.load %weights : ...
    tile.store %others, %y : ...
    ```
    Needs: nothing. Guarantees: nothing more than before. Numeric effect: none.
  }];
}

def HoistReadsPass : Pass<"kiln-hoist-reads", "::mlir::func::FuncOp"> {
  let summary = "move reads ahead of a reduction, where registers allow";
  let description = [{
    A read after a reduction is a second wait for memory. One that does not depend on the reduction joins the kernel's
    first run of reads, together with the ops that compute its address and mask, unless a write in between may reach
    what it reads, or something in between must keep its place (a loop, a branch, a barrier, an assertion, an atomic, a
    volatile read).

    Its result occupies registers during the reduction, in addition to the tiles that wait for it anyway, and registers
    limit how many blocks share a multiprocessor. Either all such reads move, or none: up to 48 registers a thread for
    waiting tiles (40 in blocks of more than 16 warps, 56 where each warp reduces by itself). Blocks of up to 8 warps
    that read a row of at most 16 bits an element may take up to 160; but where a long masked row has two further tiles,
    all reads stay in place. (Measured on an H200; see RATIONALE.md.)

    ```mlir
    %x = tile.load %p : ...
    %v = arith.extf %x : ...
    %s = tile.reduce(%v) axis 0 {...} : ...
    %w = tile.load %q : ...
    ```
    becomes
    ```mlir
    %x = tile.load %p : ...
    %w = tile.load %q : ...
    %v = arith.extf %x : ...
    %s = tile.reduce(%v) axis 0 {...} : ...
    ```
    Needs: exchanges lowered, and waiting tiles as narrow as they can be (`kiln-recompute-after-exchange`). Guarantees:
    nothing more than before. Numeric effect: none.
  }];
}

def PlanSharedMemoryPass : Pass<"kiln-plan-shared-memory", "::mlir::func::FuncOp"> {
  let summary = "assign each shared-memory allocation its offset";
  let description = [{
    Sets `offset` of every `kgpu.alloc` and `kgpu.shared_bytes` of a kernel. Two allocations share bytes if their live
    ranges are disjoint and a barrier that exists anyway (every store needs one before its loads) separates them. Only
    if that takes more than a few KiB beyond the minimum, or does not fit the machine, do live ranges end at the last
    use, at the price of further barriers. Memory that is never read is removed, with its stores. Memory with an
    mbarrier never shares its bytes: another cta may send to it at any time.

    ```mlir
    %a = kgpu.alloc : !kgpu.mem<128xf32, #m>      (store, load)
    %b = kgpu.alloc : !kgpu.mem<128xf32, #m>      (store, load)
    %c = kgpu.alloc : !kgpu.mem<128xf32, #m>      (store, load)
    ```
    becomes
    ```mlir
    %a = kgpu.alloc {offset = 0 : i64} : ...
    %b = kgpu.alloc {offset = 512 : i64} : ...
    %c = kgpu.alloc {offset = 0 : i64} : ...      (%b's barrier is between the load from %a and the store to %c)
    ```
    Needs: exchanges lowered. Guarantees: allocations that are live together do not overlap; the total fits the target,
    or the error says what is required, what there is, and which option to change.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect"];
}

def InsertBarriersPass : Pass<"kiln-insert-barriers", "::mlir::func::FuncOp"> {
  let summary = "insert a barrier wherever two accesses to the same bytes need one, and nowhere else";
  let description = [{
    Tracks the accesses to shared and global memory since the last barrier, through branches and around loops. An access
    that conflicts with one of them (read after write, write after read or write after write of the same bytes, whether
    in one allocation or in two that share bytes) gets a barrier in front of it: as late as possible, so that several
    stores share one. Slots that iterations use alternately do not conflict with those of the previous iteration. A
    conflict only with accesses before a loop is settled in front of the loop. Where a store reaches into other ctas, or
    the ctas of a cluster share global memory that is accessed, the barrier is the cluster's. The first store into
    another cta, and any earlier cluster barrier, also waits for all ctas to have started. Barriers written by the
    program, and those implied by an atomic's memory order, count.

    Each role is a program of its own with role-wide barriers; where its accesses conflict with code before or after the
    roles, the barrier there is cta-wide. Where tensor cores or the copy engine read what threads stored, a
    `kgpu.fence_async` goes in front of the barrier. Their reads count as reads at the op that waits for them. Channel
    memory is synchronized by the channels themselves.

    ```mlir
    kgpu.local_store %x, %a
    kgpu.local_store %y, %b
    %u = kgpu.local_load %a
    %v = kgpu.local_load %b
    ```
    becomes
    ```mlir
    kgpu.local_store %x, %a
    kgpu.local_store %y, %b
    kgpu.barrier cta
    %u = kgpu.local_load %a
    %v = kgpu.local_load %b
    ```
    Needs: allocations with offsets. Guarantees: what `kiln-verify-barriers` checks.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect"];
}

def VerifyBarriersPass : Pass<"kiln-verify-barriers", "::mlir::func::FuncOp"> {
  let summary = "fail if a barrier is missing, or is used in a way that hangs";
  let description = [{
    Independent checks, each reported at the offending op. None knows how the barriers were inserted. All they share
    with `kiln-insert-barriers` are the descriptions of which bytes an op touches (MemoryAccess.h) and of which ops
    imply a barrier (dialects/kgpu/BarrierUse.h, from which the lowering emits them).

    - Hazards: walks every path of the kernel from each access to shared or global memory up to the next barrier in
      which all threads that can observe the access take part; a conflicting access on the way is an error.
    - Tensor-core and copy-engine accesses last until a wait: no conflicting access comes before it, the shared memory
      outlives it, and between threads' stores and such a read there is a fence on every path, followed by a barrier.
    - Roles: no two roles touch memory of the same allocation, or arrays not known to be disjoint if one of them writes.
    - Order: arrivals at the cluster barrier and waits for it alternate on every path, including those of whole
      barriers, of the program's own and of ordering atomics; none is pending at the return; both sides of a branch and
      each iteration of a loop agree; no barrier is inside an op whose region not all threads execute together.
    - Votes: no branch or loop that a `kgpu.any` decides contains what warps do together (barriers, products of a group
      and waits for them, turns, copies, steps at channels) or what one does for others that hold the same elements; nor
      do such ops take a scalar that it decides.
    - Other ctas: the first store into another cta comes after a cluster barrier. Memory with an mbarrier is initialized
      once, before that; it is sent to, awaited and read in this order; and in a loop it has two alternating slots.

    Changes nothing. Needs: allocations with offsets; no calls.
  }];
}

def VerifyChannelsPass : Pass<"kiln-verify-channels", "::mlir::func::FuncOp"> {
  let summary = "fail if a channel is used in a way that hangs, or reads data that has not arrived";
  let description = [{
    Follows each role separately, op by op, under assumed trip counts (0, 1, 2, around the number of slots and beyond,
    the same for loops whose bounds are computed alike), and proves of what it sees:

    - Cursors: a role acquires, commits, receives and releases places 0, 1, 2, ... of the ring, each once, in order.
    - Balance: each consumer receives what producers commit, and releases all of it.
    - Slots: parts are filled between acquire and commit (by one copy each, if copies announce bytes) and read between
      receive and release; what a product or a copy reads is not released before that op was waited for. Products are
      counted in program order for this.
    - In flight: the result of a product is the accumulator of the next, is carried by a loop, or is waited for.
    - Fences: stores are fenced before products or copies read them: where the slot is committed or, once memory is
      planned, at the latest where it is read.
    - Ends: the numbers of fillers and readers match the roles' warps; a channel's users are all in roles or all
      outside; no product or copy is in flight when a role ends.
    - Warps: if a receive waits for each warp alone (`by_warp`), each warp reads only elements of the ring that it has
      copied, whatever the receive. This is determined element by element.
    - Progress: all roles reach their ends when each advances as far as it can with the available slots.

    Conditions may distinguish the first and last iterations of a loop, up to twice the number of slots. The outcome of
    any other condition is assumed anew each time, consistently where it is computed alike; where roles do not agree on
    it, the error names the two loops or branches.

    Changes nothing. May run any time after roles exist, also before layouts.
  }];
}

def OverlapLaunchesPass : Pass<"kiln-overlap-launches", "::mlir::func::FuncOp"> {
  let summary = "mark where the next launch may begin, and where this one waits for the previous one";
  let description = [{
    Applies to launches that overlap their neighbours (`kgpu.pdl` on the module; others are left as they are), unless
    the kernel places these ops itself.

    - The next launch may begin at once if all programs of this one run at once (`kgpu.single_wave`), since it takes no
      resources from them. Otherwise it may begin after the first run of reads of tiles, when the data that this launch
      waits for is on its way. A write, a branch or a loop also ends that run, whether or not it needs the data, since
      after it the next launch would start late; if a loop comes before any run, or there is no run, it may begin once
      this one has waited, so that no more than one launch waits (at once, if only roles wait, or nothing is to be
      waited for).
    - This launch waits for the previous one before its first access to global memory, each role separately, and at its
      end if there is no access: the next grid waits for this one alone, and thereby for all earlier ones.

    ```mlir
    %x = tile.load %p : ...
    %w = tile.load %q : ...
    %y = arith.extf %x : ...
    ```
    becomes
    ```mlir
    tile.wait_for_grid
    %x = tile.load %p : ...
    %w = tile.load %q : ...
    tile.launch_dependents
    %y = arith.extf %x : ...
    ```
    Needs: ops in their final order. Guarantees: such a kernel has both ops. Numeric effect: none.
  }];
  let dependentDialects = ["::kiln::tile::TileDialect"];
}

def CloseReadsPass : Pass<"kiln-close-reads", "::mlir::func::FuncOp"> {
  let summary = "keep reads issued together";
  let description = [{
    ptxas moves reads down to where their values are used, even past uses of reads whose data arrived long ago. So a
    `kgpu.close_reads`, across which nothing moves, follows the last of a run of tile reads, before the first op that
    needs one of them. Exceptions: a single read, and a place where a launch begins or waits, which keeps the order as
    well. So it is in loops whose products multiply what threads read (`kgpu.warp_mma`), where a run also ends before a
    product that needs none of it: the reads of a later step are in flight while the product runs. A run, even of one
    read, also ends before a ring's first copies: memory takes requests in turn, and behind those the reads would be late.

    ```mlir
    %x = tile.load %p : ...
    %w = tile.load %q : ...
    %y = arith.extf %x : ...
    ```
    becomes
    ```mlir
    %x = tile.load %p : ...
    %w = tile.load %q : ...
    kgpu.close_reads
    %y = arith.extf %x : ...
    ```
    Needs: `kiln-overlap-launches`. Guarantees: nothing more than before. Numeric effect: none.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect"];
}

#endif // KILN_KGPU_PASSES_TD
