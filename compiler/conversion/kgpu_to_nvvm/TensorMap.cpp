// kgpu.tensor_map: each distinct map is a parameter of the kernel that the launch derives from the arguments. This file
// describes how.
#include "compiler/analysis/KernelInterface.h"
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

namespace {
/// A scalar as the launch computes it: a constant, or an argument widened in one way.
struct Source {
  std::optional<APInt> constant;
  unsigned argument = 0;
  bool isWidened = false, isUnsigned = false;
};
} // namespace

/// std::nullopt for a value that was sign-extended and then zero-extended, which no argument needs.
static std::optional<Source> sourceOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return Source{std::nullopt, argument.getArgNumber()};
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return Source{constant};
  Operation *op = value.getDefiningOp();
  std::optional<Source> source = sourceOf(op->getOperand(0));
  if (!source || isa<tile::HintOp>(op))
    return source;
  bool zeros = isa<arith::ExtUIOp>(op);
  if (source->constant) {
    unsigned bits = value.getType().getIntOrFloatBitWidth();
    source->constant = zeros ? source->constant->zext(bits) : source->constant->sext(bits);
    return source;
  }
  if (source->isWidened && zeros && !source->isUnsigned)
    return std::nullopt;
  source->isUnsigned |= zeros;
  source->isWidened = true;
  return source;
}

/// One entry of the metadata's `tensor_maps`, without its offset; equal maps have equal entries. Null after an error.
static DictionaryAttr describe(kgpu::TensorMapOp op) {
  Builder b(op.getContext());
  auto made = op.getDesc().getDefiningOp<tile::MakeDescOp>();
  Type element = op.getDesc().getType().getBlock().getElementType();
  int64_t bytes = memoryBytes(element);
  if (!element.isIntOrFloat()) {
    op.emitOpError("expected a described array of numbers (because the copy engine does not copy pointers), got ")
        << element;
    return {};
  }
  if (made.getPadding() == tile::Padding::NaN && bytes == 1) {
    op.emitOpError("expected padding with zeros (because the copy engine has no nan of 8 bits), got nan");
    return {};
  }
  auto number = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  bool known = true;
  auto list = [&](ValueRange values) {
    SmallVector<Attribute> entries;
    for (Value value : values) {
      std::optional<Source> source = sourceOf(value);
      if (!source) {
        known = false;
      } else if (source->constant) {
        entries.push_back(number(source->constant->getSExtValue()));
      } else {
        SmallVector<NamedAttribute> argument{b.getNamedAttr("argument", number(source->argument))};
        if (source->isUnsigned)
          argument.push_back(b.getNamedAttr("unsigned", b.getBoolAttr(true)));
        entries.push_back(b.getDictionaryAttr(argument));
      }
    }
    return b.getArrayAttr(entries);
  };
  std::optional<Source> base = sourceOf(made.getBase());
  ArrayAttr shape = list(made.getShape()), strides = list(made.getStrides());
  if (!known || !base || base->constant) {
    op.emitOpError("expected an argument as base, and extents and strides that are all sign- or all zero-extended "
                   "(because the launch reads them from the arguments), got another descriptor");
    return {};
  }
  return b.getDictionaryAttr(
      {b.getNamedAttr("element", b.getStringAttr(spellType(element))), b.getNamedAttr("base", number(base->argument)),
       b.getNamedAttr("shape", shape), b.getNamedAttr("strides", strides),
       b.getNamedAttr("box", b.getArrayAttr(llvm::map_to_vector(
                                 op.getBox(), [&](int64_t side) -> Attribute { return number(side); }))),
       b.getNamedAttr("swizzle", number(int32_t(op.getSwizzle()))),
       b.getNamedAttr("padding", b.getStringAttr(made.getPadding() == tile::Padding::NaN ? "nan" : "zero"))});
}

LogicalResult TensorMaps::collect(func::FuncOp kernel, const Target &target) {
  WalkResult result = kernel.walk([&](kgpu::TensorMapOp op) {
    if (!target.has(Feature::BulkCopy)) {
      op.emitOpError("expected a machine with a copy engine (because it reads tensor maps), got ") << target.name;
      return WalkResult::interrupt();
    }
    DictionaryAttr described = describe(op);
    if (!described)
      return WalkResult::interrupt();
    auto known = llvm::find(maps, described);
    ids[op] = unsigned(known - maps.begin());
    if (known == maps.end())
      maps.push_back(described);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

ArrayAttr TensorMaps::bind(LLVM::LLVMFuncOp entry, int64_t offset) {
  constexpr int64_t bytes = 128, align = 64;
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {LLVM::LLVMArrayType::get(b.getI8Type(), bytes)});
  SmallVector<Attribute> described;
  Value first;
  for (auto [i, map] : llvm::enumerate(maps)) {
    unsigned index = entry.getNumArguments() - size() + unsigned(i);
    // Without grid_constant the thread would copy the map to its local memory, which the copy engine cannot read.
    entry.setArgAttr(index, "llvm.byval", TypeAttr::get(type));
    entry.setArgAttr(index, "llvm.align", b.getI64IntegerAttr(align));
    entry.setArgAttr(index, "nvvm.grid_constant", b.getUnitAttr());
    offset = llvm::alignTo(offset, align);
    NamedAttrList entries(map);
    entries.set("offset", b.getI64IntegerAttr(offset));
    described.push_back(entries.getDictionary(b.getContext()));
    offset += bytes;
    // Prefetched ahead of the first copy that needs it; each processor has a cache of maps.
    if (!first)
      first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, place.thread(), b.i32(0));
    b.ptx("@$1 prefetch.tensormap [$0];", "l,b", {}, {entry.getArgument(index), first});
  }
  return described.empty() ? ArrayAttr() : b.getArrayAttr(described);
}

static LogicalResult emitTensorMap(Lowering &lowering, kgpu::TensorMapOp op) {
  lowering.set(op.getMap(), {lowering.tensorMaps.parameter(lowering.entry, op)});
  return success();
}

void nvvm::addTensorMaps(EmitTable &table) { table.add<kgpu::TensorMapOp, emitTensorMap>(); }
