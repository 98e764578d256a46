// Recognizes several products in loops.
#include "compiler/transforms/schedule/Streams.h"
#include "compiler/transforms/schedule/ChainedProducts.h"
#include "dialects/layout/Constructors.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

static bool isTurn(Operation *op) {
  auto trans = dyn_cast_or_null<tile::TransOp>(op);
  return trans && trans.getOrder() == ArrayRef<int32_t>{1, 0};
}

StreamFactor Streams::factorOf(Value value) const {
  StreamFactor factor;
  if (isTurn(value.getDefiningOp())) {
    factor.transposed = true;
    value = cast<tile::TransOp>(value.getDefiningOp()).getValue();
  }
  factor.tile = value;
  Operation *def = value.getDefiningOp();
  if (auto reshape = dyn_cast_or_null<tile::ReshapeOp>(def))
    def = reshape.getValue().getDefiningOp();
  if (def && blocks.contains(def))
    factor.load = def;
  return factor;
}

SmallVector<Type> Streams::storedFactors() const {
  // Count the operands of a product's own loop and of its enclosing loops: their products may be in flight.
  llvm::MapVector<Type, int64_t> most;
  llvm::SmallDenseSet<Block *> seen;
  for (tile::DotOp dot : dots) {
    if (!seen.insert(dot->getBlock()).second)
      continue;
    llvm::MapVector<Type, llvm::SmallDenseSet<Value>> stored;
    for (tile::DotOp other : dots)
      if (other->getParentOp()->isAncestor(dot))
        for (bool right : {false, true})
          if (isStored(other, right)) {
            Value tile = factorOf(right ? other.getRhs() : other.getLhs()).tile;
            stored[tile.getType()].insert(tile);
          }
    for (auto &[type, tiles] : stored)
      most[type] = std::max<int64_t>(most[type], tiles.size());
  }
  SmallVector<Type> types;
  for (auto [type, count] : most)
    types.append(count, type);
  return types;
}

std::optional<kgpu::MemType> Streams::factorMemory(RankedTensorType type, int64_t groups) const {
  // Panels as wide as a group's runs of columns.
  for (tile::DotOp dot : dots)
    if (isCutByColumns(dot, groups) && isStored(dot, /*right=*/true) && factorOf(dot.getRhs()).tile.getType() == type)
      return panelMemory(type, layout::splitSide(type.getShape()[1])->power / groups);
  return storeMemory(type, /*ctas=*/1, /*swapped=*/false);
}

SmallVector<SmallVector<Streams::Group>> Streams::rings() const {
  llvm::MapVector<Block *, Group> groups;
  for (auto &[load, stream] : blocks)
    groups[load->getBlock()].push_back(load);
  auto isAlike = [&](Operation *one, Operation *other) {
    const Stream &first = blocks.find(one)->second, &second = blocks.find(other)->second;
    return first.desc == second.desc && first.type == second.type;
  };
  SmallVector<SmallVector<Group>> rings;
  for (auto &entry : groups) {
    const Group &group = entry.second;
    auto found = llvm::find_if(rings, [&](const SmallVector<Group> &ring) {
      const Group &known = ring.front();
      return !isHeld(group.front()) && !isHeld(known.front()) && known.size() == group.size() &&
             llvm::all_of_zip(known, group, isAlike);
    });
    if (found == rings.end())
      rings.push_back({group});
    else
      found->push_back(group);
  }
  return rings;
}

RankedTensorType Streams::sharedType() const {
  RankedTensorType type;
  llvm::SmallDenseSet<Block *> seen;
  for (tile::DotOp dot : dots)
    for (bool right : {false, true}) {
      if (!isStored(dot, right))
        continue;
      Value tile = factorOf(right ? dot.getRhs() : dot.getLhs()).tile;
      auto own = cast<RankedTensorType>(tile.getType());
      if ((type && type != own) || tile.getParentBlock() != dot->getBlock() || !seen.insert(dot->getBlock()).second)
        return {};
      type = own;
    }
  return type;
}

