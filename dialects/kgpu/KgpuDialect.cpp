// Registers the kgpu dialect; syntax and checks of its types.
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FoldInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

#include "dialects/kgpu/KgpuDialect.cpp.inc"
#include "dialects/kgpu/KgpuEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/kgpu/KgpuAttrs.cpp.inc"

/// The parts of a channel, `(!kgpu.mem<...>, ...)`; the list may be empty.
static ParseResult parseParts(AsmParser &parser, SmallVector<Type> &parts) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                        [&] { return parser.parseType(parts.emplace_back()); });
}

static void printParts(AsmPrinter &printer, ArrayRef<Type> parts) { printer << '(' << parts << ')'; }

#define GET_TYPEDEF_CLASSES
#include "dialects/kgpu/KgpuTypes.cpp.inc"

namespace {
/// Constants are materialised in the role that uses them: its threads are not the kernel's, and no tile crosses into
/// it.
struct FoldInterface : DialectFoldInterface {
  using DialectFoldInterface::DialectFoldInterface;
  bool shouldMaterializeInto(Region *region) const final { return isa<RolesOp>(region->getParentOp()); }
};
} // namespace

void KgpuDialect::initialize() {
  addInterfaces<FoldInterface>();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/kgpu/KgpuTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/kgpu/KgpuAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/kgpu/KgpuOps.cpp.inc"
      >();
}

const layout::Layout &kgpu::layoutOf(Type type) {
  Attribute map = isa<MemType>(type) ? cast<MemType>(type).getLayout() : cast<RankedTensorType>(type).getEncoding();
  return cast<layout::MapAttr>(map).getLayout();
}

//===----------------------------------------------------------------------===//
// !kgpu.mem<4x32xf32, #layout.map<...>>
//===----------------------------------------------------------------------===//

Type MemType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  Attribute layout;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(element) ||
      parser.parseComma() || parser.parseAttribute(layout) || parser.parseGreater())
    return {};
  return parser.getChecked<MemType>(loc, parser.getContext(), shape, element, layout);
}

void MemType::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printDimensionList(getShape());
  printer << (getShape().empty() ? "" : "x") << getElementType() << ", " << getLayout() << ">";
}

LogicalResult MemType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape, Type elementType,
                              Attribute layout) {
  if (shape.empty() || !llvm::all_of(shape, tile::isLegalSide)) // mem_c1
    return emitError() << "expected sides of 2^k * m with m odd and at most " << tile::kMaxOddFactor
                       << ", at least one (because memory holds a tile), got [" << shape << "]";
  bool number = elementType.isSignlessInteger() || isa<FloatType>(elementType);
  if (!number && !isa<tile::PtrType>(elementType)) // mem_c2
    return emitError() << "expected elements that are numbers or pointers (because memory holds a tile), got "
                       << elementType;
  auto map = dyn_cast_or_null<layout::MapAttr>(layout);
  if (!map) // mem_c3
    return emitError() << "expected a #layout.map (because memory says where each element lies), got " << layout;
  const layout::Layout &places = map.getLayout();
  if (places.shape() != shape) // mem_c3
    return emitError() << "expected a layout of shape [" << shape << "] (because that is the memory's shape), got ["
                       << places.shape() << "]";
  for (layout::Coord coord :
       {layout::Coord::Reg, layout::Coord::Lane, layout::Coord::Warp, layout::Coord::Group}) // mem_c3
    if (places.size(coord) != 1)
      return emitError() << "expected a layout over offset and cta (because shared memory is not divided among "
                            "threads), got digits of "
                         << layout::coordName(coord);
  return success();
}

int64_t MemType::getElementBytes() const { return tile::memoryBytes(getElementType()); }
int64_t MemType::getBytes() const { return layoutOf(*this).size(layout::Coord::Offset) * getElementBytes(); }

//===----------------------------------------------------------------------===//
// Attributes of the module
//===----------------------------------------------------------------------===//

static ModuleOp moduleOf(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  return module ? module : op->getParentOfType<ModuleOp>();
}

int64_t kgpu::moduleNumber(Operation *op, StringRef name, int64_t otherwise) {
  ModuleOp module = moduleOf(op);
  auto attr = module ? module->getAttrOfType<IntegerAttr>(name) : IntegerAttr();
  return attr ? attr.getInt() : otherwise;
}

LogicalResult KgpuDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) { // kgpu_c2
  StringRef name = attribute.getName().getValue();
  bool digits = name != kNumGroupsAttrName;
  int64_t most = name == kClusterAttrName ? 16 : 32;
  if (digits && name != kNumWarpsAttrName && name != kClusterAttrName)
    return success();
  auto value = dyn_cast<IntegerAttr>(attribute.getValue());
  if (value && value.getType().isSignlessInteger(32) && value.getInt() >= 1 && value.getInt() <= most &&
      (!digits || llvm::isPowerOf2_64(value.getInt())))
    return success();
  return op->emitOpError() << "expected " << name << " to be an i32 from 1 to " << most
                           << (digits ? ", a power of two (because layouts are made of bits), got "
                                      : " (because a block has at most that many warps), got ")
                           << attribute.getValue();
}

bool kgpu::moduleHas(Operation *op, StringRef name) {
  ModuleOp module = moduleOf(op);
  return module && module->hasAttr(name);
}
