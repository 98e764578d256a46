// Ops of the tile dialect: what MLIR's tensor, arith, math, scf and func do not have.
#ifndef KILN_TILE_OPS_TD
#define KILN_TILE_OPS_TD

include "TileTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

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

//===----------------------------------------------------------------------===//
// Program
//===----------------------------------------------------------------------===//

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "position of this program instance in the virtual grid";
  let arguments = (ins Tile_AxisAttr:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

def Tile_NumProgramsOp : Tile_Op<"num_programs", [Pure]> {
  let summary = "extent of the virtual grid";
  let arguments = (ins Tile_AxisAttr:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Pointers
//===----------------------------------------------------------------------===//

def Tile_AddPtrOp : Tile_Op<"addptr", [Pure, AllTypesMatch<["ptr", "result"]>]> {
  let summary = "step a pointer by a number of elements";
  let arguments = (ins Tile_PtrLike:$ptr, Tile_IntLike:$offset);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_PtrToIntOp : Tile_Op<"ptr_to_int", [Pure]> {
  let summary = "address of a pointer as a 64-bit integer";
  let arguments = (ins Tile_PtrLike:$ptr);
  let results = (outs Tile_I64Like:$result);
  let assemblyFormat = "$ptr attr-dict `:` type($ptr) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_IntToPtrOp : Tile_Op<"int_to_ptr", [Pure]> {
  let summary = "pointer from a 64-bit address";
  let arguments = (ins Tile_I64Like:$address);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$address attr-dict `:` type($address) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PtrCastOp : Tile_Op<"ptr_cast", [Pure]> {
  let summary = "same address, another pointee";
  let arguments = (ins Tile_PtrLike:$ptr);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$ptr attr-dict `:` type($ptr) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_HintOp : Tile_Op<"hint", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "promises about a value: divisibility, contiguity, constancy per dimension";
  let arguments = (ins Tile_AnyLike:$value, OptionalAttr<DenseI64ArrayAttr>:$divisibility,
                       OptionalAttr<DenseI64ArrayAttr>:$contiguity, OptionalAttr<DenseI64ArrayAttr>:$constancy);
  let results = (outs Tile_AnyLike:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "read the elements that pointers point at";
  let arguments = (ins Tile_PtrLike:$ptr, Optional<Tile_MaskLike>:$mask, Optional<Tile_AnyLike>:$other,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">:$evict,
                       UnitAttr:$isVolatile);
  let results = (outs Tile_AnyLike:$result);
  let assemblyFormat = [{
    $ptr (`mask` $mask^)? (`other` $other^)? attr-dict
    `:` type($ptr) (`mask` type($mask)^)? (`other` type($other)^)? `->` type($result)
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "write elements where pointers point";
  let arguments = (ins Tile_PtrLike:$ptr, Tile_AnyLike:$value, Optional<Tile_MaskLike>:$mask,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">:$evict);
  let assemblyFormat = [{
    $ptr `,` $value (`mask` $mask^)? attr-dict `:` type($ptr) `,` type($value) (`mask` type($mask)^)?
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_MakeDescOp : Tile_Op<"make_desc", [Pure, SameVariadicOperandSize]> {
  let summary = "describe a strided array in global memory";
  let arguments = (ins Tile_PtrType:$base, Variadic<I64>:$shape, Variadic<I64>:$strides,
                       DefaultValuedAttr<Tile_PaddingAttr, "Padding::Zero">:$padding);
  let results = (outs Tile_DescType:$result);
  let assemblyFormat = [{
    $base `,` `shape` `[` $shape `]` `strides` `[` $strides `]` attr-dict `:` type($base) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_DescLoadOp : Tile_Op<"desc_load", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "read one block of a described array";
  let arguments = (ins Tile_DescType:$desc, Variadic<I32>:$offsets,
                       OptionalAttr<DenseI32ArrayAttr>:$boundary,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">:$evict);
  let results = (outs Tile_NumberTile:$result);
  let assemblyFormat = "$desc `[` $offsets `]` attr-dict `:` type($desc) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DescStoreOp : Tile_Op<"desc_store", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "write one block of a described array";
  let arguments = (ins Tile_DescType:$desc, Variadic<I32>:$offsets, Tile_NumberTile:$value,
                       OptionalAttr<DenseI32ArrayAttr>:$boundary,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">:$evict);
  let assemblyFormat = "$desc `[` $offsets `]` `,` $value attr-dict `:` type($desc) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_MakeBlockPtrOp : Tile_Op<"make_block_ptr", [Pure, AttrSizedOperandSegments]> {
  let summary = "a movable block of a strided array";
  let arguments = (ins Tile_PtrType:$base, Variadic<I64>:$shape, Variadic<I64>:$strides, Variadic<I32>:$offsets,
                       DenseI32ArrayAttr:$order);
  let results = (outs Tile_BlockPtrType:$result);
  let assemblyFormat = [{
    $base `,` `shape` `[` $shape `]` `strides` `[` $strides `]` `offsets` `[` $offsets `]` attr-dict
    `:` type($base) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_AdvanceOp : Tile_Op<"advance", [Pure, AllTypesMatch<["ptr", "result"]>]> {
  let summary = "move a block pointer";
  let arguments = (ins Tile_BlockPtrType:$ptr, Variadic<I32>:$offsets);
  let results = (outs Tile_BlockPtrType:$result);
  let assemblyFormat = "$ptr `[` $offsets `]` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_BlockLoadOp : Tile_Op<"block_load", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "read the block a block pointer points at";
  let arguments = (ins Tile_BlockPtrType:$ptr, DefaultValuedAttr<DenseI32ArrayAttr, "{}">:$boundary,
                       OptionalAttr<Tile_PaddingAttr>:$padding,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">:$evict);
  let results = (outs Tile_NumberTile:$result);
  let assemblyFormat = "$ptr attr-dict `:` type($ptr) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_BlockStoreOp : Tile_Op<"block_store", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "write the block a block pointer points at";
  let arguments = (ins Tile_BlockPtrType:$ptr, Tile_NumberTile:$value,
                       DefaultValuedAttr<DenseI32ArrayAttr, "{}">:$boundary,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "Eviction::Normal">:$evict);
  let assemblyFormat = "$ptr `,` $value attr-dict `:` type($ptr) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_AtomicRMWOp : Tile_Op<"atomic_rmw", [AllTypesMatch<["value", "result"]>, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "atomically combine values into memory, returning what was there";
  let arguments = (ins Tile_RMWKindAttr:$kind, Tile_PtrLike:$ptr, Tile_NumberLike:$value, Optional<Tile_MaskLike>:$mask,
                       Tile_MemSemanticAttr:$sem, Tile_MemScopeAttr:$scope);
  let results = (outs Tile_NumberLike:$result);
  let assemblyFormat = [{
    $kind $sem $scope $ptr `,` $value (`mask` $mask^)? attr-dict
    `:` type($ptr) `,` type($value) (`mask` type($mask)^)?
  }];
  let hasVerifier = 1;
}

def Tile_AtomicCASOp : Tile_Op<"atomic_cas", [AllTypesMatch<["compare", "value", "result"]>, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "atomic compare and swap, returning what was there";
  let arguments = (ins Tile_PtrLike:$ptr, Tile_NumberLike:$compare, Tile_NumberLike:$value,
                       Tile_MemSemanticAttr:$sem, Tile_MemScopeAttr:$scope);
  let results = (outs Tile_NumberLike:$result);
  let assemblyFormat = [{
    $sem $scope $ptr `,` $compare `,` $value attr-dict `:` type($ptr) `,` type($value)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Creation and shape
//===----------------------------------------------------------------------===//

def Tile_MakeRangeOp : Tile_Op<"make_range", [Pure]> {
  let summary = "start, start + 1, ..., end - 1";
  let arguments = (ins I32Attr:$start, I32Attr:$end);
  let results = (outs StaticShapeTensorOf<[I32]>:$result);
  let assemblyFormat = "$start `to` $end attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "a tile whose elements are one scalar";
  let arguments = (ins Tile_Element:$value);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_UnsplatOp : Tile_Op<"unsplat", [Pure]> {
  let summary = "the scalar of a tile with one element";
  let arguments = (ins Tile_Tile:$value);
  let results = (outs Tile_Element:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_ExpandDimsOp : Tile_Op<"expand_dims", [Pure]> {
  let summary = "insert a dimension of size 1";
  let arguments = (ins Tile_Tile:$value, I32Attr:$axis);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$value $axis attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "repeat along dimensions of size 1";
  let arguments = (ins Tile_Tile:$value);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_ReshapeOp : Tile_Op<"reshape", [Pure]> {
  let summary = "same elements in row-major order, another shape";
  let arguments = (ins Tile_Tile:$value);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_TransOp : Tile_Op<"trans", [Pure]> {
  let summary = "permute dimensions: result dimension i is input dimension order[i]";
  let arguments = (ins Tile_Tile:$value, DenseI32ArrayAttr:$order);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$value $order attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_JoinOp : Tile_Op<"join", [Pure, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "pair two tiles along a new innermost dimension of size 2";
  let arguments = (ins Tile_Tile:$lhs, Tile_Tile:$rhs);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SplitOp : Tile_Op<"split", [Pure, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "the two halves of an innermost dimension of size 2";
  let arguments = (ins Tile_Tile:$value);
  let results = (outs Tile_Tile:$lhs, Tile_Tile:$rhs);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($lhs)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_CatOp : Tile_Op<"cat", [Pure]> {
  let summary = "two tiles one after the other along a dimension";
  let arguments = (ins Tile_Tile:$lhs, Tile_Tile:$rhs, I32Attr:$axis);
  let results = (outs Tile_Tile:$result);
  let assemblyFormat = "$lhs `,` $rhs $axis attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "matrix product added to an accumulator";
  let arguments = (ins Tile_NumberTile:$lhs, Tile_NumberTile:$rhs, Tile_NumberTile:$acc,
                       DefaultValuedAttr<Tile_PrecisionAttr, "Precision::IEEE">:$precision,
                       DefaultValuedAttr<I32Attr, "0">:$maxImpreciseAcc);
  let results = (outs Tile_NumberTile:$result);
  let assemblyFormat = "$lhs `,` $rhs `,` $acc attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure, SameOperandsShape, SingleBlock]> {
  let summary = "combine the elements along a dimension";
  let arguments = (ins Variadic<Tile_NumberTile>:$operands, I32Attr:$axis);
  let results = (outs Variadic<Tile_NumberLike>:$results);
  let regions = (region SizedRegion<1>:$combine);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_ScanOp : Tile_Op<"scan", [Pure, SameOperandsShape, SingleBlock]> {
  let summary = "running combination along a dimension";
  let arguments = (ins Variadic<Tile_NumberTile>:$operands, I32Attr:$axis, UnitAttr:$reverse);
  let results = (outs Variadic<Tile_NumberTile>:$results);
  let regions = (region SizedRegion<1>:$combine);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["ReduceOp", "ScanOp", "InlineAsmOp"]>]> {
  let summary = "results of a combine or portable region";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{}]>];
}

def Tile_GatherOp : Tile_Op<"gather", [Pure]> {
  let summary = "pick elements along a dimension by index";
  let arguments = (ins Tile_NumberTile:$source, Tile_IntTile:$indices, I32Attr:$axis);
  let results = (outs Tile_NumberTile:$result);
  let assemblyFormat = "$source `[` $indices `]` $axis attr-dict `:` type($source) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_HistogramOp : Tile_Op<"histogram", [Pure]> {
  let summary = "how often each of 0..n-1 occurs";
  let arguments = (ins Tile_IntTile:$value, Optional<Tile_I1Tile>:$mask);
  let results = (outs StaticShapeTensorOf<[I32]>:$result);
  let assemblyFormat = "$value (`mask` $mask^)? attr-dict `:` type($value) (`mask` type($mask)^)? `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SortOp : Tile_Op<"sort", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "sort along the last dimension";
  let arguments = (ins Tile_NumberTile:$value, UnitAttr:$descending, UnitAttr:$isUnsigned);
  let results = (outs Tile_NumberTile:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_TopkOp : Tile_Op<"topk", [Pure]> {
  let summary = "the k first elements of the sorted last dimension";
  let arguments = (ins Tile_NumberTile:$value, UnitAttr:$ascending, UnitAttr:$isUnsigned);
  let results = (outs Tile_NumberTile:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Escape hatches and debugging
//===----------------------------------------------------------------------===//

def Tile_InlineAsmOp : Tile_Op<"inline_asm", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "target assembly applied to elements, with an optional portable body";
  let arguments = (ins Variadic<Tile_NumberLike>:$operands, StrAttr:$assembly, StrAttr:$constraints,
                       UnitAttr:$isPure, DefaultValuedAttr<I32Attr, "1">:$packed);
  let results = (outs Variadic<Tile_NumberLike>:$results);
  let regions = (region MaxSizedRegion<1>:$portable);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_ExternCallOp : Tile_Op<"extern_call", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "call a named scalar library function on each element";
  let arguments = (ins Variadic<Tile_NumberLike>:$operands, StrAttr:$symbol, StrAttr:$library, UnitAttr:$isPure);
  let results = (outs Tile_NumberLike:$result);
  let assemblyFormat = "$symbol `from` $library `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}

def Tile_PrintOp : Tile_Op<"print", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "show values, with the program id and coordinates";
  let arguments = (ins StrAttr:$prefix, Variadic<Tile_AnyLike>:$operands, UnitAttr:$hex,
                       DefaultValuedAttr<DenseI32ArrayAttr, "{}">:$isSigned);
  let assemblyFormat = "$prefix ($operands^ `:` type($operands))? attr-dict";
}

def Tile_AssertOp : Tile_Op<"assert", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "stop with a message unless every element holds";
  let arguments = (ins Tile_MaskLike:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
  let hasCanonicalizer = 1;
}

def Tile_AssumeOp : Tile_Op<"assume", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a promise the analysis may use";
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

def Tile_BarrierOp : Tile_Op<"barrier", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "order this program's memory accesses";
  let assemblyFormat = "attr-dict";
}

#endif // KILN_TILE_OPS_TD