tile::DotOp Streams::sharedIn(Block *block) const {
  auto reads = [&](tile::DotOp dot) {
    return dot->getBlock() == block && (isStored(dot, /*right=*/false) || isStored(dot, /*right=*/true));
  };
  auto found = llvm::find_if(dots, reads);
  return found == dots.end() || !sharedType() ? tile::DotOp() : *found;
}

/// Finds the product that the loop can put off to its next step.
static void findDeferred(const Streams &streams, RotatedLoop &rotated) {
  Block *body = rotated.loop.getBody();
  tile::DotOp dot = streams.sharedIn(body);
  if (!dot || !matchPattern(dot.getAcc(), m_AnyZeroFloat()))
    return;
  for (Value factor : {dot.getLhs(), dot.getRhs()})
    if (Operation *load = streams.factorOf(factor).load; load && rotated.loop->isProperAncestor(load))
      return; // its slot would be free
  // Blocks that are added pass through slots in order: no other one may come in between.
  unsigned additions = 0;
  rotated.loop.walk([&](tile::DescReduceOp) { ++additions; });
  if (additions != 1)
    return;
  // Between the product and the addition, only what depends on nothing else of its step.
  llvm::SetVector<Operation *> uses;
  auto isPart = [&](Value value) {
    return value.getDefiningOp() && (value.getDefiningOp() == dot || uses.contains(value.getDefiningOp()));
  };
  auto isElsewhere = [&](Value value) { return isPart(value) || rotated.loop.isDefinedOutsideOfLoop(value); };
  auto isInBody = [&](Operation *user) { return user->getBlock() == body; };
  if (!llvm::all_of(dot->getUsers(), isInBody))
    return;
  for (Operation &op : *body) {
    if (llvm::none_of(op.getOperands(), isPart))
      continue;
    bool adds = isa<tile::DescReduceOp>(op);
    if (!adds && !(isMemoryEffectFree(&op) && op.getNumRegions() == 0 && op.getNumResults() == 1 &&
                   llvm::all_of(op.getOperands(), isElsewhere) && llvm::all_of(op.getUsers(), isInBody)))
      return;
    uses.insert(&op);
  }
  if (uses.empty() || !isa<tile::DescReduceOp>(uses.back()))
    return;
  rotated.deferred = dot;
  rotated.uses = std::move(uses);
}

std::optional<RotatedLoop> Streams::rotated(scf::ForOp loop) const {
  // The program says that an iteration's loads are to be issued in the iteration itself.
  if (auto stages = loop->getAttrOfType<IntegerAttr>("tile.num_stages"); stages && stages.getInt() <= 1)
    return std::nullopt;
  RotatedLoop found;
  found.loop = loop;
  bool isReadLater = false;
  for (Operation &op : loop.getBody()->without_terminator()) {
    for (Operation *part : parts)
      if (op.isProperAncestor(part))
        return std::nullopt;
    if (auto stream = blocks.find(&op); stream != blocks.end()) {
      found.group.push_back(&op);
      isReadLater |= stream->second.isRow();
    }
    if (auto dot = dyn_cast<tile::DotOp>(op)) {
      if (!found.lead) {
        found.lead = dot;
        continue;
      }
      for (Value factor : {dot.getLhs(), dot.getRhs()})
        isReadLater |= llvm::is_contained(found.group, factorOf(factor).load);
    }
  }
  if (!isReadLater || !found.lead || !matchPattern(found.lead.getAcc(), m_AnyZeroFloat()) ||
      !loop.isDefinedOutsideOfLoop(found.lead.getAcc()) || !factorOf(found.lead.getLhs()).load ||
      !factorOf(found.lead.getRhs()).load)
    return std::nullopt;
  findDeferred(*this, found);
  return found;
}

