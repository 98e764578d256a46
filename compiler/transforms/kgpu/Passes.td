// Passes from kgpu IR to kgpu IR. Each leaves valid IR and prints the same text every time.
#ifndef KILN_KGPU_PASSES_TD
#define KILN_KGPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def CheckRegistersPass : Pass<"kiln-check-registers", "::mlir::func::FuncOp"> {
  let summary = "refuse tiles that are far beyond a thread's registers";
  let description = [{
    Every later pass, LLVM and ptxas take time for each element of a tile that a thread holds; of a tile that spills many
    times over they would take minutes, for code that nobody wants. Such a kernel is out of resources: the error stands at
    the op with the largest tile and says how many elements a thread would hold and which launch options spread them.
    Sorting is counted by its steps, of which there are many for each element.

    Changes nothing. Needs: layouts on every tile. Guarantees: no thread holds more than 1024 elements of a tile, nor
    compares elements of one more than 16384 times in a sort.
  }];
}

def LowerSortsPass : Pass<"kiln-lower-sorts", "::mlir::func::FuncOp"> {
  let summary = "a sort becomes steps of a bitonic network";
  let description = [{
    `tile.sort` and `tile.topk` become integers that order as their elements do, rows a power of two long, and steps that
    stay inside a warp (`kgpu.compare`). Where a row is spread over warps, digits of warps are swapped with digits of
    registers between steps: conversions, which kiln-lower-exchanges lowers with all others. The first k of a row: runs of
    k in alternating order, of which pairs are reduced to the first of each two until one is left.

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
    Needs: layouts on every tile. Guarantees: no `tile.sort`, no `tile.topk`. Numeric effect: every NaN becomes one NaN, the
    last of all.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::kiln::kgpu::KgpuDialect"];
}

def MergeReductionsPass : Pass<"kiln-merge-reductions", "::mlir::func::FuncOp"> {
  let summary = "reductions that need nothing of each other share an exchange";
  let description = [{
    Reductions across warps of tiles of one layout, along one axis, neither of which waits for the other, become one op of
    several operands: their parts cross the warps together, behind one barrier. What needs the first and is pure moves
    behind the second.

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
  let summary = "convert factors of products where they are multiplied";
  let description = [{
    Fragments repeat in the warps that share them, so that they take several times the registers of what was loaded. A
    conversion used only by a `kgpu.warp_mma` of its block moves down to it.

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
  let summary = "what has to cross warps or ctas goes through shared memory";
  let description = [{
    Afterwards no op moves an element between warps but stores to and loads from shared memory: every `tile.reduce`,
    `tile.scan`, `kgpu.convert`, ... left is done in registers or by shuffles. What can stay in registers or inside a warp
    is left alone.

    - a conversion between warps: store, load, through a memory layout that has the fewest bank conflicts.
    - a reduction along warps: `kgpu.partial_reduce`, store of one element per warp, load of all of them into each
      warp, and the rest inside the warp: one exchange. Along ctas, each cta stores into every cta's memory: memory
      with an mbarrier, which is awaited, where elements are of 4 or 8 bytes and the reduction stands in the kernel's
      body or a loop there.
    - a scan along warps: `kgpu.partial_scan`, an exchange of the segments' sums, their scan in each warp, `kgpu.add_prefix`.
      One whose axis is spread in no order of registers, lanes, registers: of a layout whose axis is inside a warp.
    - a shape op whose layouts do not follow from each other: on the layout that does follow, then a conversion; where none
      does, a store row-major and a load of the same bytes as the other shape.
    - a gather whose axis is not inside a warp: store, and a load by index (`kgpu.local_gather`).
    - a histogram: counters in memory, set to zero, counted up by the owners (`kgpu.local_atomic_add`), and loaded.
    - a product: both inputs are stored, and read by the threads of the accumulator (`kgpu.dot`).
    - an atomic whose result is used by threads that do not own its element: store by the owners, load by all.
    - a scalar read from memory that decides where control goes: store by one thread, load by all, unless nothing writes
      there during the launch.

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
    Needs: layouts on every tile, no sorts. Guarantees: the above. Numeric effect: a reduction's operands are combined in another
    grouping; their order is kept unless its region is seen to be commutative.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::kiln::kgpu::KgpuDialect"];
}

def AlternateSlotsPass : Pass<"kiln-alternate-slots", "::mlir::func::FuncOp"> {
  let summary = "iterations of a loop use two slots of memory in turn";
  let description = [{
    An exchange in a loop stores, waits, loads; the next iteration's stores must not overtake this one's loads. Where the
    loop's body has another exchange, the barrier of that one is in between. Where it has none, the allocation gets two
    slots, and the barrier of the iteration in between is enough.

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
  let summary = "wide rows wait for an exchange in their narrow type";
  let description = [{
    A float32 tile of 64 or more registers a thread that is used on both sides of an exchange takes those registers while
    the exchange is under way, and registers say how many blocks share a multiprocessor, and so how much memory traffic is
    in flight. Where the tile is a few cheap ops away from tiles of 16 bits or fewer, and those together are narrower than
    what waits now, the ops are done again behind the exchange on a `kgpu.keep` of the narrow tiles.

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
  let summary = "what a large launch reads once, and what any reads a second time, has an eviction priority";
  let description = [{
    What a loop reads and a later one over the same range reads again is kept until then, and may go first behind it.

    Of a launch that reads several times what the L2 holds (`kgpu.streaming` on the module) other tiles that one program
    alone reads get the priority that the L2 keeps longest: they then displace each other, and not the lines that wait to
    be written.

    One program alone reads what varies with the program in every way in which the kernel's writes do: by the same
    `tile.program_id`s, and quotients and remainders of them. Rows do, a norm's weights and a bias by columns do not. Other
    reads in loops, scalars, and reads with a hint of their own stay.

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
  let summary = "read what is needed behind a reduction in front of it, where registers allow";
  let description = [{
    A read behind a reduction is a second wait for memory. One that depends on nothing of the reduction joins the kernel's
    first run of reads, with what its address and mask are made of, unless a write in between may reach what it reads, or
    something stands there that the program orders by itself (a loop, a branch, a barrier, an assertion, an atomic, a
    volatile read).

    What it gives takes registers while the reduction is under way, beside the tiles that wait for it anyway, and
    registers say how many blocks share a multiprocessor. All such reads move, or none: up to 48 registers a thread for
    what waits (40 in blocks of more than 16 warps, 56 where warps reduce by themselves). Blocks of up to 8 warps that
    read a row of at most 16 bits an element may take up to 160; but where a long masked row has two further tiles, all
    stay as they are. (Measured on an H200; see RATIONALE.md.)

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
    Needs: exchanges lowered, and what waits for them as narrow as it can (`kiln-recompute-after-exchange`). Guarantees:
    nothing more than before. Numeric effect: none.
  }];
}

def PlanSharedMemoryPass : Pass<"kiln-plan-shared-memory", "::mlir::func::FuncOp"> {
  let summary = "give each allocation its place";
  let description = [{
    Sets `offset` of every `kgpu.alloc` and `kgpu.shared_bytes` of a kernel. Two allocations share bytes where their lives
    are apart and a barrier that is there anyway (every store needs one before its loads) stands between; only when that
    takes more than a few KiB beyond the least, or does not fit the machine, do lives end at the last use, at the price
    of further barriers. Memory that is never read goes, with its stores. Memory with an mbarrier has bytes of its own:
    another cta may send at any time.

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
    Needs: exchanges lowered. Guarantees: allocations alive together are apart; the sum fits the target, or the error says
    what is required, what there is, and which option to change.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect"];
}

def InsertBarriersPass : Pass<"kiln-insert-barriers", "::mlir::func::FuncOp"> {
  let summary = "put a barrier wherever two accesses to the same bytes need one, and nowhere else";
  let description = [{
    Follows the accesses to shared and global memory since the last barrier through branches and around loops. An access that
    conflicts with one of them (read after write, write after read, write after write, in the same bytes, whether of one
    allocation or of two that share a place) gets a barrier in front of it: as late as possible, so that several stores
    share one. Slots that iterations use in turn do not conflict with those of the iteration before. What only conflicts
    with accesses from before a loop is settled in front of the loop. Where a store reaches into other ctas, or the ctas
    of a cluster share what is accessed in global memory, the barrier is the cluster's. The first store into another cta
    also waits for all ctas to have started, and so does any other barrier of the cluster before it. The program's own
    barriers, and those that the order of an atomic brings, count.

    Each role is a program of its own, whose barriers are the role's; where what it touches conflicts with what stands
    before or behind the roles, the barrier there is the cta's. Where tensor cores or the copy engine read what threads
    stored, a `kgpu.fence_async` goes in front of the barrier. What they read counts as read where it is waited for.
    Memory of channels is left to those.

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
  let summary = "fail where a barrier is missing, or one is used in a way that hangs";
  let description = [{
    Independent checks, each said at the op that goes wrong. None knows how barriers came to be; shared with
    `kiln-insert-barriers` are only the notions of which bytes an op touches (MemoryAccess.h) and of which ops bring a
    barrier (dialects/kgpu/BarrierUse.h, from which the lowering emits them).

    - Hazards: walks every path of the kernel from each access, to shared or global memory, to the next barrier that all
      who see the access take part in; an access on the way that conflicts is an error.
    - What tensor cores and the copy engine do goes on until a wait: nothing that conflicts stands before it, shared memory
      outlives it, and between what threads stored and them is a fence on every path, and behind that a barrier.
    - Roles: two of them touch no memory of the same allocation, nor arrays that are not known to be disjoint, one writing.
    - Order: arrivals at the barrier of the cluster and waits for it take turns on every path, those of whole
      barriers, of the program's own and of ordering atomics included; none is open at the return; both ways through a
      branch and each iteration of a loop agree; no barrier is inside an op whose region not all threads run alike.
    - Other ctas: the first store into another cta comes after a barrier of the cluster. Memory with an mbarrier is
      set up once, before; is sent to, awaited and read in this order; and in a loop has two slots used in turn.

    Changes nothing. Needs: allocations with offsets; no calls.
  }];
}

def VerifyChannelsPass : Pass<"kiln-verify-channels", "::mlir::func::FuncOp"> {
  let summary = "fail where a channel is used in a way that hangs, or reads what has not come";
  let description = [{
    Follows each role by itself, op by op, under assumed trip counts (0, 1, 2, around the number of slots and beyond, the
    same for loops whose bounds are computed alike), and proves of what it sees:

    - Cursors: a role acquires, commits, receives and releases places 0, 1, 2, ... of the ring, each once, in order.
    - Balance: what producers commit is what each consumer receives, and all of it is released.
    - Slots: parts are filled between acquire and commit (by one copy each, where copies announce bytes) and read between
      receive and release; what a product or a copy reads is not released before it was waited for, which products are
      counted for in the order of the program.
    - In flight: the result of a product is the accumulator of the next, is carried by a loop, or is waited for.
    - Fences: stores are fenced before products or copies read them, where the slot is committed or, once memory is
      planned, at the latest where it is read.
    - Ends: the numbers of fillers and readers are those of the warps of the roles; a channel's users are all in roles or
      all outside; no product or copy is under way when a role ends.
    - Progress: all roles come to their ends, taken as far as each can go with the slots there are.

    Conditions may tell the first and last iterations of a loop apart, by as much as twice the slots. What hangs on
    anything else is assumed anew each time, alike where it is computed alike; where roles do not agree in that, the error
    names the two loops or branches.

    Changes nothing. Runs at any time after roles were made, before layouts too.
  }];
}

def OverlapLaunchesPass : Pass<"kiln-overlap-launches", "::mlir::func::FuncOp"> {
  let summary = "where the next launch may begin, and where this one waits for the one before";
  let description = [{
    For launches that overlap with their neighbours (`kgpu.pdl` on the module; others are left as they are), where the
    kernel does not say so itself.

    - The next launch may begin at once where the programs of this one all run at once (`kgpu.single_wave`), as it takes
      no place from them. Elsewhere it may begin behind the first run of reads of tiles, when what this one waits for is
      on its way. A write, a branch or a loop ends that run too, needed or not, since behind it the next launch would be
      late; where a loop comes before any run, or there is none, it may begin at once.
    - This launch waits for the one before in front of its first access to global memory, each role for itself, and at
      its end where there is none: the grid behind waits for this one alone, and so for all before it.

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
  let summary = "what a kernel reads together is asked for together";
  let description = [{
    ptxas moves reads down to where their values are used, also past others that are long waited for. Behind the last of a
    run of reads of tiles comes a `kgpu.close_reads`, across which nothing moves, before the first op that needs one of
    them; but where launches begin or wait there, which keeps its place as well, and behind a single read.

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
