// Passes that choose how a kernel's loads, products and stores overlap, and write it out as channels and roles.
#ifndef KILN_SCHEDULE_PASSES_TD
#define KILN_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def ChooseSchedulePass : Pass<"kiln-choose-schedule", "::mlir::func::FuncOp"> {
  let summary = "choose how a kernel's loads, products and stores overlap";
  let description = [{
    Looks for a loop that multiplies what it loads through descriptors and adds to an accumulator, and records the
    kernel's schedule and its parameters in the kernel attribute `kgpu.schedule`. The launch's request (module
    attributes `kgpu.schedule`, `kgpu.stages`, `kgpu.consumers`) decides where it fits; otherwise the best fit is taken:

    - `cooperative`: one warp copies, one to three groups of four warps multiply, each with its own rows of the tile.
      Blocks are persistent and run one program after another.
    - `attention`: two chained products, with the softmax of one step under the second product of the previous step.
      Where the launch asks for `pingpong`, groups issue the products of a step in turn.
    - `streams`, where it is asked for: several products in loops, over blocks that are held and blocks that are
      streamed.
    - `simple`: all threads copy ahead, through descriptors or pointers, and multiply what has arrived. Where the target
      supports one of the schedules above, a remark says why it was not chosen.
    - `lanes`, where it is asked for: as `simple`, but each warp is to copy what it multiplies.
    - none: a remark says why; products stay in place.

    ```mlir
    %c = scf.for %k = ... iter_args(%acc = %zero) {
      %a = tile.desc_load %da[%i, %k] ...
      %b = tile.desc_load %db[%k, %j] ...
      %next = tile.dot %a, %b, %acc ...
      scf.yield %next
    }
    ```
    gives the kernel `kgpu.schedule = {consumers = 2 : i32, name = "cooperative", stages = 4 : i32}`.

    Needs: stage opt, a target. Changes nothing else.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect"];
}

def MaterializeSchedulePass : Pass<"kiln-materialize-schedule", "::mlir::func::FuncOp"> {
  let summary = "write the chosen schedule out as channels and roles";
  let description = [{
    The kernel is cloned once for each role, and each clone keeps its part: the load role computes positions and copies
    into a channel, the multiply role receives from it. Loops carry the ring's cursor. Each block runs every program
    whose number is congruent to its own modulo the number of blocks (`kgpu.persistent`).

    ```mlir
    %acc = scf.for ... { %a = tile.desc_load ...; %b = tile.desc_load ...; tile.dot ... }
    tile.desc_store %dc[%i, %j], %acc
    ```
    becomes
    ```mlir
    %ring = kgpu.channel bytes ...
    kgpu.roles @load warps 1 { loops of kgpu.acquire, kgpu.copy_in, kgpu.commit }
      @multiply groups 2 warps 4 { loops of kgpu.receive, kgpu.warpgroup_mma, kgpu.release; the store }
    ```
    `simple` and `lanes` leave the kernel unchanged except for the loop that multiplies, whose loads become
    `kgpu.copy_block` or `kgpu.copy_tile` some iterations ahead and `kgpu.local_load` of a slot:
    ```mlir
    %ring = kgpu.channel groups ...
    loop with one iteration fewer than slots: kgpu.acquire, kgpu.copy_block, kgpu.commit
    scf.for ... { kgpu.receive; the copies for a later iteration; kgpu.local_load, tile.dot; kgpu.release }
    kgpu.receive, kgpu.release of the groups that were closed empty
    ```
    With `lanes` the channel says `warps_apart`: layouts then let each warp copy what it reads, if they can, and
    `kiln-wait-by-warp` drops the barriers that this makes unnecessary.

    Needs: `kgpu.schedule` as kiln-choose-schedule writes it; no layouts yet. Guarantees: no tile crosses roles. Numeric
    effect: products are accumulated in the order of the instruction, which sums several at once.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect", "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def LowerDescReductionsPass : Pass<"kiln-lower-desc-reductions", "::mlir::func::FuncOp"> {
  let summary = "turn reductions of blocks into described arrays into atomics through pointers";
  let description = [{
    Lowers every `tile.desc_reduce` that no schedule has taken:
    ```mlir
    tile.desc_reduce fadd %d[%i, %j], %v
    ```
    becomes a relaxed `tile.atomic_rmw fadd` through pointers to the elements, masked to those inside the array.

    Needs: descriptors that are made where they are used; no layouts yet. Numeric effect: none.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // KILN_SCHEDULE_PASSES_TD