/// A load as a stream: a matrix used only by dots, or a vector of 32-bit numbers; std::nullopt for others.
static std::optional<Stream> streamOf(tile::DescLoadOp load) {
  Stream stream;
  stream.load = load;
  stream.type = load.getType();
  if (load->hasOneUse())
    if (auto reshape = dyn_cast<tile::ReshapeOp>(*load->user_begin())) {
      auto type = cast<RankedTensorType>(reshape.getType());
      ArrayRef<int64_t> sides = load.getType().getShape();
      size_t rank = type.getRank();
      if (rank >= 1 && rank <= 2 && sides.size() >= rank && sides.take_back(rank) == type.getShape() &&
          llvm::all_of(sides.drop_back(rank), [](int64_t side) { return side == 1; })) {
        stream.reshape = reshape;
        stream.type = type;
      }
    }
  stream.desc = load.getDesc().getDefiningOp<tile::MakeDescOp>();
  if (!stream.desc || stream.desc.getPadding() != tile::Padding::Zero)
    return std::nullopt;
  if (stream.type.getRank() == 1)
    return stream.type.getElementTypeBitWidth() == 32 ? std::optional(stream) : std::nullopt;
  auto isFactor = [](Operation *user) { return isa<tile::DotOp>(user); };
  bool alone = stream.type.getRank() == 2 && llvm::all_of(stream.value().getUsers(), [&](Operation *user) {
                 return isFactor(user) || (isTurn(user) && llvm::all_of(user->getUsers(), isFactor));
               });
  return alone ? std::optional(stream) : std::nullopt;
}

/// Adds what every role needs of a loop: its bounds, and the scalars that it carries.
static void appendSteering(scf::ForOp loop, SmallVectorImpl<Value> &steered) {
  llvm::append_values(steered, loop.getLowerBound(), loop.getUpperBound(), loop.getStep());
  for (Value value : loop.getYieldedValues())
    if (!isa<RankedTensorType>(value.getType()))
      steered.push_back(value);
}

/// The accumulator is zero, or a value that the dot's own loop carries and nothing else uses.
static bool isSummed(tile::DotOp dot) {
  if (matchPattern(dot.getAcc(), m_AnyZeroFloat()))
    return true;
  auto loop = dyn_cast<scf::ForOp>(dot->getParentOp());
  auto carried = dyn_cast<BlockArgument>(dot.getAcc());
  return loop && carried && carried.getOwner() == loop.getBody() && carried != loop.getInductionVar() &&
         carried.hasOneUse() && dot.getResult().hasOneUse() &&
         loop.getTiedLoopYieldedValue(carried)->get() == dot.getResult();
}

std::optional<Streams> schedule::findStreams(func::FuncOp kernel, std::string &why) {
  Streams streams;
  streams.turns = findTurns(kernel);
  kernel.walk<WalkOrder::PreOrder>([&](tile::DotOp dot) { streams.dots.push_back(dot); });
  if (streams.dots.size() < 2) {
    why = "there is no second product";
    return std::nullopt;
  }
  bool loops = true;
  kernel.walk<WalkOrder::PreOrder>([&](tile::DescLoadOp load) {
    std::optional<Stream> stream = streamOf(load);
    Operation *parent = load->getParentOp();
    // Vectors are streamed along with blocks; those loaded once are left to the threads.
    if (!stream || (stream->isRow() && parent == kernel))
      return;
    for (; parent != kernel; parent = parent->getParentOp())
      loops &= isa<scf::ForOp>(parent);
    streams.blocks[load] = *stream;
    streams.parts.insert(load);
    if (stream->reshape)
      streams.parts.insert(stream->reshape);
    for (Operation *user : stream->value().getUsers())
      if (isTurn(user))
        streams.parts.insert(user);
  });
  SmallVector<Value> steered;
  for (auto &[op, stream] : streams.blocks) {
    llvm::append_range(steered, stream.load.getOffsets());
    for (Operation *parent = op->getParentOp(); loops && parent != kernel; parent = parent->getParentOp())
      appendSteering(cast<scf::ForOp>(parent), steered);
  }
  for (tile::DotOp dot : streams.dots) {
    streams.parts.insert(dot);
    if (!isa<scf::ForOp>(dot->getParentOp()) || !isSummed(dot)) {
      why = "a product is not in a loop, or is added to something other than an accumulator that its loop carries";
      return std::nullopt;
    }
    for (Value factor : {dot.getLhs(), dot.getRhs()}) {
      StreamFactor found = streams.factorOf(factor);
      if (!found.load && found.transposed && found.tile.getDefiningOp() &&
          !isa<tile::DotOp>(found.tile.getDefiningOp()))
        streams.parts.insert(factor.getDefiningOp());
      if (!found.load && isa<BlockArgument>(found.tile)) {
        why = "a factor is carried by a loop";
        return std::nullopt;
      }
    }
    if (!streams.factorOf(dot.getLhs()).load && !streams.factorOf(dot.getRhs()).load) {
      why = "both factors of a product are computed";
      return std::nullopt;
    }
  }
  bool matrices = llvm::any_of(streams.blocks, [](auto &entry) { return !entry.second.isRow(); });
  if (!matrices) {
    why = "no block is loaded through a descriptor for products only";
    return std::nullopt;
  }
  if (!loops || !isScalarWork(steered, kernel, /*reads=*/true)) {
    why = "the position or number of the loads depends on tiles, on memory that is written or on a branch";
    return std::nullopt;
  }
  return streams;
}

