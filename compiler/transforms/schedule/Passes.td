// Passes that choose how a kernel's loads, products and stores overlap, and write it out as channels and roles.
#ifndef KILN_SCHEDULE_PASSES_TD
#define KILN_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def ChooseSchedulePass : Pass<"kiln-choose-schedule", "::mlir::func::FuncOp"> {
  let summary = "say how a kernel's loads, products and stores overlap";
  let description = [{
    Looks for a loop that multiplies what it loads through descriptors and adds to an accumulator, and writes down which
    schedule the kernel is to have, with its numbers, as the kernel's attribute `kgpu.schedule`. What the launch asked for
    (module attributes `kgpu.schedule`, `kgpu.stages`, `kgpu.consumers`) decides where it fits; otherwise what fits best:

    - `cooperative`: a warp copies, one to three groups of four warps multiply, each its rows of the tile. Blocks stay and
      run one program after the other.
    - `attention`: two chained products, softmax of a step under the second product of the step before.
    - `streams`, where it is asked for: several products in loops, of blocks that stay and blocks that are walked.
    - `simple`: all threads copy ahead, through descriptors or pointers, and multiply what has come. Where the target
      could do the former a remark says why it does not.
    - none: a remark says why; products are made where they stand.

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
    The kernel is cloned once for each role, and each clone keeps its part: the loading role computes what positions depend on
    and copies into a channel, the multiplying role receives from it. Loops carry the cursor of the ring. Blocks run every
    program whose number is theirs modulo the number of blocks (`kgpu.persistent`).

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
    `simple` leaves the kernel as it is but for the loop that multiplies, whose loads become `kgpu.copy_block` or
    `kgpu.copy_tile` some iterations ahead and `kgpu.local_load` of a slot:
    ```mlir
    %ring = kgpu.channel groups ...
    loop of as many iterations as slots less one: kgpu.acquire, kgpu.copy_block, kgpu.commit
    scf.for ... { kgpu.receive; the same for an iteration to come; kgpu.local_load, tile.dot; kgpu.release }
    kgpu.receive, kgpu.release of what was closed for nothing
    ```
    Needs: `kgpu.schedule` as kiln-choose-schedule writes it; no layouts yet. Guarantees: no tile crosses roles. Numeric
    effect: products are added in the order of the instruction, which sums several at once.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect", "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def LowerDescReductionsPass : Pass<"kiln-lower-desc-reductions", "::mlir::func::FuncOp"> {
  let summary = "blocks that are combined into a described array become atomics of pointers";
  let description = [{
    What no schedule has taken of `tile.desc_reduce`:
    ```mlir
    tile.desc_reduce fadd %d[%i, %j], %v
    ```
    becomes a relaxed `tile.atomic_rmw fadd` of pointers to the elements, with a mask of those that are inside the array.

    Needs: descriptors that are made where they are used; no layouts yet. Numeric effect: none.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // KILN_SCHEDULE_PASSES_TD
