// Escape hatches (assembly, library calls) and debugging (print, assert, assume, barrier).
#ifndef KILN_TILE_DEBUG_TD
#define KILN_TILE_DEBUG_TD

include "TileEnums.td"

def Tile_InlineAsmOp : Tile_EffectOp<"inline_asm"> {
  let summary = "target assembly applied to elements, with an optional portable body";
  let description = [{
    The assembly runs once per `packed` consecutive elements. Elements narrower than 32 bits are packed into 32-bit
    registers, wider ones take a register each; outputs (`=r`) come before inputs in `constraints`, clobbers (`~{...}`)
    last. A target that cannot run the text uses the `portable` region, which maps one element of every operand to one
    of every result; without that region, the target refuses the kernel and names it.

    - `inline_asm_c1`: operands and results have one shape.
    - `inline_asm_c2`: `packed` is at least 1 and divides the number of elements.
    - `inline_asm_c3`: the constraints list one output per register of the results, then one input per register of the
      operands.
    - `inline_asm_c4`: the portable region takes one scalar per operand.
    - `inline_asm_c5`: the portable region ends in `tile.yield` of one scalar per result.
    - `inline_asm_c6`: an op without results is not pure.

    ```mlir
    func.func @inline_asm(%a: tensor<64xi32>, %b: tensor<64xi32>) -> tensor<64xi32> {
      %c = tile.inline_asm "add.s32 $0, $1, $2;" "=r,r,r" (%a, %b) portable {
      ^bb0(%x: i32, %y: i32):
        %z = arith.addi %x, %y : i32
        tile.yield %z : i32
      } {isPure} : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
      return %c : tensor<64xi32>
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<Tile_NumberLike>, "inputs, of one shape">:$operands,
                       Arg<StrAttr, "the text, registers as $0, $1, ...">:$assembly,
                       Arg<StrAttr, "one constraint per register, separated by commas">:$constraints,
                       Arg<UnitAttr, "no effect but the results">:$isPure,
                       Arg<DefaultValuedAttr<I32Attr, "1">, "elements per execution of the text">:$packed);
  let results = (outs Res<Variadic<Tile_NumberLike>, "outputs, of the inputs' shape">:$results);
  let regions = (region MaxSizedRegion<1>:$portable);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_ExternCallOp : Tile_EffectOp<"extern_call"> {
  let summary = "call a named scalar library function on each element";
  let description = [{
    The function takes one element of every operand and returns one element. `library` names where the target finds it.

    - `extern_call_c1`: operands and result have one shape.
    - `extern_call_c2`: the symbol is not empty.

    ```mlir
    func.func @extern_call(%x: tensor<64xf32>) -> tensor<64xf32> {
      %y = tile.extern_call "erfcx" from "libdevice" (%x) {isPure} : (tensor<64xf32>) -> tensor<64xf32>
      return %y : tensor<64xf32>
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<Tile_NumberLike>, "arguments, of one shape">:$operands,
                       Arg<StrAttr, "name of the function">:$symbol, Arg<StrAttr, "name of its library">:$library,
                       Arg<UnitAttr, "no effect but the result">:$isPure);
  let results = (outs Res<Tile_NumberLike, "what the calls return">:$result);
  let assemblyFormat = "$symbol `from` $library `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}

def Tile_PrintOp : Tile_EffectOp<"print"> {
  let summary = "show values, with the program id and coordinates";
  let description = [{
    One line per element: program id, coordinate in the tile, prefix, value. Integers are signed where `isSigned` says 1
    (all, when it is empty), and hexadecimal with `hex`.

    - `print_c1`: `isSigned` is empty or has one entry per operand.
    - `print_c2`: entries of `isSigned` are 0 or 1.

    ```mlir
    func.func @print(%x: tensor<64xi32>, %y: f32) {
      tile.print "x, y" %x, %y : tensor<64xi32>, f32 {isSigned = array<i32: 1, 0>}
      return
    }
    ```
  }];
  let arguments = (ins Arg<StrAttr, "text before the value">:$prefix,
                       Arg<Variadic<Tile_AnyLike>, "the values">:$operands,
                       Arg<UnitAttr, "in hexadecimal">:$hex,
                       Arg<DefaultValuedAttr<DenseI32ArrayAttr, "{}">, "1 for each signed operand">:$isSigned);
  let assemblyFormat = "$prefix ($operands^ `:` type($operands))? attr-dict";
  let hasVerifier = 1;
}

def Tile_AssertOp : Tile_EffectOp<"assert"> {
  let summary = "fail with a message unless every element is true";
  let description = [{
    If any element of the condition is false, the launch fails with the message, the location and the program id. What
    the program wrote before stays written.

    - `assert_c1`: the condition is an i1 or a tile of i1.

    ```mlir
    func.func @assert(%c: tensor<64xi1>) {
      tile.assert %c, "index out of range" : tensor<64xi1>
      return
    }
    ```
  }];
  let arguments = (ins Arg<Tile_MaskLike, "what has to hold">:$condition, Arg<StrAttr, "what to say">:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
  let hasCanonicalizer = 1;
}

def Tile_AssumeOp : Tile_EffectOp<"assume"> {
  let summary = "a promise that analyses may use";
  let description = [{
    The condition is true here; otherwise the program's behaviour is undefined. Costs nothing at run time.

    - `assume_c1`: the condition is a scalar i1.

    ```mlir
    func.func @assume(%n: i32) {
      %zero = arith.constant 0 : i32
      %c = arith.cmpi sge, %n, %zero : i32
      tile.assume %c
      return
    }
    ```
  }];
  let arguments = (ins Arg<I1, "what holds">:$condition);
  let assemblyFormat = "$condition attr-dict";
  let hasCanonicalizer = 1;
}

def Tile_UnlikelyOp : Tile_Op<"unlikely", [Pure]> {
  let summary = "whether any element is true, which is rare, or simply yes";
  let description = [{
    Yes where any element of the condition is true. Elsewhere the compiler may say yes, too, so a branch that it decides
    has to be right whenever it is taken, and only costs more. `kiln-take-unlikely` always says yes; the schedule
    `attention` asks, and computes what the branch needs once more rather than hold it ready.

    - `unlikely_c1`: the condition is an i1 or a tile of i1.

    ```mlir
    func.func @unlikely(%c: tensor<64xi1>) -> i1 {
      %any = tile.unlikely %c : tensor<64xi1>
      return %any : i1
    }
    ```
  }];
  let arguments = (ins Arg<Tile_MaskLike, "what rarely holds">:$condition);
  let results = (outs Res<I1, "true if any element is, or always">:$result);
  let assemblyFormat = "$condition attr-dict `:` type($condition)";
}

def Tile_BarrierOp : Tile_EffectOp<"barrier"> {
  let summary = "order this program's memory accesses";
  let description = [{
    Accesses of this program instance before the op are visible to its accesses after it. It orders nothing between
    instances; that takes atomics.

    ```mlir
    func.func @barrier(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %x: f32) -> f32 {
      tile.store %p, %x : !tile.ptr<f32>, f32
      tile.barrier
      %y = tile.load %q : !tile.ptr<f32> -> f32
      return %y : f32
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif // KILN_TILE_DEBUG_TD
