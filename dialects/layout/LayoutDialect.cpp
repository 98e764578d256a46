// The layout dialect: registration; the attribute's storage, text, and verification against a tensor.
#include "dialects/layout/LayoutDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <memory>

using namespace mlir;
using namespace kiln::layout;

namespace kiln::layout::detail {
/// A copy of the layout; the context destroys it with the attribute.
struct MapAttrStorage : AttributeStorage {
  using KeyTy = Layout;
  explicit MapAttrStorage(const Layout &layout) : layout(layout) {}
  bool operator==(const KeyTy &key) const { return layout == key; }
  static llvm::hash_code hashKey(const KeyTy &key) { return hash_value(key); }
  static MapAttrStorage *construct(AttributeStorageAllocator &allocator, const KeyTy &key) {
    return new (allocator.allocate<MapAttrStorage>()) MapAttrStorage(key);
  }
  Layout layout;
};
} // namespace kiln::layout::detail

#include "dialects/layout/LayoutDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/layout/LayoutAttrs.cpp.inc"

namespace {
/// Gives layouts aliases at the head of the file, named after their kind, so that types stay short.
struct LayoutAsmInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attribute, llvm::raw_ostream &os) const override {
    auto map = llvm::dyn_cast<MapAttr>(attribute);
    if (!map)
      return AliasResult::NoAlias;
    os << llvm::StringRef(map.getLayout().print()).take_while([](char c) { return c != ' '; });
    return AliasResult::OverridableAlias;
  }
};
} // namespace

void LayoutDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/layout/LayoutAttrs.cpp.inc"
      >();
  addInterfaces<LayoutAsmInterface>();
}

Attribute MapAttr::parse(AsmParser &parser, Type) {
  // The dialect's parser calls this with the whole symbol already lexed: the text is read here, not token by token.
  llvm::StringRef text = static_cast<DialectAsmParser &>(parser).getFullSymbolSpec();
  llvm::SMLoc where = parser.getNameLoc();
  if (!text.consume_front("map<") || !text.consume_back(">")) {
    parser.emitError(where) << "expected #layout.map<...>";
    return {};
  }
  std::string error;
  std::optional<Layout> layout = Layout::parse(text, &error);
  if (!layout) { // map_c1
    parser.emitError(where) << error;
    return {};
  }
  return MapAttr::get(parser.getContext(), *layout);
}

void MapAttr::print(AsmPrinter &printer) const { printer << "<" << getLayout().print() << ">"; }

MapAttr MapAttr::get(MLIRContext *context, const Layout &layout) { return Base::get(context, layout); }

const Layout &MapAttr::getLayout() const { return getImpl()->layout; }

LogicalResult MapAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                      function_ref<InFlightDiagnostic()> emitError) const {
  const Layout &layout = getLayout();
  if (layout.shape() != shape) { // map_c2
    InFlightDiagnostic diagnostic = emitError() << "expected a layout of sides [";
    llvm::interleaveComma(shape, diagnostic);
    diagnostic << "] (because they are the tensor's), got [";
    llvm::interleaveComma(layout.shape(), diagnostic);
    return diagnostic << "]";
  }
  if (!layout.digits(Coord::Offset).empty()) // map_c3
    return emitError()
           << "expected a layout of registers (because threads hold a tensor in registers), got offsets of memory";
  return success();
}

bool kiln::layout::hasLayout(RankedTensorType type) { return llvm::isa_and_nonnull<MapAttr>(type.getEncoding()); }

const Layout &kiln::layout::getLayout(RankedTensorType type) {
  return llvm::cast<MapAttr>(type.getEncoding()).getLayout();
}

const Layout &kiln::layout::getLayout(Value value) { return getLayout(llvm::cast<RankedTensorType>(value.getType())); }

RankedTensorType kiln::layout::withLayout(RankedTensorType type, const Layout &layout) {
  return RankedTensorType::get(type.getShape(), type.getElementType(), MapAttr::get(type.getContext(), layout));
}

RankedTensorType kiln::layout::withoutLayout(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}
