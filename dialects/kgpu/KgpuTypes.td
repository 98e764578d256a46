// Types of the kgpu dialect. Tensors are MLIR's, with a layout as encoding; only memory is ours.
#ifndef KILN_KGPU_TYPES_TD
#define KILN_KGPU_TYPES_TD

include "KgpuDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonTypeConstraints.td"
include "TileTypes.td"

class Kgpu_TypeDef<string name, string typeMnemonic, list<Trait> traits = []>
    : TypeDef<Kgpu_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}

def Kgpu_MemType : Kgpu_TypeDef<"Mem", "mem"> {
  let summary = "a tile in shared memory";
  let description = [{
    `!kgpu.mem<4x32xf32, #layout.map<...>>`: the layout maps offsets (in elements) to elements of the tile. An `i1` takes
    a byte, a pointer eight. In a cluster, every CTA has such a memory at the same offset; ctas that replicate in the
    layout each hold the whole tile.

    - `mem_c1`: at least one side, each 2^k * m with m odd and at most 31.
    - `mem_c2`: the element is a number or a pointer.
    - `mem_c3`: the layout is a `#layout.map` of that shape whose coordinates are offset and cta only.

    ```mlir
    func.func private @types(!kgpu.mem<4x32xf32, #layout.map<row_major [4, 32]>>)
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType, "::mlir::Attribute":$layout);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType,
                                                      "::mlir::Attribute":$layout), [{
    return $_get(elementType.getContext(), shape, elementType, layout);
  }]>];
  let extraClassDeclaration = [{
    /// Bytes of one element: an i1 takes one, a pointer eight.
    int64_t getElementBytes() const;
    /// Bytes of one slot in one CTA.
    int64_t getBytes() const;
    int64_t getRank() const { return getShape().size(); }
  }];
}

#endif // KILN_KGPU_TYPES_TD
