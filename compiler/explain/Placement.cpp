// Reads layouts and accesses from kgpu IR, and computes what one warp's accesses cost.
#include "compiler/explain/Placement.h"
#include "compiler/analysis/Grouping.h"
#include "compiler/explain/Work.h"
#include "compiler/target/Target.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/LayoutDialect.h"
#include "dialects/layout/Memory.h"
#include "dialects/tile/TileOps.h"
#include "llvm/ADT/MapVector.h"
#include <set>

using namespace mlir;
using namespace kiln;
using namespace kiln::explain;
using layout::Coord;
using layout::Layout;
using layout::Point;

static constexpr int64_t kLanes = 32;
// Size limits of a drawing.
static constexpr int64_t kRows = 32, kColumns = 64;

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// The name of the role that contains an op; empty outside roles.
static std::string roleOf(Operation *op) {
  for (Region *region = op->getParentRegion(); region; region = region->getParentRegion())
    if (auto roles = dyn_cast_or_null<kgpu::RolesOp>(region->getParentOp()))
      return cast<StringAttr>(roles.getNames()[region->getRegionNumber()]).getValue().str();
  return "";
}

static bool hasLayout(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile && tile.getEncoding();
}

static Point pointOf(int64_t reg, int64_t lane, int64_t warp) {
  Point point = {};
  point[unsigned(Coord::Reg)] = reg;
  point[unsigned(Coord::Lane)] = lane;
  point[unsigned(Coord::Warp)] = warp;
  return point;
}

static int64_t linear(const layout::Index &index, ArrayRef<int64_t> shape) {
  int64_t place = 0;
  for (auto [i, side] : llvm::zip_equal(index, shape))
    place = place * side + i;
  return place;
}

//===----------------------------------------------------------------------===//
// Drawings
//===----------------------------------------------------------------------===//

