// kiln-verify-channels: everything that goes through channels arrives once, in order and in time, and no role waits
// forever.
//
// Each role is followed separately (RoleTrace.h), under the same assumptions as the others about how often loops run.
// Its own steps are checked on the way. Then the roles' steps at each channel must balance, and advancing every role as
// far as it can go must reach the end of all roles.
#include "compiler/transforms/kgpu/Passes.h"
#include "compiler/transforms/kgpu/RoleTrace.h"
#include "compiler/transforms/kgpu/VerifyWarpReads.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_VERIFYCHANNELSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

//===----------------------------------------------------------------------===//
// Accumulators in flight
//===----------------------------------------------------------------------===//

/// Whether a wait that leaves products pending still settles its accumulator: at least as many products must have begun
/// after the accumulator's product, in the same block, so that only those can be pending.
static bool settles(MmaWaitOp wait) {
  auto product = wait.getAcc().getDefiningOp<WarpgroupMmaOp>();
  if (!product || product->getBlock() != wait->getBlock())
    return int32_t(wait.getPending()) == 0;
  int32_t later = 0;
  for (Operation *op = product->getNextNode(); op != wait; op = op->getNextNode())
    later += isa<WarpgroupMmaOp>(op);
  return later >= int32_t(wait.getPending());
}

