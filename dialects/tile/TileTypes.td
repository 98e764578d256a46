// Types of the tile dialect: pointers, descriptors and block pointers. Tiles are MLIR's ranked tensors.
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
  let description = [{
    `!tile.ptr<f32>`: pointers step in whole elements (see `tile.addptr`). An `i1` in memory is a byte, 0 or 1.

    - `ptr_c1`: the pointee is a number (i1, i8 to i64, f8, f16, bf16, f32, f64) or a pointer.

    ```mlir
    func.func private @types(!tile.ptr<f32>, tensor<64x!tile.ptr<i8>>, !tile.ptr<!tile.ptr<f16>>)
    ```
  }];
  let parameters = (ins "::mlir::Type":$pointee);
  let assemblyFormat = "`<` $pointee `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$pointee), [{
    return $_get(pointee.getContext(), pointee);
  }]>];
  let genVerifyDecl = 1;
}

def Tile_DescType : Tile_TypeDef<"Desc", "desc"> {
  let summary = "a strided array in global memory, accessed in blocks of one shape";
  let description = [{
    `!tile.desc<tensor<64x32xf16>>`: base, extents and strides are values of the program (`tile.make_desc`); the shape
    of the block is part of the type.

    - `desc_c1`: the block is a legal tile of numbers.

    ```mlir
    func.func private @types(!tile.desc<tensor<64x32xf16>>)
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$block);
  let assemblyFormat = "`<` $block `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$block), [{
    return $_get(block.getContext(), block);
  }]>];
  let genVerifyDecl = 1;
}

def Tile_BlockPtrType : Tile_TypeDef<"BlockPtr", "block_ptr"> {
  let summary = "a descriptor together with the position of one block in it";
  let description = [{
    `!tile.block_ptr<tensor<64x32xf16>>`: what `tile.make_block_ptr` makes and `tile.advance` moves. Lowered to
    descriptors and offsets by the tile passes.

    - `block_ptr_c1`: the block is a legal tile of numbers.

    ```mlir
    func.func private @types(!tile.block_ptr<tensor<64x32xf16>>)
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$block);
  let assemblyFormat = "`<` $block `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$block), [{
    return $_get(block.getContext(), block);
  }]>];
  let genVerifyDecl = 1;
}

// Element types a tile may hold.
def Tile_Int : AnyTypeOf<[I1, I8, I16, I32, I64], "integer of 1 to 64 bits">;
def Tile_Float : AnyTypeOf<[F8E4M3FN, F8E5M2, F16, BF16, F32, F64], "float of 8 to 64 bits">;
def Tile_Number : AnyTypeOf<[Tile_Int, Tile_Float], "number">;
def Tile_Element : AnyTypeOf<[Tile_Number, Tile_PtrType], "number or pointer">;

// A tile: a ranked tensor of static shape. Sides, rank and size are checked for all ops by Tile_SideRule.
class Tile_TileOf<list<Type> elements, string text> : StaticShapeTensorOf<elements> {
  let summary = text;
}
def Tile_Tile : Tile_TileOf<[Tile_Element], "tile of numbers or pointers">;
def Tile_NumberTile : Tile_TileOf<[Tile_Number], "tile of numbers">;
def Tile_FloatTile : Tile_TileOf<[Tile_Float], "tile of floats">;
def Tile_IntTile : Tile_TileOf<[Tile_Int], "tile of integers">;
def Tile_I1Tile : Tile_TileOf<[I1], "tile of i1">;
def Tile_I32Tile : Tile_TileOf<[I32], "tile of i32">;
def Tile_I64Tile : Tile_TileOf<[I64], "tile of i64">;
def Tile_PtrTile : Tile_TileOf<[Tile_PtrType], "tile of pointers">;

// Scalar or tile of something.
def Tile_AnyLike : AnyTypeOf<[Tile_Element, Tile_Tile], "number, pointer or tile of them">;
def Tile_NumberLike : AnyTypeOf<[Tile_Number, Tile_NumberTile], "number or tile of numbers">;
def Tile_IntLike : AnyTypeOf<[Tile_Int, Tile_IntTile], "integer or tile of integers">;
def Tile_MaskLike : AnyTypeOf<[I1, Tile_I1Tile], "i1 or tile of i1">;
def Tile_PtrLike : AnyTypeOf<[Tile_PtrType, Tile_PtrTile], "pointer or tile of pointers">;
def Tile_I32Like : AnyTypeOf<[I32, Tile_I32Tile], "i32 or tile of i32">;
def Tile_I64Like : AnyTypeOf<[I64, Tile_I64Tile], "i64 or tile of i64">;

#endif // KILN_TILE_TYPES_TD
