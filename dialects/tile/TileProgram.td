// Ops on the program instance, the launches around it, pointers, and promises about values.
#ifndef KILN_TILE_PROGRAM_TD
#define KILN_TILE_PROGRAM_TD

include "TileEnums.td"

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "position of this program instance in the virtual grid";
  let description = [{
    The coordinate of the running instance along one axis of the launch grid: at least 0, less than
    `tile.num_programs` of that axis, and uniform throughout the instance.

    - `program_id_c1`: the axis is x, y or z.

    ```mlir
    func.func @program_id() -> i32 {
      %pid = tile.program_id x : i32
      return %pid : i32
    }
    ```
  }];
  let arguments = (ins Arg<Tile_AxisAttr, "axis of the grid">:$axis);
  let results = (outs Res<I32, "the coordinate">:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

def Tile_NumProgramsOp : Tile_Op<"num_programs", [Pure]> {
  let summary = "extent of the virtual grid";
  let description = [{
    How many instances the launch has along one axis; at least 1.

    - `num_programs_c1`: the axis is x, y or z.

    ```mlir
    func.func @num_programs() -> i32 {
      %n = tile.num_programs y : i32
      return %n : i32
    }
    ```
  }];
  let arguments = (ins Arg<Tile_AxisAttr, "axis of the grid">:$axis);
  let results = (outs Res<I32, "the extent">:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

def Tile_LaunchDependentsOp : Tile_EffectOp<"launch_dependents"> {
  let summary = "from here on the next launch may start";
  let description = [{
    If the next launch was asked to overlap with the end of this one, it may start once every instance of this launch
    has reached this op or ended. The op promises nothing about memory: the next launch sees what this one writes only
    after it has waited (`tile.wait_for_grid`). Where launches do not overlap, the op does nothing.

    ```mlir
    func.func @launch_dependents(%p: !tile.ptr<f32>) -> f32 {
      %x = tile.load %p : !tile.ptr<f32> -> f32
      tile.launch_dependents
      return %x : f32
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_WaitForGridOp : Tile_EffectOp<"wait_for_grid"> {
  let summary = "wait until the previous launch has completed";
  let description = [{
    What the previous launch wrote is visible after the op. Before the op, the program may neither read nor write memory
    that the previous launch uses. Where launches do not overlap, the op does nothing.

    ```mlir
    func.func @wait_for_grid(%p: !tile.ptr<f32>) -> f32 {
      tile.wait_for_grid
      %x = tile.load %p : !tile.ptr<f32> -> f32
      return %x : f32
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_AddPtrOp : Tile_Op<"addptr", [Pure, AllTypesMatch<["ptr", "result"]>]> {
  let summary = "advance a pointer by a number of elements";
  let description = [{
    `result = ptr + offset * sizeof(pointee)`, element by element. The offset is signed and extended to 64 bits before
    the multiplication, so the address arithmetic itself never wraps at 32 bits. The result may point anywhere; only an
    access has to be inside an object.

    - `addptr_c1`: pointer and offset have the same shape.
    - `addptr_c2`: the offset is not i1 (as a signed number its true would step backwards).

    ```mlir
    func.func @addptr(%p: tensor<64x!tile.ptr<f32>>, %o: tensor<64xi32>) -> tensor<64x!tile.ptr<f32>> {
      %q = tile.addptr %p, %o : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
      return %q : tensor<64x!tile.ptr<f32>>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrLike, "where to start">:$ptr,
                       Arg<Tile_IntLike, "signed number of elements">:$offset);
  let results = (outs Res<Tile_PtrLike, "the stepped pointer">:$result);
  let assemblyFormat = "$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Tile_PtrToIntOp : Tile_Op<"ptr_to_int", [Pure]> {
  let summary = "address of a pointer as a 64-bit integer";
  let description = [{
    The byte address.

    - `ptr_to_int_c1`: pointer and result have the same shape.

    ```mlir
    func.func @ptr_to_int(%p: !tile.ptr<f32>) -> i64 {
      %a = tile.ptr_to_int %p : !tile.ptr<f32> -> i64
      return %a : i64
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrLike, "the pointer">:$ptr);
  let results = (outs Res<Tile_I64Like, "its byte address">:$result);
  let assemblyFormat = "$ptr attr-dict `:` type($ptr) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_IntToPtrOp : Tile_Op<"int_to_ptr", [Pure]> {
  let summary = "pointer from a 64-bit address";
  let description = [{
    The pointer whose byte address is given. Address 0 is the null pointer.

    - `int_to_ptr_c1`: address and result have the same shape.

    ```mlir
    func.func @int_to_ptr(%a: tensor<64xi64>) -> tensor<64x!tile.ptr<f16>> {
      %p = tile.int_to_ptr %a : tensor<64xi64> -> tensor<64x!tile.ptr<f16>>
      return %p : tensor<64x!tile.ptr<f16>>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_I64Like, "byte address">:$address);
  let results = (outs Res<Tile_PtrLike, "the pointer">:$result);
  let assemblyFormat = "$address attr-dict `:` type($address) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_PtrCastOp : Tile_Op<"ptr_cast", [Pure]> {
  let summary = "same address, another pointee";
  let description = [{
    The address is unchanged; later steps and accesses use the new pointee.

    - `ptr_cast_c1`: pointer and result have the same shape.

    ```mlir
    func.func @ptr_cast(%p: !tile.ptr<f32>) -> !tile.ptr<i32> {
      %q = tile.ptr_cast %p : !tile.ptr<f32> -> !tile.ptr<i32>
      return %q : !tile.ptr<i32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_PtrLike, "the pointer">:$ptr);
  let results = (outs Res<Tile_PtrLike, "the same address">:$result);
  let assemblyFormat = "$ptr attr-dict `:` type($ptr) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_HintOp : Tile_Op<"hint", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "promises about a value: divisibility, contiguity, constancy per dimension";
  let description = [{
    The result is the value. Along dimension d: every run of `contiguity[d]` elements counts up by one, and the first
    element of each run is a multiple of `divisibility[d]` (for pointers: of that many bytes); every run of
    `constancy[d]` elements is equal. A false promise makes the behaviour of the program undefined.

    - `hint_c1`: each list has one entry per dimension (one entry for a scalar).
    - `hint_c2`: every entry is at least 1.
    - `hint_c3`: the value is an integer, a pointer, or a tile of them.

    ```mlir
    func.func @hint(%x: tensor<64xi32>) -> tensor<64xi32> {
      %y = tile.hint %x {contiguity = array<i64: 64>, divisibility = array<i64: 16>} : tensor<64xi32>
      return %y : tensor<64xi32>
    }
    ```
  }];
  let arguments = (ins Arg<Tile_AnyLike, "the value the promises are about">:$value,
                       Arg<OptionalAttr<DenseI64ArrayAttr>, "divisor of the first element of a run">:$divisibility,
                       Arg<OptionalAttr<DenseI64ArrayAttr>, "length of runs that count up by one">:$contiguity,
                       Arg<OptionalAttr<DenseI64ArrayAttr>, "length of runs of equal elements">:$constancy);
  let results = (outs Res<Tile_AnyLike, "the value">:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

#endif // KILN_TILE_PROGRAM_TD
