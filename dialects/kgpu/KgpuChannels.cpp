// Types, syntax, sizes and verifiers of channels, copies and roles. The labels in comments are those of the constraints
// in KgpuChannels.td.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"
#include "dialects/tile/TileOps.h"
#include "dialects/tile/TileVerifiers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;

/// A full and an empty barrier per slot.
static constexpr int64_t kBarrierBytes = 16;
/// More slots than any shared memory can hold.
static constexpr int32_t kMaxSlots = 1 << 14;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

LogicalResult ChannelType::verify(function_ref<InFlightDiagnostic()> emitError, int32_t slots, ArrayRef<Type> parts) {
  if (slots < 1 || slots > kMaxSlots) // channel_type_c1
    return emitError() << "expected 1 to " << kMaxSlots << " slots (because each has barriers in shared memory), got "
                       << slots;
  for (Type part : parts)
    if (!isa<MemType>(part)) // channel_type_c2
      return emitError() << "expected parts of type !kgpu.mem (because slots are shared memory), got " << part;
  return success();
}

int64_t ChannelType::getSlotBytes() const {
  int64_t bytes = 0;
  for (Type part : getParts())
    bytes += cast<MemType>(part).getBytes();
  return bytes;
}

LogicalResult CursorType::verify(function_ref<InFlightDiagnostic()> emitError, int32_t slots) {
  if (slots < 1) // cursor_type_c1
    return emitError() << "expected at least one slot (because a cursor is a position in a ring), got " << slots;
  return success();
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

int64_t ChannelOp::getPartOffset(unsigned index) {
  int64_t offset = 0;
  for (unsigned i = 0; i < index; ++i)
    offset = llvm::alignTo(offset + getType().getPart(i).getBytes(), kSwizzleAlign);
  return offset;
}

int64_t ChannelOp::getSlotStride() {
  if (getType().getParts().empty())
    return 0;
  unsigned last = getType().getParts().size() - 1;
  return llvm::alignTo(getPartOffset(last) + getType().getPart(last).getBytes(), kSwizzleAlign);
}

int64_t ChannelOp::getBarrierOffset(int64_t slot) {
  return getSlotStride() * getType().getSlots() + slot * kBarrierBytes;
}

int64_t ChannelOp::getAlignment() { return getType().getParts().empty() ? kSharedAlign : kSwizzleAlign; }

int64_t ChannelOp::getBytes() {
  int64_t slots = getType().getSlots();
  return slots * getSlotStride() + (getCompletion() == Completion::Groups ? 0 : slots * kBarrierBytes);
}

bool ChannelOp::isMulticast() {
  return llvm::any_of(getType().getParts(), [](Type part) {
    return llvm::any_of(layoutOf(part).digits(Coord::Cta),
                        [](const layout::Digit &digit) { return digit.replicates(); });
  });
}

int64_t ChannelOp::getReleases(int64_t clusterSize) {
  return int64_t(int32_t(getReaders())) * (isMulticast() ? clusterSize : 1);
}

LogicalResult ChannelOp::verify() {
  if (auto offset = getOffset(); offset && (int64_t(*offset) < 0 || int64_t(*offset) % getAlignment())) // channel_c1
    return emitOpError() << "expected an offset of at least 0 that " << getAlignment() << " divides (because "
                         << (getType().getParts().empty() ? "mbarriers need that alignment"
                                                          : "swizzle patterns repeat at that distance")
                         << "), got " << int64_t(*offset);
  if (int32_t(getFillers()) < 1 || int32_t(getReaders()) < 1) // channel_c2
    return emitOpError()
           << "expected at least one filler and one reader (because a slot goes from one to the other), got "
           << int32_t(getFillers()) << " and " << int32_t(getReaders());
  if (!isa<func::FuncOp>((*this)->getParentOp())) // channel_c3
    return emitOpError("expected this in the function's body (because a channel lives as long as the kernel), got ")
           << (*this)->getParentOp()->getName() << " around it";
  if (getWarpsApart() && getCompletion() != Completion::Groups) // channel_c4
    return emitOpError("expected a channel that completes by groups (because only there do the warps that read a slot "
                       "copy to it), got one that completes by ")
           << stringifyCompletion(getCompletion());
  return success();
}

ReceiveOp kgpu::lastBarrierAt(ChannelOp channel) {
  if (channel.getCompletion() != Completion::Groups)
    return {};
  Block *body = channel->getBlock();
  ReceiveOp last;
  for (Operation *user : channel->getUsers())
    if (auto receive = dyn_cast<ReceiveOp>(user))
      if (receive->getBlock() == body && (!last || last->isBeforeInBlock(receive)))
        last = receive;
  if (!last || last.getByWarp() || int32_t(last.getPending()) > 0)
    return {};
  auto isBefore = [&](Operation *op) {
    Operation *around = body->findAncestorOpInBlock(*op);
    return around && around != last && around->isBeforeInBlock(last);
  };
  for (Operation *user : channel->getUsers()) {
    // A release does not access the memory.
    if (user != last && !isa<ReleaseOp>(user) && !isBefore(user))
      return {};
    for (Value part : user->getResults())
      for (Value view : viewsOf(part))
        if (!llvm::all_of(view.getUsers(), isBefore))
          return {};
  }
  return last;
}

/// Fails unless the values are the parts of the channel, in order.
static LogicalResult verifyParts(Operation *op, ChannelType channel, ValueRange parts) {
  if (llvm::equal(parts.getTypes(), channel.getParts())) // acquire_c2, receive_c2
    return success();
  return op->emitOpError() << "expected results of the types of the channel's parts, got " << parts.getTypes();
}

LogicalResult AcquireOp::verify() { return verifyParts(*this, getChannel().getType(), getParts()); }

LogicalResult ReceiveOp::verify() {
  int32_t pending = int32_t(getPending());
  auto channel = getChannel().getDefiningOp<ChannelOp>();
  bool byGroups = !channel || channel.getCompletion() == Completion::Groups;
  if (pending < 0 || (pending > 0 && !byGroups)) // receive_c3
    return emitOpError() << "expected a number of pending groups, 0 unless the channel completes by groups (because "
                            "other slots have an mbarrier each), got "
                         << pending;
  if (getAgain() && channel && byGroups) // receive_c4
    return emitOpError("expected a channel with mbarriers (because copies by groups are received with a barrier of the "
                       "role, so a slot is received once), got one that completes by groups");
  if (getByWarp() && !byGroups) // receive_c5
    return emitOpError("expected a channel that completes by groups (because only there does a warp wait for its own "
                       "copies), got one that completes by ")
           << stringifyCompletion(channel.getCompletion());
  if (getUnless() && !getAgain()) // receive_c6
    return emitOpError(
        "expected `again` (because any other slot is waited for unconditionally), got a condition alone");
  return verifyParts(*this, getChannel().getType(), getParts());
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

bool kgpu::isDerivedFromArguments(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isa<func::FuncOp>(argument.getOwner()->getParentOp());
  Operation *op = value.getDefiningOp();
  if (matchPattern(value, m_Constant()))
    return true;
  return isa<arith::ExtSIOp, arith::ExtUIOp, tile::HintOp>(op) && isDerivedFromArguments(op->getOperand(0));
}

LogicalResult TensorMapOp::verify() {
  auto block = getDesc().getType().getBlock();
  int64_t rank = block.getRank();
  if (int64_t(getBox().size()) != rank ||
      llvm::any_of(getBox(), [](int64_t side) { return side < 1 || side > 256; })) // tensor_map_c1
    return emitOpError()
           << "expected one side of 1 to 256 per dimension of the block (because a copy moves no larger box), got ["
           << getBox() << "]";
  int32_t swizzle = int32_t(getSwizzle());
  int64_t rowBytes = getBox().back() * tile::memoryBytes(block.getElementType());
  if (!llvm::is_contained({0, 32, 64, 128}, swizzle) || rowBytes % 16 || (swizzle && rowBytes > swizzle))
    return emitOpError() // tensor_map_c2
           << "expected a swizzle of 0, 32, 64 or 128 bytes and rows of a multiple of 16 bytes within it (because the "
              "copy engine supports no others), got "
           << swizzle << " and rows of " << rowBytes;
  auto made = getDesc().getDefiningOp<tile::MakeDescOp>();
  if (!made || !llvm::all_of(made->getOperands(), isDerivedFromArguments)) // tensor_map_c3
    return emitOpError("expected a descriptor made from the kernel's arguments and constants (because the launch "
                       "builds the tensor map), got another");
  if (rank < 1 || rank > 5 || !matchPattern(made.getStrides().back(), m_One())) // tensor_map_c4
    return emitOpError(
               "expected rank 1 to 5 and a last stride of 1 (because the copy engine reads contiguous rows), got rank ")
           << rank << " and " << made.getStrides().back();
  return success();
}

/// Checks for one offset per dimension of the map's box, and boxes that fill the memory.
static LogicalResult verifyBoxes(Operation *op, Value map, ValueRange offsets, MemType memory, bool whole) {
  auto made = map.getDefiningOp<TensorMapOp>();
  size_t rank = made ? made.getBox().size() : memory.getShape().size();
  if (offsets.size() != rank) // copy_in_c1, copy_out_c1, prefetch_c1
    return op->emitOpError() << "expected one offset per dimension of the box, got " << offsets.size();
  if (!made)
    return success();
  // If every cta holds the whole part, each sends one piece of it.
  int64_t pieces = 1;
  if (whole)
    for (const layout::Digit &digit : layoutOf(memory).digits(Coord::Cta))
      pieces *= digit.replicates() ? digit.radix : 1;
  ArrayRef<int64_t> box = made.getBox(), inner = box.take_back(memory.getRank());
  std::optional<BoxPlan> plan = planBoxes(memory, pieces);
  if (plan && plan->box.front() != inner.front())
    plan = planBoxes(memory, pieces, inner.front());
  bool inFront = llvm::all_of(box.drop_back(inner.size()), [](int64_t side) { return side == 1; });
  if (plan && inFront && ArrayRef<int64_t>(plan->box) == inner && plan->swizzle == int32_t(made.getSwizzle()))
    return success(); // copy_in_c3, copy_out_c2, prefetch_c2
  return op->emitOpError() << "expected boxes that fill the memory (because copies write whole boxes), got ["
                           << made.getBox() << "] swizzled over " << int32_t(made.getSwizzle()) << " for " << memory;
}

/// True when `memory` was acquired from the channel with this cursor: what arrives there counts for that slot.
static bool isAcquired(Value memory, Value channel, Value cursor) {
  auto acquired = memory.getDefiningOp<AcquireOp>();
  return acquired && acquired.getChannel() == channel && acquired.getCursor() == cursor;
}

LogicalResult CopyInOp::verify() {
  if (!isAcquired(getMem(), getChannel(), getCursor())) // copy_in_c2
    return emitOpError("expected memory acquired from this channel at this cursor (because the slot's mbarrier counts "
                       "the bytes that arrive), got other memory");
  auto channel = getChannel().getDefiningOp<ChannelOp>();
  if (channel && channel.getCompletion() != Completion::Bytes) // copy_in_c4
    return emitOpError(
               "expected a channel that completes by bytes (because the copy engine signals bytes), got one that "
               "completes by ")
           << stringifyCompletion(channel.getCompletion());
  return verifyBoxes(*this, getMap(), getOffsets(), getMem().getType(), /*whole=*/true);
}

/// The checks that all copies by threads share; `tile` is what they copy.
template <typename Op> static LogicalResult verifyThreadsCopy(Op op, RankedTensorType tile) {
  if (!isAcquired(op.getMem(), op.getChannel(), op.getCursor())) // copy_block_c2, copy_tile_c2
    return op.emitOpError("expected memory acquired from this channel at this cursor (because its commit commits the "
                          "group of these copies), got other memory");
  MemType memory = op.getMem().getType();
  if (memory.getShape() != tile.getShape() || memory.getElementType() != tile.getElementType())
    return op.emitOpError("expected memory of the shape and element type of the copied tile, got ") // c3
           << memory << " for " << tile;
  auto channel = op.getChannel().template getDefiningOp<ChannelOp>();
  if (channel && channel.getCompletion() != Completion::Groups) // copy_block_c4, copy_tile_c4
    return op.emitOpError("expected a channel that completes by groups (because copies by threads are committed in "
                          "groups), got one that "
                          "completes by ")
           << stringifyCompletion(channel.getCompletion());
  return success();
}

LogicalResult CopyBlockOp::verify() {
  auto block = getDesc().getType().getBlock();
  if (int64_t(getOffsets().size()) != block.getRank()) // copy_block_c1
    return emitOpError() << "expected one offset per dimension of the block, got " << getOffsets().size();
  return verifyThreadsCopy(*this, block);
}

LogicalResult CopyTileOp::verify() {
  auto pointers = dyn_cast<RankedTensorType>(getPtr().getType());
  auto mask = getMask() ? dyn_cast<RankedTensorType>(getMask().getType()) : pointers;
  if (!pointers || !mask || mask.getShape() != pointers.getShape()) // copy_tile_c1
    return emitOpError("expected a tile of pointers and a mask of its shape (because each pointer needs its own "
                       "condition), got ")
           << getPtr().getType() << (getMask() ? " and a mask of another shape" : "");
  Type element = cast<tile::PtrType>(pointers.getElementType()).getPointee();
  return verifyThreadsCopy(*this, RankedTensorType::get(pointers.getShape(), element));
}

LogicalResult PrefetchOp::verify() {
  return verifyBoxes(*this, getMap(), getOffsets(), cast<MemType>(getMemory()), /*whole=*/true);
}

bool CopyOutOp::canReduce(tile::RMWKind kind, Type element) {
  switch (kind) {
  case tile::RMWKind::FAdd:
    return element.isF16() || element.isBF16() || element.isF32();
  case tile::RMWKind::Add:
  case tile::RMWKind::UMax:
  case tile::RMWKind::UMin:
  case tile::RMWKind::And:
  case tile::RMWKind::Or:
  case tile::RMWKind::Xor:
    return element.isInteger(32);
  default:
    return false;
  }
}

std::optional<tile::RMWKind> CopyOutOp::reduction() {
  return getKind() ? tile::symbolizeRMWKind(*getKind()) : std::nullopt;
}

LogicalResult CopyOutOp::verify() {
  Type element = getMem().getType().getElementType();
  if (getKind() && !(reduction() && canReduce(*reduction(), element))) // copy_out_c3
    return emitOpError() << "expected a kind and elements that the copy engine combines (because it adds f16, bf16, "
                            "f32 and i32, and compares i32 as unsigned), got "
                         << *getKind() << " of " << element;
  if (getByGroup()) { // copy_out_c4
    auto made = getMap().getDefiningOp<TensorMapOp>();
    int64_t rows = rowsOfGroup(), boxRows = made ? made.getBox().take_back(2).front() : 1;
    if (rows == 0 || rows % boxRows)
      return emitOpError("expected a role in which each group has whole boxes of the matrix's rows (because one thread "
                         "of each group copies them), got ")
             << getMem().getType();
  }
  return verifyBoxes(*this, getMap(), getOffsets(), getMem().getType(), /*whole=*/false);
}

int64_t CopyOutOp::rowsOfGroup() {
  auto [roles, role] = roleAround(*this);
  std::optional<layout::ClusterPiece> held = layout::pieceOf(layoutOf(getMem().getType()));
  if (!getByGroup() || !roles || !held || held->piece.rank() != 2)
    return 0;
  int64_t rows = held->piece.shape()[0], groups = roles.getGroups()[role];
  return rows % groups ? 0 : rows / groups;
}

LogicalResult CopyOutWaitOp::verify() {
  if (int32_t(getPending()) < 0) // copy_out_wait_c1
    return emitOpError() << "expected at least 0 groups pending (because it is a count), got " << int32_t(getPending());
  return success();
}

/// The nearest turn op of the block after (or before) `op`.
static Operation *nextTurn(Operation *op, bool forward) {
  do
    op = forward ? op->getNextNode() : op->getPrevNode();
  while (op && !isa<BeginTurnOp, EndTurnOp>(op));
  return op;
}

LogicalResult BeginTurnOp::verify() {
  auto [roles, role] = roleAround(*this);
  if (!roles || roles.getGroups()[role] < 2) // begin_turn_c1
    return emitOpError("expected a role of several groups around it (because groups take turns), got none");
  if (!isa_and_nonnull<EndTurnOp>(nextTurn(*this, /*forward=*/true))) // begin_turn_c2
    return emitOpError("expected kgpu.end_turn next in its block (because the next group waits for it), got none");
  return success();
}

LogicalResult EndTurnOp::verify() {
  if (!isa_and_nonnull<BeginTurnOp>(nextTurn(*this, /*forward=*/false))) // end_turn_c1
    return emitOpError("expected kgpu.begin_turn before it in its block (because a group ends its own turn), got none");
  return success();
}

//===----------------------------------------------------------------------===//
// Roles: `kgpu.roles @load warps 1 registers 24 { ... } @multiply groups 2 warps 4 registers 240 { ... }`
//===----------------------------------------------------------------------===//

ParseResult RolesOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<Attribute> names;
  SmallVector<int32_t> warps, groups, registers;
  StringAttr name;
  while (succeeded(parser.parseOptionalSymbolName(name))) {
    names.push_back(name);
    warps.push_back(0);
    groups.push_back(1);
    registers.push_back(0);
    for (auto [key, value] :
         {std::pair("groups", &groups.back()), {"warps", &warps.back()}, {"registers", &registers.back()}})
      if (succeeded(parser.parseOptionalKeyword(key)) && parser.parseInteger(*value))
        return failure();
    if (parser.parseRegion(*result.addRegion()))
      return failure();
  }
  result.addAttribute(getNamesAttrName(result.name), builder.getArrayAttr(names));
  result.addAttribute(getWarpsAttrName(result.name), builder.getDenseI32ArrayAttr(warps));
  result.addAttribute(getGroupsAttrName(result.name), builder.getDenseI32ArrayAttr(groups));
  result.addAttribute(getRegistersAttrName(result.name), builder.getDenseI32ArrayAttr(registers));
  return parser.parseOptionalAttrDict(result.attributes);
}

void RolesOp::print(OpAsmPrinter &p) {
  for (unsigned i = 0; i < size(); ++i) {
    p << ' ';
    p.printSymbolName(cast<StringAttr>(getNames()[i]).getValue());
    if (getGroups()[i] != 1)
      p << " groups " << getGroups()[i];
    p << " warps " << getWarps()[i];
    if (getRegisters()[i])
      p << " registers " << getRegisters()[i];
    p << ' ';
    p.printRegion(getBodies()[i]);
  }
  p.printOptionalAttrDict((*this)->getAttrs(),
                          {getNamesAttrName(), getWarpsAttrName(), getGroupsAttrName(), getRegistersAttrName()});
}

bool RolesOp::sharesGroup(unsigned role) {
  if (role == 0 || getRegisters()[role] == 0 || getRegisters()[role] != getRegisters()[role - 1])
    return false;
  int32_t used = warpsOf(role - 1);
  for (unsigned i = role - 1; sharesGroup(i); --i)
    used += warpsOf(i - 1);
  return used + warpsOf(role) <= 4;
}
int32_t RolesOp::paddedWarps(unsigned role) {
  if (role + 1 < size() && sharesGroup(role + 1))
    return warpsOf(role);
  // setmaxnreg and warpgroup products need four warps that start at a multiple of four.
  bool aligned = llvm::any_of(getRegisters(), [](int32_t count) { return count != 0; }) ||
                 llvm::any_of(getWarps().drop_front(role + 1), [](int32_t warps) { return warps % 4 == 0; });
  int32_t first = firstWarp(role), end = first + warpsOf(role);
  return aligned ? llvm::alignTo(end, 4) - first : warpsOf(role);
}
int32_t RolesOp::firstWarp(unsigned role) {
  int32_t first = 0;
  for (unsigned i = 0; i < role; ++i)
    first += paddedWarps(i);
  return first;
}
int32_t RolesOp::totalWarps() { return firstWarp(size()); }

LogicalResult RolesOp::verifyRegions() {
  size_t count = getBodies().size();
  if (count == 0 || getNames().size() != count || getWarps().size() != count || getGroups().size() != count ||
      getRegisters().size() != count) // roles_c1
    return emitOpError()
           << "expected a name, warps, groups and registers for each region (because each is a role), got "
           << getNames().size() << " names for " << count << " regions";
  for (unsigned i = 0; i < count; ++i) {
    if (getWarps()[i] < 1 || !llvm::isPowerOf2_32(getWarps()[i]) || getGroups()[i] < 1) // roles_c2
      return emitOpError()
             << "expected a power of two as warps and at least one group (because layouts are powers of two), got "
             << getWarps()[i] << " and " << getGroups()[i];
    int32_t registers = getRegisters()[i];
    if (registers && (registers < 24 || registers > 240 || registers % 8)) // roles_c3
      return emitOpError()
             << "expected 0 registers, or a multiple of 8 from 24 to 240 (because setmaxnreg takes no others), got "
             << registers;
  }
  WalkResult crossed = (*this)->walk([&](Operation *op) { // roles_c4
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()) && !(*this)->isAncestor(operand.getParentBlock()->getParentOp())) {
        op->emitOpError()
            << "expected no tile from outside its role (because the role's threads do not hold its elements), got "
            << operand.getType();
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  if (crossed.wasInterrupted())
    return failure();
  Operation *parent = (*this)->getParentOp();
  auto others = isa<func::FuncOp>(parent) ? llvm::range_size(cast<func::FuncOp>(parent).getOps<RolesOp>()) : 0;
  if (others != 1) // roles_c5
    return emitOpError("expected a single kgpu.roles, in the function's body (because a block is divided into roles "
                       "once), got ")
           << (isa<func::FuncOp>(parent) ? "another" : parent->getName().getStringRef());
  return success();
}

std::pair<RolesOp, unsigned> kgpu::roleAround(Operation *op) {
  for (Region *region = op->getParentRegion(); region; region = region->getParentRegion())
    if (auto roles = dyn_cast<RolesOp>(region->getParentOp()))
      return {roles, region->getRegionNumber()};
  return {};
}
