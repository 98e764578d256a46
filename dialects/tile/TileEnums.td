// Enumerations of the tile dialect, and the base class of its ops.
#ifndef KILN_TILE_ENUMS_TD
#define KILN_TILE_ENUMS_TD

include "TileTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

// Checks tile_c1 to tile_c4 (see TileDialect.td) on the operands and results of an op.
def Tile_SideRule : NativeOpTrait<"TileSideRule"> {
  let cppNamespace = "::kiln::tile";
}

class Tile_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, !listconcat([Tile_SideRule], traits)>;

// An op that reads or writes memory, or must keep its place among those that do.
class Tile_EffectOp<string mnemonic, list<Trait> traits = []>
    : Tile_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>])>;

class Tile_Enum<string name, string summary, list<I32EnumCase> cases> : I32Enum<name, summary, cases> {
  let cppNamespace = "::kiln::tile";
}
class Tile_EnumAttr<I32Enum e, string mnemonic> : EnumAttr<Tile_Dialect, e, mnemonic>;

def Tile_Axis : Tile_Enum<"Axis", "axis of the launch grid",
  [I32EnumCase<"X", 0, "x">, I32EnumCase<"Y", 1, "y">, I32EnumCase<"Z", 2, "z">]>;
def Tile_Padding : Tile_Enum<"Padding", "value read outside a box",
  [I32EnumCase<"Zero", 0, "zero">, I32EnumCase<"NaN", 1, "nan">]>;
def Tile_CacheModifier : Tile_Enum<"CacheModifier", "cache level hint",
  [I32EnumCase<"None", 0, "none">, I32EnumCase<"CA", 1, "ca">, I32EnumCase<"CG", 2, "cg">,
   I32EnumCase<"CS", 3, "cs">, I32EnumCase<"CV", 4, "cv">, I32EnumCase<"WB", 5, "wb">, I32EnumCase<"WT", 6, "wt">]>;
def Tile_Eviction : Tile_Enum<"Eviction", "eviction priority hint",
  [I32EnumCase<"Normal", 0, "normal">, I32EnumCase<"First", 1, "evict_first">, I32EnumCase<"Last", 2, "evict_last">]>;
def Tile_Precision : Tile_Enum<"Precision", "how the inputs of a dot are used",
  [I32EnumCase<"IEEE", 0, "ieee">, I32EnumCase<"TF32", 1, "tf32">, I32EnumCase<"TF32x3", 2, "tf32x3">,
   I32EnumCase<"BF16x3", 3, "bf16x3">, I32EnumCase<"BF16x6", 4, "bf16x6">]>;
def Tile_RMWKind : Tile_Enum<"RMWKind", "read-modify-write operation",
  [I32EnumCase<"Add", 0, "add">, I32EnumCase<"FAdd", 1, "fadd">, I32EnumCase<"Max", 2, "max">,
   I32EnumCase<"UMax", 3, "umax">, I32EnumCase<"FMax", 4, "fmax">, I32EnumCase<"Min", 5, "min">,
   I32EnumCase<"UMin", 6, "umin">, I32EnumCase<"FMin", 7, "fmin">, I32EnumCase<"And", 8, "and">,
   I32EnumCase<"Or", 9, "or">, I32EnumCase<"Xor", 10, "xor">, I32EnumCase<"Xchg", 11, "xchg">]>;
def Tile_MemSemantic : Tile_Enum<"MemSemantic", "memory order of an atomic",
  [I32EnumCase<"Relaxed", 0, "relaxed">, I32EnumCase<"Acquire", 1, "acquire">,
   I32EnumCase<"Release", 2, "release">, I32EnumCase<"AcqRel", 3, "acq_rel">]>;
def Tile_MemScope : Tile_Enum<"MemScope", "threads an atomic is ordered with",
  [I32EnumCase<"CTA", 0, "cta">, I32EnumCase<"GPU", 1, "gpu">, I32EnumCase<"System", 2, "sys">]>;

def Tile_AxisAttr : Tile_EnumAttr<Tile_Axis, "axis">;
def Tile_PaddingAttr : Tile_EnumAttr<Tile_Padding, "padding">;
def Tile_CacheModifierAttr : Tile_EnumAttr<Tile_CacheModifier, "cache">;
def Tile_EvictionAttr : Tile_EnumAttr<Tile_Eviction, "evict">;
def Tile_PrecisionAttr : Tile_EnumAttr<Tile_Precision, "precision">;
def Tile_RMWKindAttr : Tile_EnumAttr<Tile_RMWKind, "rmw">;
def Tile_MemSemanticAttr : Tile_EnumAttr<Tile_MemSemantic, "sem">;
def Tile_MemScopeAttr : Tile_EnumAttr<Tile_MemScope, "scope">;

#endif // KILN_TILE_ENUMS_TD