/// Follows results in flight from product to product; refuses any other use.
static LogicalResult verifyInFlight(func::FuncOp function) {
  SmallVector<Value> open;
  DenseSet<Value> seen;
  auto begin = [&](Value value) {
    if (seen.insert(value).second)
      open.push_back(value);
  };
  function.walk([&](Operation *op) {
    auto wait = dyn_cast<MmaWaitOp>(op);
    if (isa<WarpgroupMmaOp>(op) || (wait && !settles(wait)))
      begin(op->getResult(0));
  });
  while (!open.empty()) {
    Value value = open.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto product = dyn_cast<WarpgroupMmaOp>(user))
        if (&use == &product.getAccMutable())
          continue;
      if (isa<MmaWaitOp>(user))
        continue;
      if (auto loop = dyn_cast<scf::ForOp>(user)) {
        begin(loop.getTiedLoopRegionIterArg(&use));
        continue;
      }
      if (auto yield = dyn_cast<scf::YieldOp>(user))
        if (auto loop = dyn_cast<scf::ForOp>(yield->getParentOp())) {
          begin(loop.getRegionIterArg(use.getOperandNumber()));
          begin(loop.getResult(use.getOperandNumber()));
          continue;
        }
      InFlightDiagnostic error =
          user->emitOpError("expected a product to be waited for before its result is used "
                            "(because its registers are undefined until a kgpu.mma_wait), got it in flight");
      if (Operation *def = value.getDefiningOp())
        error.attachNote(def->getLoc()) << "where it comes from";
      return error;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

namespace {
/// The roles at the ends of a channel.
struct Ends {
  SmallVector<unsigned> producers, consumers;
};

class ChannelVerifier {
public:
  explicit ChannelVerifier(func::FuncOp function);
  LogicalResult verify();

private:
  LogicalResult findEnds();
  LogicalResult verifyWarps(unsigned channel);
  /// One run under assumed trip counts; sets `varies` if another run could behave differently.
  LogicalResult verifyRun(unsigned run, bool &varies);
  LogicalResult verifyBalance(unsigned channel, ArrayRef<RoleTrace> traces);
  LogicalResult refuseBalance(unsigned channel, const RoleTrace &from, const Role &producer, const RoleTrace &to,
                              const Role &consumer, int64_t committed, int64_t received);
  LogicalResult verifyTurns(unsigned channel, ArrayRef<RoleTrace> traces);
  LogicalResult verifyProgress(ArrayRef<RoleTrace> traces);

  func::FuncOp function;
  SmallVector<ChannelOp> channels;
  std::vector<Role> roles;
  SmallVector<Ends> ends;           ///< by channel
  SmallVector<bool> readByMachines; ///< by channel: tensor cores or the copy engine read its slots
  SmallVector<bool> inTurns;        ///< by channel: each slot is read by one of the consumers
  SmallVector<bool> ofOneReader;    ///< by channel: one role receives all of its slots, and another fills them
};
} // namespace

ChannelVerifier::ChannelVerifier(func::FuncOp function) : function(function), channels(function.getOps<ChannelOp>()) {
  roles.emplace_back("kernel", function.getBody().front(),
                     moduleNumber(function, kNumWarpsAttrName, 0) * moduleNumber(function, kNumGroupsAttrName, 1));
  for (auto op : function.getOps<RolesOp>())
    for (unsigned i = 0; i < op.size(); ++i)
      roles.emplace_back(cast<StringAttr>(op.getNames()[i]).getValue(), op.getBodies()[i].front(), op.warpsOf(i));
}

/// Whether tensor cores or the copy engine read the slot that this receive gives.
static bool isReadByMachines(ReceiveOp receive) {
  SmallVector<Value> open(receive.getParts().begin(), receive.getParts().end());
  while (!open.empty())
    for (Operation *user : open.pop_back_val().getUsers()) {
      if (isa<WarpgroupMmaOp, CopyOutOp>(user))
        return true;
      if (auto turned = dyn_cast<TransOp>(user))
        open.push_back(turned);
    }
  return false;
}

LogicalResult ChannelVerifier::findEnds() {
  ends.resize(channels.size());
  readByMachines.assign(channels.size(), false);
  inTurns.assign(channels.size(), false);
  ofOneReader.assign(channels.size(), false);
  for (auto [index, channel] : llvm::enumerate(channels)) {
    Operation *outside = nullptr, *inside = nullptr;
    for (Operation *user : channel->getUsers()) {
      unsigned role = 0;
      for (unsigned i = 1; i < roles.size(); ++i)
        if (roles[i].body->getParent()->isAncestor(user->getParentRegion()))
          role = i;
      (role ? inside : outside) = user;
      auto add = [role](SmallVector<unsigned> &list) {
        if (!llvm::is_contained(list, role))
          list.push_back(role);
      };
      if (isa<AcquireOp, CommitOp>(user))
        add(ends[index].producers);
      if (isa<ReceiveOp, ReleaseOp>(user))
        add(ends[index].consumers);
      if (auto receive = dyn_cast<ReceiveOp>(user))
        readByMachines[index] |= isReadByMachines(receive);
    }
    if (outside && inside) {
      InFlightDiagnostic error =
          outside->emitOpError("expected a channel to be used only by roles, or only outside them (because each thread "
                               "passes through its slots once), got both");
      error.attachNote(inside->getLoc()) << "the other use";
      return error;
    }
    llvm::sort(ends[index].producers);
    llvm::sort(ends[index].consumers);
    const auto &[producers, consumers] = ends[index];
    ofOneReader[index] = consumers.size() == 1 && producers != consumers;
    if (failed(verifyWarps(index)) || failed(verifyWarpReads(channel)))
      return failure();
  }
  return success();
}

LogicalResult ChannelVerifier::verifyWarps(unsigned index) {
  ChannelOp channel = channels[index];
  const auto &[producers, consumers] = ends[index];
  if (producers.empty() != consumers.empty())
    return channel.emitOpError("expected a role that fills slots and one that reads them (because each waits for the "
                               "other), got only one that ")
           << (producers.empty() ? "reads" : "fills") << " alone";
  if (producers.empty())
    return success();
  Completion completion = channel.getCompletion();
  if (completion == Completion::Groups && (producers != consumers || producers.size() != 1))
    return channel.emitOpError("expected one role that both fills and reads (because a thread can wait only for its "
                               "own copies), got several roles");
  if (completion == Completion::Bytes && producers.size() != 1)
    return channel.emitOpError("expected one role that fills slots (because the mbarrier expects the bytes of one "
                               "producer's copies), got ")
           << producers.size();
  auto warpsOf = [&](ArrayRef<unsigned> list) {
    int64_t sum = 0;
    for (unsigned role : list)
      sum += roles[role].warps;
    return sum;
  };
  // A function outside a module does not say how many warps run outside the roles.
  if (warpsOf(producers) == 0 || warpsOf(consumers) == 0)
    return success();
  int64_t fillers = completion == Completion::Bytes ? 1 : warpsOf(producers);
  if (int32_t(channel.getFillers()) != fillers)
    return channel.emitOpError() << "expected " << fillers << " fillers (because that many warps commit a slot), got "
                                 << int32_t(channel.getFillers());
  // Several consumers, each with as many warps as the channel has readers, take turns.
  inTurns[index] = consumers.size() > 1 && llvm::all_of(consumers, [&](unsigned role) {
                     return roles[role].warps == int32_t(channel.getReaders());
                   });
  if (!inTurns[index] && int32_t(channel.getReaders()) != warpsOf(consumers))
    return channel.emitOpError() << "expected " << warpsOf(consumers)
                                 << " readers (because that many warps release a slot), got "
                                 << int32_t(channel.getReaders());
  return success();
}

/// Reports the loop or branch of either role that has no counterpart in the other, if there is one.
LogicalResult ChannelVerifier::refuseBalance(unsigned index, const RoleTrace &from, const Role &producer,
                                             const RoleTrace &to, const Role &consumer, int64_t committed,
                                             int64_t received) {
  auto unmatched = [&](const RoleTrace &in, const RoleTrace &other) -> Operation * {
    for (const auto &[key, op] : in.uses[index].decisions)
      if (!other.uses[index].decisions.contains(key))
        return op;
    return nullptr;
  };
  Operation *one = unmatched(from, to), *another = unmatched(to, from);
  InFlightDiagnostic error = (one       ? one
                              : another ? another
                                        : channels[index].getOperation())
                                 ->emitOpError()
                             << "expected roles @" << producer.name << " and @" << consumer.name
                             << " to commit and receive the same number of slots of a channel (because one of them "
                                "would wait forever otherwise), got "
                             << committed << " slots committed and " << received << " received";
  if (one && another)
    error.attachNote(another->getLoc()) << "it could not be matched with this in the other role (bounds and conditions "
                                           "match if the same ops compute them from the same values)";
  else if (one || another)
    error.attachNote((one ? to : from).uses[index].first ? (one ? to : from).uses[index].first->getLoc()
                                                         : channels[index].getLoc())
        << "the other role does this unconditionally";
  else
    for (const RoleTrace *trace : {&from, &to})
      if (Operation *step = trace->uses[index].first)
        error.attachNote(step->getLoc()) << "a step";
  return error;
}

/// Each committed slot is received by exactly one of the consumers that take turns.
LogicalResult ChannelVerifier::verifyTurns(unsigned index, ArrayRef<RoleTrace> traces) {
  const auto &[producers, consumers] = ends[index];
  for (unsigned producer : producers) {
    int64_t committed = traces[producer].uses[index].committed;
    SmallVector<int> readers(committed, -1);
    auto refuse = [&](unsigned role, int64_t place, StringRef got) {
      const ChannelUse &use = traces[role].uses[index];
      return (use.first ? use.first : channels[index].getOperation())->emitOpError()
             << "expected each of " << committed << " slots that role @" << roles[producer].name
             << " commits to be received by exactly one of the roles that take turns (because the producer waits for "
                "one release), got place "
             << place << " received by " << got;
    };
    for (unsigned consumer : consumers)
      for (int64_t place : traces[consumer].uses[index].received) {
        if (place >= committed)
          return refuse(consumer, place, "@" + roles[consumer].name + " and committed by none");
        if (readers[place] >= 0)
          return refuse(consumer, place, "@" + roles[readers[place]].name + " and @" + roles[consumer].name);
        readers[place] = int(consumer);
      }
    for (auto [place, reader] : llvm::enumerate(readers))
      if (reader < 0)
        return refuse(consumers.front(), place, "none");
  }
  return success();
}

LogicalResult ChannelVerifier::verifyBalance(unsigned index, ArrayRef<RoleTrace> traces) {
  const auto &[producers, consumers] = ends[index];
  if (inTurns[index])
    return verifyTurns(index, traces);
  for (unsigned producer : producers)
    for (unsigned consumer : consumers) {
      int64_t committed = traces[producer].uses[index].committed;
      int64_t received = traces[consumer].uses[index].received.size();
      if (committed != received)
        return refuseBalance(index, traces[producer], roles[producer], traces[consumer], roles[consumer], committed,
                             received);
    }
  return success();
}

/// Advances each role as far as it can go, over and over. Steps wait only for counts that grow, so the order does not
/// matter: if one order finishes, all do. On the way each step learns which steps of other roles have certainly
/// completed when it proceeds.
LogicalResult ChannelVerifier::verifyProgress(ArrayRef<RoleTrace> traces) {
  using Clock = SmallVector<size_t, 4>; ///< by role: how many of its steps have completed
  struct Slot {
    unsigned commits = 0, releases = 0;
    Clock committed, released;
    std::optional<std::pair<unsigned, size_t>> received; ///< the role, and the number of its step
  };
  /// By turn and role: the number of the last step that used the memory.
  std::map<unsigned, Clock> used;
  SmallVector<size_t> at(traces.size(), 0);
  std::vector<Clock> clocks(traces.size(), Clock(traces.size(), 0));
  std::vector<std::map<int64_t, Slot>> slots(channels.size());
  auto slotAt = [&](unsigned channel, int64_t place) -> Slot & {
    Slot &slot = slots[channel][place];
    slot.committed.resize(traces.size());
    slot.released.resize(traces.size());
    return slot;
  };
  auto join = [](Clock &into, const Clock &other) {
    for (auto [mine, theirs] : llvm::zip_equal(into, other))
      mine = std::max(mine, theirs);
  };
  auto slotBefore = [&](const ChannelStep &step) { return step.place - channels[step.channel].getType().getSlots(); };
  auto mayGoOn = [&](const ChannelStep &step) {
    if (step.kind == ChannelStep::Use)
      return true;
    const auto &[producers, consumers] = ends[step.channel];
    if (step.kind == ChannelStep::Acquire)
      return slotBefore(step) < 0 ||
             slotAt(step.channel, slotBefore(step)).releases == (inTurns[step.channel] ? 1 : consumers.size());
    return step.kind != ChannelStep::Receive || slotAt(step.channel, step.place).commits == producers.size();
  };
  // Roles that take turns with memory: whatever another role has done to it must be known to be over. Steps are visited
  // in an order that can happen, so accesses that nothing orders are found at the later one.
  auto use = [&](unsigned role, const ChannelStep &step) -> LogicalResult {
    Clock &last = used[step.channel];
    last.resize(traces.size());
    for (unsigned other = 0; other < traces.size(); ++other)
      if (other != role && last[other] > clocks[role][other]) {
        InFlightDiagnostic error = step.op->emitOpError()
                                   << "expected role @" << roles[role].name
                                   << " to wait for its turn with this memory (because role @" << roles[other].name
                                   << " uses the same bytes), got no synchronisation after the other role's use";
        error.attachNote(traces[other].steps[last[other] - 1].op->getLoc()) << "the other role's use";
        return error;
      }
    clocks[role][role] = last[role] = at[role] + 1;
    return success();
  };
  auto go = [&](unsigned role, const ChannelStep &step) -> LogicalResult {
    Clock &clock = clocks[role];
    if (step.kind == ChannelStep::Use)
      return use(role, step);
    Slot &slot = slotAt(step.channel, step.place);
    if (step.kind == ChannelStep::Acquire && slotBefore(step) >= 0)
      join(clock, slotAt(step.channel, slotBefore(step)).released);
    if (step.kind == ChannelStep::Receive) {
      slot.received = {role, at[role] + 1};
      // A barrier's parity distinguishes only two consecutive rounds. That the barrier lets this role pass therefore
      // proves nothing: the previous receive must be known to have completed.
      auto before = inTurns[step.channel] && step.place ? slotAt(step.channel, step.place - 1).received : std::nullopt;
      if (inTurns[step.channel] && step.place &&
          (!before || (before->first != role && clock[before->first] < before->second)))
        return step.op->emitOpError() << "expected role @" << roles[role].name
                                      << " to wait for its turn (because the parity of a slot's mbarrier only tells "
                                         "two consecutive rounds apart, and place "
                                      << step.place - 1
                                      << " may not have been received yet), got no synchronisation with its receive";
      join(clock, slot.committed);
    }
    clock[role] = at[role] + 1;
    if (step.kind == ChannelStep::Commit) {
      ++slot.commits;
      join(slot.committed, clock);
    } else if (step.kind == ChannelStep::Release) {
      ++slot.releases;
      join(slot.released, clock);
    }
    return success();
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (auto [role, trace] : llvm::enumerate(traces))
      for (; at[role] < trace.steps.size() && mayGoOn(trace.steps[at[role]]); ++at[role], moved = true)
        if (failed(go(role, trace.steps[at[role]])))
          return failure();
  }
  for (auto [role, trace] : llvm::enumerate(traces)) {
    if (at[role] == trace.steps.size())
      continue;
    const ChannelStep &step = trace.steps[at[role]];
    InFlightDiagnostic error =
        step.op->emitOpError()
        << "expected another role to complete what this waits for (because the kernel hangs otherwise), got role @"
        << roles[role].name << " waiting forever at place " << step.place << " of a ring of "
        << channels[step.channel].getType().getSlots();
    for (auto [other, blocked] : llvm::enumerate(traces))
      if (other != role && at[other] != blocked.steps.size())
        error.attachNote(blocked.steps[at[other]].op->getLoc()) << "role @" << roles[other].name << " waits here";
    return error;
  }
  return success();
}

LogicalResult ChannelVerifier::verifyRun(unsigned run, bool &varies) {
  int64_t slots = 1;
  for (ChannelOp channel : channels)
    slots = std::max<int64_t>(slots, channel.getType().getSlots());
  Assumptions assumed(run, slots);
  std::vector<RoleTrace> traces;
  for (const Role &role : roles) {
    traces.emplace_back(role, channels, readByMachines, inTurns, ofOneReader, assumed);
    if (failed(traces.back().run()))
      return failure();
  }
  varies |= assumed.varies;
  for (unsigned channel = 0; channel < channels.size(); ++channel)
    if (failed(verifyBalance(channel, traces)))
      return failure();
  return verifyProgress(traces);
}

LogicalResult ChannelVerifier::verify() {
  if (failed(verifyInFlight(function)) || failed(findEnds()))
    return failure();
  for (const Role &role : roles)
    if (failed(role.check()))
      return failure();
  bool varies = false;
  for (unsigned run = 0; run < Assumptions::runs(varies); ++run)
    if (failed(verifyRun(run, varies)))
      return failure();
  return success();
}

namespace {
struct VerifyChannels : kiln::impl::VerifyChannelsPassBase<VerifyChannels> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    bool asynchronous = false;
    function.walk([&](Operation *op) {
      asynchronous |= isa<ChannelOp, WarpgroupMmaOp, CopyOutOp, AcquireOp, CommitOp, ReceiveOp, ReleaseOp>(op);
    });
    if (asynchronous && failed(ChannelVerifier(function).verify()))
      signalPassFailure();
  }
};
} // namespace
