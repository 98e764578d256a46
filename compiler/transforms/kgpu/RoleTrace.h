// Follows a role's steps at channels, op by op, under assumptions about how often loops run.
//
// This looks only at the role's own steps; VerifyChannels.cpp relates them to those of other roles.
#pragma once
#include "compiler/transforms/kgpu/RoleScalars.h"
#include "dialects/tile/TileOps.h"
#include <deque>
#include <set>

namespace kiln::kgpu {

/// A step at a slot: `place` is its position in the ring, counted from 0 without wrapping. Or an access to memory that
/// roles take turns with, or the end of an asynchronous one: `channel` is then the number of the turn.
struct ChannelStep {
  enum Kind : uint8_t { Acquire, Commit, Receive, Release, Use };
  Kind kind;
  unsigned channel;
  int64_t place;
  mlir::Operation *op;
};

/// The steps of a role at one channel.
struct ChannelUse {
  int64_t acquired = 0, committed = 0;
  std::vector<int64_t> received; ///< places, in order
  size_t released = 0;           ///< how many of those
  /// The place to release next.
  int64_t nextRelease() const {
    return released < received.size() ? received[released] : received.empty() ? 0 : received.back() + 1;
  }
  mlir::Operation *first = nullptr; ///< the first step
  /// The loops and branches around steps, by key: they determine how often steps run.
  llvm::MapVector<unsigned, mlir::Operation *> decisions;
};

/// One run of one role: its steps in order, each checked against the role's earlier steps.
class RoleTrace : private RoleScalars {
public:
  RoleTrace(const Role &role, llvm::ArrayRef<ChannelOp> channels, llvm::ArrayRef<bool> readByMachines,
            llvm::ArrayRef<bool> inTurns, llvm::ArrayRef<bool> ofOneReader, Assumptions &assumed);
  /// Fails at the first incorrect step.
  mlir::LogicalResult run();

  std::vector<ChannelStep> steps;
  std::vector<ChannelUse> uses; ///< by channel

private:
  /// A part of a slot, or an allocation.
  struct Memory {
    mlir::Operation *alloc = nullptr; ///< null: a part of a channel
    unsigned channel = 0, part = 0;
    int64_t place = 0;
    bool filling = false; ///< given by an acquire
    bool operator==(const Memory &other) const {
      return alloc == other.alloc && channel == other.channel && (alloc || place == other.place);
    }
  };
  /// An asynchronous op in flight, and what it reads.
  struct UnderWay {
    mlir::Operation *op;
    llvm::SmallVector<Memory, 2> reads;
  };

  mlir::LogicalResult visit(mlir::Block &block);
  mlir::LogicalResult visit(mlir::Operation *op);
  mlir::LogicalResult visitFor(mlir::scf::ForOp loop);
  mlir::LogicalResult visitIf(mlir::scf::IfOp branch);
  mlir::LogicalResult visitWhile(mlir::scf::WhileOp loop);
  mlir::LogicalResult visitAcquire(AcquireOp op);
  mlir::LogicalResult visitCommit(CommitOp op);
  mlir::LogicalResult visitReceive(ReceiveOp op);
  /// A slot that this role has received already.
  mlir::LogicalResult visitReceivedAgain(ReceiveOp op);
  mlir::LogicalResult visitRelease(ReleaseOp op);
  mlir::LogicalResult visitProduct(WarpgroupMmaOp op);
  mlir::LogicalResult visitAtomic(tile::AtomicRMWOp op);
  mlir::LogicalResult visitAccesses(mlir::Operation *op);
  mlir::LogicalResult finish();

  /// The channel and place of a step; fails unless the place is `expected`.
  mlir::FailureOr<std::pair<unsigned, int64_t>> stepAt(mlir::Operation *op, mlir::Value channel, mlir::Value cursor,
                                                       int64_t expected, llvm::StringRef before);
  mlir::LogicalResult checkIdle(mlir::Operation *op, unsigned channel, int64_t place);
  /// All but `pending` readers are done.
  void settle(mlir::Operation *wait, std::deque<UnderWay> &readers, int32_t pending);
  /// Records an access to an allocation, if roles take turns with it.
  void noteUse(mlir::Operation *op, const Memory &memory);
  mlir::FailureOr<Memory> memoryOf(mlir::Operation *op, mlir::Value value);
  mlir::LogicalResult readsOf(mlir::Operation *op, mlir::Value value, llvm::SmallVectorImpl<Memory> &reads);
  /// Whether this copy is performed in this run.
  bool isMade(mlir::Operation *copy);
  mlir::LogicalResult checkReading(mlir::Operation *op, const Memory &memory);
  /// Fails if a channel completes by groups and the wait does not cover the copies of this place.
  mlir::LogicalResult checkLanded(ReceiveOp op, unsigned channel, int64_t place);
  /// Fails if something was copied to the slot and never read.
  mlir::LogicalResult checkRead(ReleaseOp op, unsigned channel, int64_t place);

  /// Fails with `error` if no fence has followed a store to this memory.
  mlir::LogicalResult checkFenced(mlir::Operation *op, const Memory &memory, llvm::StringRef error);

  /// Fails if this write to a received slot is not ordered.
  mlir::LogicalResult checkReplacing(mlir::Operation *op, const Memory &memory, bool byCopy);

  /// Records an op that determines how often the steps in it run.
  void noteDecision(mlir::Operation *op, unsigned key);
  /// Decides the condition of such an op.
  bool decideFor(mlir::Operation *op, mlir::Value condition);
  unsigned indexOf(mlir::Value channel);
  ChannelOp at(unsigned channel) { return channels[channel]; }

  llvm::ArrayRef<ChannelOp> channels;
  llvm::ArrayRef<bool> readByMachines; ///< by channel: tensor cores or the copy engine read its slots
  llvm::ArrayRef<bool> inTurns;        ///< by channel: its consumers take turns, each slot being read by one
  llvm::ArrayRef<bool> ofOneReader;    ///< by channel: one role receives all of its slots, and another fills them
  llvm::DenseMap<mlir::Value, Memory> memories;
  std::deque<UnderWay> products, copies;
  /// Copies to global memory that may not be there yet, and when they began.
  std::deque<std::pair<CopyOutOp, int64_t>> unwritten;
  int64_t lastAcquired = 0;              ///< when an atomic last acquired what another program has released
  mlir::Operation *lastPassed = nullptr; ///< the last atomic that passes a turn on, if copies were not there yet
  /// How often each part of the slots being filled was filled.
  std::map<std::pair<unsigned, int64_t>, llvm::SmallVector<int64_t>> fills;
  /// Copy groups that each thread has closed, over all channels: the slot (channel, place) that each was for.
  std::vector<std::pair<unsigned, int64_t>> groups;
  /// Parts of slots (channel, place, part) whose copy was skipped, whose copy was made, and that have been read.
  std::set<std::tuple<unsigned, int64_t, unsigned>> skipped, copied, read;
  /// Stores that no fence has followed.
  struct Unfenced {
    Memory memory;
    mlir::Operation *op;
  };
  llvm::SmallVector<Unfenced> unfenced;
  int64_t clock = 0; ///< counts steps
  llvm::DenseMap<unsigned, int64_t> lastReceive;
  std::map<std::pair<unsigned, int64_t>, int64_t> releaseAt;
};

} // namespace kiln::kgpu
