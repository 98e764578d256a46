// Ops that make tiles and change their shape.
#ifndef KILN_TILE_SHAPE_TD
#define KILN_TILE_SHAPE_TD

include "TileEnums.td"

def Tile_MakeRangeOp : Tile_Op<"make_range", [Pure]> {
  let summary = "start, start + 1, ..., end - 1";
  let description = [{
    Element i is `start + i`.

    - `make_range_c1`: start is less than end.
    - `make_range_c2`: the result has one dimension, of size end - start.

    ```mlir
    func.func @make_range() -> tensor<64xi32> {
      %r = tile.make_range 0 to 64 : tensor<64xi32>
      return %r : tensor<64xi32>
    }
    ```
  }];
  let arguments = (ins Arg<I32Attr, "first element">:$start, Arg<I32Attr, "one past the last element">:$end);
  let results = (outs Res<Tile_I32Tile, "the range">:$result);
  let assemblyFormat = "$start `to` $end attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "a tile whose elements are one scalar";
  let description = [{
    Every element of the result is the value.

    - `splat_c1`: the result's element type is the type of the value.

    ```mlir
    func.func @splat(%x: f32) -> tensor<64x32xf32> {
      %t = tile.splat %x : f32 -> tensor<64x32xf32>
      return %t : tensor<64x32xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Element, "the scalar">:$value);
  let results = (outs Res<Tile_Tile, "the tile">:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_UnsplatOp : Tile_Op<"unsplat", [Pure]> {
  let summary = "the scalar of a tile with one element";
  let description = [{
    The only element.

    - `unsplat_c1`: the tile has one element.
    - `unsplat_c2`: the result has the tile's element type.

    ```mlir
    func.func @unsplat(%t: tensor<1x1xf32>) -> f32 {
      %x = tile.unsplat %t : tensor<1x1xf32> -> f32
      return %x : f32
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "a tile of one element">:$value);
  let results = (outs Res<Tile_Element, "its element">:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_ExpandDimsOp : Tile_Op<"expand_dims", [Pure]> {
  let summary = "insert a dimension of size 1";
  let description = [{
    Dimension `axis` of the result has size 1; the other dimensions are the value's, in order.

    - `expand_dims_c1`: the axis is one of the result's dimensions.
    - `expand_dims_c2`: the result is the value with a 1 inserted at the axis.

    ```mlir
    func.func @expand_dims(%x: tensor<64xf32>) -> tensor<64x1xf32> {
      %y = tile.expand_dims %x 1 : tensor<64xf32> -> tensor<64x1xf32>
      return %y : tensor<64x1xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "the tile">:$value, Arg<I32Attr, "position of the new dimension">:$axis);
  let results = (outs Res<Tile_Tile, "the same elements">:$result);
  let assemblyFormat = "$value $axis attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "repeat along dimensions of size 1";
  let description = [{
    Along each dimension in which the result is larger, its elements all equal the value's only one there.

    - `broadcast_c1`: value and result have the same rank and element type.
    - `broadcast_c2`: each dimension of the value equals the result's or is 1.

    ```mlir
    func.func @broadcast(%x: tensor<64x1xf32>) -> tensor<64x32xf32> {
      %y = tile.broadcast %x : tensor<64x1xf32> -> tensor<64x32xf32>
      return %y : tensor<64x32xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "the tile">:$value);
  let results = (outs Res<Tile_Tile, "the larger tile">:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_ReshapeOp : Tile_Op<"reshape", [Pure]> {
  let summary = "same elements in row-major order, another shape";
  let description = [{
    Element n of the result, counted in row-major order, is element n of the value.

    - `reshape_c1`: value and result have the same element type.
    - `reshape_c2`: value and result have the same number of elements.

    ```mlir
    func.func @reshape(%x: tensor<64x32xf32>) -> tensor<2048xf32> {
      %y = tile.reshape %x : tensor<64x32xf32> -> tensor<2048xf32>
      return %y : tensor<2048xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "the tile">:$value);
  let results = (outs Res<Tile_Tile, "the same elements">:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_TransOp : Tile_Op<"trans", [Pure]> {
  let summary = "permute dimensions: result dimension i is input dimension order[i]";
  let description = [{
    `result[i_0, i_1, ...] = value[j]` where `j[order[d]] = i_d`.

    - `trans_c1`: the order is a permutation of the value's dimensions.
    - `trans_c2`: the result has the element type and the permuted shape of the value.

    ```mlir
    func.func @trans(%x: tensor<64x32xf32>) -> tensor<32x64xf32> {
      %y = tile.trans %x [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
      return %y : tensor<32x64xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "the tile">:$value,
                       Arg<DenseI32ArrayAttr, "the value's dimension for each of the result's">:$order);
  let results = (outs Res<Tile_Tile, "the same elements">:$result);
  let assemblyFormat = "$value $order attr-dict `:` type($value) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_JoinOp : Tile_Op<"join", [Pure, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "pair two tiles along a new innermost dimension of size 2";
  let description = [{
    `result[..., 0] = lhs[...]`, `result[..., 1] = rhs[...]`.

    - `join_c1`: the result is the inputs' shape with an innermost 2 added, of the same element type.

    ```mlir
    func.func @join(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64x2xf32> {
      %t = tile.join %a, %b : tensor<64xf32> -> tensor<64x2xf32>
      return %t : tensor<64x2xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "elements with last index 0">:$lhs,
                       Arg<Tile_Tile, "elements with last index 1">:$rhs);
  let results = (outs Res<Tile_Tile, "the pairs">:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_SplitOp : Tile_Op<"split", [Pure, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "the two halves of an innermost dimension of size 2";
  let description = [{
    `lhs[...] = value[..., 0]`, `rhs[...] = value[..., 1]`.

    - `split_c1`: the value has at least two dimensions, the innermost of size 2.
    - `split_c2`: each result is the value's shape without the innermost dimension, of the same element type.

    ```mlir
    func.func @split(%t: tensor<64x2xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
      %a, %b = tile.split %t : tensor<64x2xf32> -> tensor<64xf32>
      return %a, %b : tensor<64xf32>, tensor<64xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "the pairs">:$value);
  let results = (outs Res<Tile_Tile, "elements with last index 0">:$lhs,
                      Res<Tile_Tile, "elements with last index 1">:$rhs);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($lhs)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_CatOp : Tile_Op<"cat", [Pure]> {
  let summary = "two tiles one after the other along a dimension";
  let description = [{
    Along the axis, the elements of `lhs` come first, then those of `rhs`.

    - `cat_c1`: both inputs and the result have the same rank and element type.
    - `cat_c2`: the axis is one of the dimensions.
    - `cat_c3`: the sizes add up along the axis and are equal in the other dimensions.

    ```mlir
    func.func @cat(%a: tensor<64x32xf32>, %b: tensor<64x64xf32>) -> tensor<64x96xf32> {
      %t = tile.cat %a, %b 1 : tensor<64x32xf32>, tensor<64x64xf32> -> tensor<64x96xf32>
      return %t : tensor<64x96xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_Tile, "first along the axis">:$lhs, Arg<Tile_Tile, "second along the axis">:$rhs,
                       Arg<I32Attr, "the dimension that grows">:$axis);
  let results = (outs Res<Tile_Tile, "both">:$result);
  let assemblyFormat = "$lhs `,` $rhs $axis attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KILN_TILE_SHAPE_TD