/// Which thread holds each element of the first rows and columns: rows of [warp, lane, register].
static llvm::json::Array drawn(const Layout &layout) {
  ArrayRef<int64_t> shape = layout.shape();
  unsigned rank = layout.rank();
  int64_t columns = std::min(shape[rank - 1], kColumns), rows = rank > 1 ? std::min(shape[rank - 2], kRows) : 1;
  std::vector<std::array<int64_t, 3>> owners(rows * columns, {-1, -1, -1});
  int64_t groups = layout.size(Coord::Group), warps = layout.size(Coord::Warp);
  for (int64_t group = groups; group-- > 0;) {
    for (int64_t warp = warps; warp-- > 0;) {
      for (int64_t lane = kLanes; lane-- > 0;) {
        for (int64_t reg = layout.registers(); reg-- > 0;) {
          Point point = pointOf(reg, lane % layout.size(Coord::Lane), warp);
          point[unsigned(Coord::Group)] = group;
          layout::Index index = layout.at(point);
          bool leading =
              llvm::all_of(ArrayRef<int64_t>(index).drop_back(std::min(rank, 2u)), [](int64_t i) { return i == 0; });
          int64_t row = rank > 1 ? index[rank - 2] : 0, column = index[rank - 1];
          if (leading && row < rows && column < columns)
            owners[row * columns + column] = {group * warps + warp, lane, reg};
        }
      }
    }
  }
  llvm::json::Array result;
  for (int64_t row = 0; row < rows; ++row) {
    llvm::json::Array line;
    for (int64_t column = 0; column < columns; ++column) {
      auto &[warp, lane, reg] = owners[row * columns + column];
      line.push_back(llvm::json::Array{warp, lane, reg});
    }
    result.push_back(std::move(line));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

namespace {
/// The cost of the first warp's access to a whole tile.
struct Sectors {
  int64_t bits = 0, instructions = 0;
  std::optional<int64_t> moved, ideal; ///< sectors; nothing if an address is unknown
};
} // namespace

static Sectors countSectors(Value pointers, Value mask, const AlignmentAnalysis &alignment, int64_t widest,
                            const Indices &indices) {
  const Layout &layout = kgpu::layoutOf(pointers.getType());
  auto tile = cast<RankedTensorType>(pointers.getType());
  int64_t bytes = tile::memoryBytes(cast<tile::PtrType>(tile.getElementType()).getPointee());
  Grouping grouping = groupPointers(alignment, pointers, alignment.alwaysTrue(mask) ? Value() : mask, widest);
  Sectors result;
  result.bits = grouping.count * bytes * 8;
  Known addresses = indices.get(pointers), kept = mask ? indices.get(mask) : nullptr;
  if (!addresses || (mask && !kept)) {
    result.instructions = layout.registers() / grouping.count;
    return result;
  }
  std::set<int64_t> wanted; // bytes, by element
  int64_t moved = 0;
  for (int64_t reg = 0; reg < layout.registers(); reg += grouping.count) {
    std::set<int64_t> sectors;
    for (int64_t lane = 0; lane < layout.size(Coord::Lane); ++lane) {
      int64_t first = linear(layout.at(pointOf(reg, lane, 0)), layout.shape());
      if (kept && !kept->at(first))
        continue;
      int64_t from = addresses->at(first), to = from + grouping.count * bytes - 1;
      for (int64_t sector = llvm::divideFloorSigned(from, kSectorBytes);
           sector <= llvm::divideFloorSigned(to, kSectorBytes); ++sector)
        sectors.insert(sector);
      for (int64_t i = 0; i < grouping.count; ++i)
        wanted.insert(from + i * bytes);
    }
    ++result.instructions;
    moved += int64_t(sectors.size());
  }
  result.moved = moved;
  result.ideal = int64_t(llvm::divideCeil(uint64_t(wanted.size()) * uint64_t(bytes), uint64_t(kSectorBytes)));
  return result;
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

llvm::json::Object explain::describePlacement(func::FuncOp kernel, const Launch &launch) {
  auto module = kernel->getParentOfType<ModuleOp>();
  Target target = Target::fromModule(module);
  AlignmentAnalysis alignment(module);
  llvm::MapVector<Attribute, unsigned> layouts;
  llvm::json::Array values, accesses, exchanges, products, roles, channels;
  int64_t barriers = 0;

  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Value result : op->getResults()) {
      if (!hasLayout(result.getType()) || isa<arith::ConstantOp>(op))
        continue;
      auto tile = cast<RankedTensorType>(result.getType());
      unsigned index = layouts.insert({tile.getEncoding(), unsigned(layouts.size())}).first->second;
      values.push_back(llvm::json::Object{{"frames", framesOf(op)},
                                          {"op", op->getName().getStringRef()},
                                          {"type", textOf(tile.getElementType())},
                                          {"layout", int64_t(index)}});
    }
    auto exchange = [&](const char *kind, Type registers, Type memory) {
      const Layout &from = kgpu::layoutOf(registers), &to = kgpu::layoutOf(memory);
      auto type = cast<RankedTensorType>(registers);
      int64_t bytes = tile::memoryBytes(type.getElementType());
      layout::BankUse use = layout::bankUse(from, to, bytes);
      exchanges.push_back(llvm::json::Object{{"frames", framesOf(op)},
                                             {"kind", kind},
                                             {"bytes", type.getNumElements() * bytes},
                                             {"wavefronts", use.wavefronts},
                                             {"minimum", use.minimum},
                                             {"role", roleOf(op)}});
    };
    if (auto store = dyn_cast<kgpu::LocalStoreOp>(op)) {
      exchange("store", op->getOperand(0).getType(), op->getOperand(1).getType());
    } else if (auto load = dyn_cast<kgpu::LocalLoadOp>(op)) {
      exchange("load", op->getResult(0).getType(), op->getOperand(0).getType());
    } else if (isa<kgpu::ConvertOp>(op)) {
      auto type = cast<RankedTensorType>(op->getResult(0).getType());
      exchanges.push_back(
          llvm::json::Object{{"frames", framesOf(op)},
                             {"kind", "shuffle"},
                             {"bytes", type.getNumElements() * tile::memoryBytes(type.getElementType())},
                             {"wavefronts", 0},
                             {"minimum", 0},
                             {"role", roleOf(op)}});
    } else if (isa<kgpu::WarpgroupMmaOp, kgpu::WarpMmaOp, kgpu::DotOp>(op)) {
      const char *instruction = isa<kgpu::WarpgroupMmaOp>(op) ? "wgmma" : isa<kgpu::WarpMmaOp>(op) ? "mma.sync" : "fma";
      auto shaped = [](Type type) -> std::pair<ArrayRef<int64_t>, Type> {
        if (auto memory = dyn_cast<kgpu::MemType>(type))
          return {memory.getShape(), memory.getElementType()};
        auto tile = cast<RankedTensorType>(type);
        return {tile.getShape(), tile.getElementType()};
      };
      auto [left, element] = shaped(op->getOperand(0).getType());
      auto result = cast<RankedTensorType>(op->getResult(0).getType());
      llvm::json::Array shape;
      for (int64_t side : result.getShape())
        shape.push_back(side);
      shape.push_back(left.back());
      products.push_back(llvm::json::Object{{"frames", framesOf(op)},
                                            {"instruction", instruction},
                                            {"shape", std::move(shape)},
                                            {"type", textOf(element)},
                                            {"role", roleOf(op)}});
    } else if (auto parts = dyn_cast<kgpu::RolesOp>(op)) {
      for (unsigned role = 0; role < parts.size(); ++role)
        roles.push_back(llvm::json::Object{{"name", cast<StringAttr>(parts.getNames()[role]).getValue()},
                                           {"warps", int64_t(parts.warpsOf(role))},
                                           {"registers", int64_t(parts.getRegisters()[role])}});
    } else if (auto channel = dyn_cast<kgpu::ChannelOp>(op)) {
      auto type = cast<kgpu::ChannelType>(channel.getChannel().getType());
      channels.push_back(llvm::json::Object{
          {"frames", framesOf(op)}, {"slots", int64_t(type.getSlots())}, {"bytes", type.getSlotBytes()}});
    } else if (isa<kgpu::BarrierOp>(op)) {
      ++barriers;
    }
  });

  // Accesses of the program instance in the middle of the grid, in the first iteration of each loop.
  Indices indices(kernel, launch);
  llvm::DenseSet<Operation *> seen;
  std::array<int64_t, 3> middle;
  for (unsigned axis = 0; axis < 3; ++axis)
    middle[axis] = (launch.grid[axis] - 1) / 2;
  indices.run(middle, /*turns=*/1, [&](Operation *op, const Indices::Turn &) {
    auto access = [&](const char *kind, Value pointers, Value mask) {
      if (!seen.insert(op).second || !hasLayout(pointers.getType()))
        return;
      Sectors sectors = countSectors(pointers, mask, alignment, target.vectorBytes, indices);
      llvm::json::Object entry{{"frames", framesOf(op)},
                               {"kind", kind},
                               {"bits", sectors.bits},
                               {"instructions", sectors.instructions},
                               {"role", roleOf(op)}};
      entry["sectors"] = sectors.moved ? llvm::json::Value(*sectors.moved) : llvm::json::Value(nullptr);
      entry["ideal"] = sectors.ideal ? llvm::json::Value(*sectors.ideal) : llvm::json::Value(nullptr);
      accesses.push_back(std::move(entry));
    };
    if (auto load = dyn_cast<tile::LoadOp>(op))
      access("load", load.getPtr(), load.getMask());
    else if (auto store = dyn_cast<tile::StoreOp>(op))
      access("store", store.getPtr(), store.getMask());
    else if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
      access("atomic", atomic.getPtr(), atomic.getMask());
    else if (auto copy = dyn_cast<kgpu::CopyTileOp>(op))
      access("copy", copy.getPtr(), copy.getMask());
  });

  llvm::json::Array described;
  for (auto &[attribute, index] : layouts) {
    const Layout &layout = cast<layout::MapAttr>(attribute).getLayout();
    llvm::json::Array shape;
    for (int64_t side : layout.shape())
      shape.push_back(side);
    described.push_back(
        llvm::json::Object{{"name", layout.print()},
                           {"shape", std::move(shape)},
                           {"registers", layout.registers()},
                           {"threads", layout.size(Coord::Lane) * layout.size(Coord::Warp) * layout.size(Coord::Group)},
                           {"owners", drawn(layout)}});
  }
  return llvm::json::Object{{"layouts", std::move(described)}, {"values", std::move(values)},
                            {"accesses", std::move(accesses)}, {"exchanges", std::move(exchanges)},
                            {"products", std::move(products)}, {"roles", std::move(roles)},
                            {"channels", std::move(channels)}, {"barriers", barriers}};
}