std::optional<kgpu::MemType> schedule::slotMemory(const Stream &stream) {
  if (!stream.isRow())
    return storeMemory(stream.type, /*ctas=*/1, /*swapped=*/false);
  auto layout = layout::MapAttr::get(stream.type.getContext(), layout::rowMajor(stream.type.getShape(), {0}));
  auto type = kgpu::MemType::get(stream.type.getShape(), stream.type.getElementType(), layout);
  return kgpu::planBoxes(type) ? std::optional(type) : std::nullopt;
}

SmallVector<tile::DescStoreOp> schedule::copyableStores(func::FuncOp kernel, const AlignmentAnalysis &alignment) {
  SmallVector<tile::DescStoreOp> stores;
  for (auto store : kernel.getOps<tile::DescStoreOp>()) {
    std::string why;
    auto tile = cast<RankedTensorType>(storedTile(store.getValue()).getType());
    if (tile.getRank() == 2 && mayCopyOut(store, alignment, why) && storeMemory(tile, /*ctas=*/1, /*swapped=*/false))
      stores.push_back(store);
  }
  return stores;
}

/// A role that holds no tiles can follow the loops around the op to its block.
static bool isReached(tile::DescReduceOp op, ArrayRef<Turn> turns, func::FuncOp kernel) {
  SmallVector<Value> steered(op.getOffsets());
  for (const Turn &turn : turns)
    if (llvm::is_contained(turn.reductions, op)) {
      llvm::append_range(steered, turn.end->getOperands());
      SetVector<Value> used;
      getUsedValuesDefinedAbove(turn.begin->getRegions(), used);
      llvm::append_range(steered, used);
    }
  for (Operation *parent = op->getParentOp(); parent != kernel; parent = parent->getParentOp()) {
    auto loop = dyn_cast<scf::ForOp>(parent);
    if (!loop)
      return false;
    appendSteering(loop, steered);
  }
  return isScalarWork(steered, kernel, /*reads=*/true);
}

SmallVector<tile::DescReduceOp> schedule::copyableReductions(func::FuncOp kernel, ArrayRef<Turn> turns,
                                                             const AlignmentAnalysis &alignment) {
  SmallVector<tile::DescReduceOp> reductions;
  kernel.walk([&](tile::DescReduceOp op) {
    auto tile = cast<RankedTensorType>(storedTile(op.getValue()).getType());
    if (tile.getRank() == 2 && isReached(op, turns, kernel) && reductionMemory(op, turns, alignment))
      reductions.push_back(op);
  });
  return reductions;
}
