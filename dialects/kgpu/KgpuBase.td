// Shared by the op definitions of the kgpu dialect.
#ifndef KILN_KGPU_BASE_TD
#define KILN_KGPU_BASE_TD

include "KgpuTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// kgpu_c1: every tensor of a kgpu op has a layout. One trait checks it for all ops.
def Kgpu_LayoutRule : NativeOpTrait<"LayoutRule"> {
  let cppNamespace = "::kiln::kgpu";
}
// The same rule, or no tensor has a layout: for ops that schedules write before layouts are assigned.
def Kgpu_EarlyLayoutRule : NativeOpTrait<"EarlyLayoutRule"> {
  let cppNamespace = "::kiln::kgpu";
}

class Kgpu_Op<string mnemonic, list<Trait> traits = []> : Op<Kgpu_Dialect, mnemonic, traits # [Kgpu_LayoutRule]>;
class Kgpu_EarlyOp<string mnemonic, list<Trait> traits = []>
    : Op<Kgpu_Dialect, mnemonic, traits # [Kgpu_EarlyLayoutRule]>;

/// The resources of the tile dialect's ops.
def Tile_GlobalMemory : Resource<"::kiln::tile::GlobalMemory">;
def Tile_Order : Resource<"::kiln::tile::Order">;
/// Shared memory is a resource of its own: accesses to it are not ordered with those to global memory.
def Kgpu_SharedMemory : Resource<"::kiln::kgpu::SharedMemory">;
/// The order of asynchronous operations: barriers of channels, groups of copies, products in flight.
def Kgpu_Asynchrony : Resource<"::kiln::kgpu::Asynchrony">;

#endif // KILN_KGPU_BASE_TD
