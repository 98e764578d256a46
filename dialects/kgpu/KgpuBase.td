// What the op definitions of the kgpu dialect share.
#ifndef KILN_KGPU_BASE_TD
#define KILN_KGPU_BASE_TD

include "KgpuTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Every tensor of a kgpu op has a layout: kgpu_c1, checked for all ops in one place.
def Kgpu_LayoutRule : NativeOpTrait<"LayoutRule"> {
  let cppNamespace = "::kiln::kgpu";
}
// The same, or none of them has one: ops that schedules write before layouts are assigned.
def Kgpu_EarlyLayoutRule : NativeOpTrait<"EarlyLayoutRule"> {
  let cppNamespace = "::kiln::kgpu";
}

class Kgpu_Op<string mnemonic, list<Trait> traits = []> : Op<Kgpu_Dialect, mnemonic, traits # [Kgpu_LayoutRule]>;
class Kgpu_EarlyOp<string mnemonic, list<Trait> traits = []>
    : Op<Kgpu_Dialect, mnemonic, traits # [Kgpu_EarlyLayoutRule]>;

/// As tile ops say it.
def Tile_GlobalMemory : Resource<"::kiln::tile::GlobalMemory">;
def Tile_Order : Resource<"::kiln::tile::Order">;
/// Shared memory is a resource of its own: accesses to it are unordered with those to global memory.
def Kgpu_SharedMemory : Resource<"::kiln::kgpu::SharedMemory">;
/// What orders the asynchronous: barriers of channels, groups of copies, products in flight.
def Kgpu_Asynchrony : Resource<"::kiln::kgpu::Asynchrony">;

#endif // KILN_KGPU_BASE_TD
