// The layout dialect: one attribute, which puts a layout into the type of a tensor. See RATIONALE.md.
#ifndef KILN_LAYOUT_DIALECT_TD
#define KILN_LAYOUT_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"

def Layout_Dialect : Dialect {
  let name = "layout";
  let cppNamespace = "::kiln::layout";
  let summary = "where the elements of a tile live";
  let description = [{
    The dialect has no ops. `#layout.map<...>` wraps `kiln::layout::Layout` (Layout.h), an immutable value that maps
    registers of threads, or offsets of shared memory, to elements of a tile.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Layout_MapAttr : AttrDef<Layout_Dialect, "Map", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "map";
  let summary = "a layout, as the encoding of a tensor or the form of a piece of shared memory";
  let description = [{
    `#layout.map<blocked [4096] vector 8 warps 4>`: the constructor form where one fits, else the digits of each hardware
    coordinate, fastest first.

    - `map_c1`: every element has a place, and each digit moves as Layout.h says.
    - `map_c2`: as a tensor's encoding, the layout's sides are the tensor's.
    - `map_c3`: as a tensor's encoding, the layout maps registers (memory has a descriptor type of its own).

    ```mlir
    func.func private @rows(tensor<4096xf32, #layout.map<blocked [4096] vector 4 warps 4>>)
    func.func private @odd(tensor<3xf32, #layout.map<digits [3] reg 3*(1) lane (0) (0) (0) (0) (0)>>)
    ```
  }];
  let parameters = (ins "::kiln::layout::Layout":$layout);
  // The text is read and printed by the value itself.
  let hasCustomAssemblyFormat = 1;
  let genStorageClass = 0;
  let skipDefaultBuilders = 1;
  let genAccessors = 0;
  let extraClassDeclaration = [{
    static MapAttr get(::mlir::MLIRContext *context, const ::kiln::layout::Layout &layout);
    const ::kiln::layout::Layout &getLayout() const;
  }];
}

#endif // KILN_LAYOUT_DIALECT_TD
