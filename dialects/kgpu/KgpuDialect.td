// The kgpu dialect: tile programs whose values have places, plus shared memory and barriers. See RATIONALE.md.
#ifndef KILN_KGPU_DIALECT_TD
#define KILN_KGPU_DIALECT_TD

include "mlir/IR/OpBase.td"

def Kgpu_Dialect : Dialect {
  let name = "kgpu";
  let cppNamespace = "::kiln::kgpu";
  let summary = "tile programs on the threads of a GPU";
  let description = [{
    kgpu IR is tile IR on tensors whose type says where each element lives: the encoding is a `#layout.map`. The ops of
    `arith`, `math`, `scf` and `tile` keep their meaning; this dialect adds what tile IR cannot say: another layout of the
    same values, shared memory, barriers, and the parts of a reduction or scan that one warp can do alone.

    All threads of one CTA, or of one cluster of CTAs, run a program instance. A scalar has the same value in each
    thread. Module attributes: `kgpu.num_warps : i32`, `kgpu.num_groups : i32`, `kgpu.cluster : i32` (CTAs per
    instance).

    - `kgpu_c1`: every tensor among the operands and results of a kgpu op carries a `#layout.map`. For ops that
      schedules write before layouts are assigned, either all carry one or none.
    - `kgpu_c2`: `kgpu.num_warps` and `kgpu.cluster` are powers of two, at most 32 and 16 (layouts number them by bits);
      `kgpu.num_groups` is from 1 to 32.

    ```mlir
    func.func @rows(%x: tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>>)
        -> tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>> {
      %y = kgpu.convert %x : tensor<128xf32, #layout.map<blocked [128] vector 4 warps 4>>
        -> tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>
      return %y : tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>
    }
    ```
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = ["::kiln::tile::TileDialect", "::kiln::layout::LayoutDialect"];
}

#endif // KILN_KGPU_DIALECT_TD
