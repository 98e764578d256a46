// Types of the kgpu dialect. Tensors are MLIR's, with a layout as encoding; shared memory, channels, cursors and tensor
// maps have types of their own.
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
    `!kgpu.mem<4x32xf32, #layout.map<...>>`: the layout maps offsets (in elements) to elements of the tile. An `i1`
    takes one byte, a pointer eight. In a cluster, every CTA has such a memory at the same offset; CTAs over which the
    layout replicates each hold the whole tile.

    - `mem_c1`: at least one side, each 2^k * m with m odd and at most 31.
    - `mem_c2`: the element is a number or a pointer.
    - `mem_c3`: the layout is a `#layout.map` of that shape with coordinates offset and cta only.

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

def Kgpu_ChannelType : Kgpu_TypeDef<"Channel", "channel"> {
  let summary = "a ring of slots in shared memory";
  let description = [{
    `!kgpu.channel<4 x (!kgpu.mem<...>, !kgpu.mem<...>)>`: each slot holds one tile per part. The copies that fill the
    parts and the products that read them dictate the parts' layouts. A channel without parts, `<1 x ()>`, only signals
    that something has happened, such as one role handing its turn to another.

    - `channel_type_c1`: 1 to 16384 slots.
    - `channel_type_c2`: every part is a `!kgpu.mem`.

    ```mlir
    func.func private @types(!kgpu.channel<4 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>)
    ```
  }];
  let parameters = (ins "int32_t":$slots, ArrayRefParameter<"::mlir::Type">:$parts);
  let assemblyFormat = "`<` $slots `x` custom<Parts>($parts) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    MemType getPart(unsigned index) const { return ::mlir::cast<MemType>(getParts()[index]); }
    /// Bytes that arrive in one slot in one cta.
    int64_t getSlotBytes() const;
  }];
}

def Kgpu_CursorType : Kgpu_TypeDef<"Cursor", "cursor"> {
  let summary = "a place in a ring: which slot, and which time around";
  let description = [{
    `!kgpu.cursor<4>`: a slot number below 4 and the parity of the rounds made so far. Lowered to two scalars.

    - `cursor_type_c1`: at least one slot.

    ```mlir
    func.func private @types(!kgpu.cursor<4>)
    ```
  }];
  let parameters = (ins "int32_t":$slots);
  let assemblyFormat = "`<` $slots `>`";
  let genVerifyDecl = 1;
}

def Kgpu_TensorMapType : Kgpu_TypeDef<"TensorMap", "tensor_map"> {
  let summary = "how the copy engine sees a described array";
  let description = [{
    An argument of the launch that is derived from others: extents, strides, the box that one copy moves and its
    swizzle. It takes 128 bytes in the kernel's parameters; a value of this type is its address. `kgpu.tensor_map`
    creates them.

    ```mlir
    func.func private @types(!kgpu.tensor_map)
    ```
  }];
}

#endif // KILN_KGPU_TYPES_TD
