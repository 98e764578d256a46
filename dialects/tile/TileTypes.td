// Types of the tile dialect. Tiles themselves are MLIR's ranked tensors; only pointers and box handles are ours.
#ifndef KILN_TILE_TYPES_TD
#define KILN_TILE_TYPES_TD

include "TileDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonTypeConstraints.td"

class Tile_TypeDef<string name, string typeMnemonic, list<Trait> traits = []>
    : TypeDef<Tile_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}

def Tile_PtrType : Tile_TypeDef<"Ptr", "ptr"> {
  let summary = "address of an element in global memory";
  let description = [{`!tile.ptr<f32>`: pointers step in whole elements (see `tile.addptr`).}];
  let parameters = (ins "::mlir::Type":$pointee);
  let assemblyFormat = "`<` $pointee `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$pointee), [{
    return $_get(pointee.getContext(), pointee);
  }]>];
  let genVerifyDecl = 1;
}

def Tile_DescType : Tile_TypeDef<"Desc", "desc"> {
  let summary = "a strided array in global memory, accessed in blocks of one shape";
  let parameters = (ins "::mlir::RankedTensorType":$block);
  let assemblyFormat = "`<` $block `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$block), [{
    return $_get(block.getContext(), block);
  }]>];
  let genVerifyDecl = 1;
}

def Tile_BlockPtrType : Tile_TypeDef<"BlockPtr", "block_ptr"> {
  let summary = "a descriptor together with the position of one block in it";
  let parameters = (ins "::mlir::RankedTensorType":$block);
  let assemblyFormat = "`<` $block `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$block), [{
    return $_get(block.getContext(), block);
  }]>];
  let genVerifyDecl = 1;
}

// Element types a tile may hold.
def Tile_Int : AnyTypeOf<[I1, I8, I16, I32, I64]>;
def Tile_Float : AnyTypeOf<[F8E4M3FN, F8E5M2, F16, BF16, F32, F64]>;
def Tile_Number : AnyTypeOf<[Tile_Int, Tile_Float]>;
def Tile_Element : AnyTypeOf<[Tile_Number, Tile_PtrType]>;

// A tile: a ranked tensor of static shape. The side rule is checked by the dialect's verifiers (tile_side).
def Tile_Tile : StaticShapeTensorOf<[Tile_Element]>;
def Tile_NumberTile : StaticShapeTensorOf<[Tile_Number]>;
def Tile_IntTile : StaticShapeTensorOf<[Tile_Int]>;
def Tile_I1Tile : StaticShapeTensorOf<[I1]>;
def Tile_PtrTile : StaticShapeTensorOf<[Tile_PtrType]>;

// Scalar or tile of something.
def Tile_AnyLike : AnyTypeOf<[Tile_Element, Tile_Tile]>;
def Tile_NumberLike : AnyTypeOf<[Tile_Number, Tile_NumberTile]>;
def Tile_IntLike : AnyTypeOf<[Tile_Int, Tile_IntTile]>;
def Tile_MaskLike : AnyTypeOf<[I1, Tile_I1Tile]>;
def Tile_PtrLike : AnyTypeOf<[Tile_PtrType, Tile_PtrTile]>;
def Tile_I32Like : AnyTypeOf<[I32, StaticShapeTensorOf<[I32]>]>;
def Tile_I64Like : AnyTypeOf<[I64, StaticShapeTensorOf<[I64]>]>;

#endif // KILN_TILE_TYPES_TD
