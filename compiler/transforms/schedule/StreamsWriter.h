// Writes out the schedule of several products (MaterializeStreams.cpp: roles; StreamsSlots.cpp: slots and products;
// RotatedLoops.cpp).
#pragma once
#include "compiler/transforms/schedule/RoleWriter.h"
#include "compiler/transforms/schedule/Streams.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln::schedule {

class StreamsWriter {
public:
  StreamsWriter(mlir::func::FuncOp kernel, const Schedule &schedule, Streams streams)
      : kernel(kernel), schedule(schedule), streams(std::move(streams)), b(kernel.getLoc(), kernel.getContext()) {}
  void run();

private:
  enum class Role { Load, Multiply, Add };

  /// The channel of the blocks and vectors that arrive together, or of a block that is added to memory.
  struct Ring {
    llvm::SmallVector<mlir::Type> memories;
    llvm::SmallVector<mlir::Value> maps;
    kgpu::ChannelOp channel;

    kgpu::CursorType cursorType() { return kgpu::CursorType::get(channel.getContext(), channel.getType().getSlots()); }
  };

  /// A slot that has been received but not released.
  struct Slot {
    unsigned ring;
    mlir::Value cursor;
    mlir::Block *place; ///< where it is loaded
    /// Products and loads of vectors that have not finished reading it, and stores that go through it.
    llvm::SmallVector<mlir::Operation *> readers;
  };

  //===-- MaterializeStreams.cpp: roles, and what leaves -------------------------------------------------===//
  void writeRole(mlir::scf::ForOp programs, Role role);
  void cloneLoop(mlir::scf::ForOp loop, Role role, mlir::IRMapping &map, llvm::MutableArrayRef<mlir::Value> cursors);
  void cloneBlock(mlir::Block &from, Role role, mlir::IRMapping &map, llvm::MutableArrayRef<mlir::Value> cursors);
  /// Before a loop is written: waits for the products and loads the vectors from outside that it uses.
  void prepareFor(mlir::scf::ForOp loop, mlir::IRMapping &map);
  void cloneOp(mlir::Operation &op, Role role, mlir::IRMapping &map, llvm::MutableArrayRef<mlir::Value> cursors);
  bool isKnown(mlir::Operation &op, mlir::IRMapping &map);
  bool streamsIn(mlir::Operation *op);
  /// Allocates memory for the whole multiply role.
  mlir::Value allocate(kgpu::MemType memory);
  void writeStore(tile::DescStoreOp store, mlir::IRMapping &map);
  /// Fills a slot with a block, or has the copy engine add it to memory from there.
  void writeReduction(tile::DescReduceOp op, Role role, mlir::IRMapping &map, mlir::Value &cursor);
  /// Begins or ends a turn in the add role. Its end is put off until the next turn's blocks are on their way, by which
  /// time its own are in memory; but not while the next turn is waited for, as that might wait for this one's end.
  /// `last`: whether there is such an end, where it is and what it writes.
  void writeTurn(mlir::Operation &op, mlir::IRMapping &map, llvm::MutableArrayRef<mlir::Value> last);
  /// Ends the turn that was put off, if there is one, when all but `later` groups of copies are in memory.
  void endTurn(llvm::ArrayRef<mlir::Value> last, uint32_t later);

  //===-- RotatedLoops.cpp --------------------------------------------------------------------------------===//
  void cloneRotated(RotatedLoop &rotated, mlir::IRMapping &map, llvm::MutableArrayRef<mlir::Value> cursors);
  /// Receives the slot of `step` and begins its first product.
  void beginStep();
  /// The rest of a step. `next`: the step that begins meanwhile.
  struct Step;
  void cloneRest(RotatedLoop &rotated, mlir::IRMapping &map, llvm::MutableArrayRef<mlir::Value> cursors, Step &next);
  /// The product that the last step put off.
  void makeDeferred(RotatedLoop &rotated, mlir::IRMapping &map, llvm::MutableArrayRef<mlir::Value> cursors);
  /// Passes over the block that a loop which puts off a product adds first: there was no step before.
  void skipFirst(RotatedLoop &rotated, mlir::IRMapping &map, llvm::MutableArrayRef<mlir::Value> cursors);

  //===-- StreamsSlots.cpp: slots, products and vectors ---------------------------------------------------===//
  void makeRings(bool bySlots);
  void fill(const Streams::Group &group, mlir::IRMapping &map, mlir::Value &cursor);
  void reach(mlir::Value value, mlir::IRMapping &map);
  /// `again`: the slot is held already, `unless` this is true.
  void receive(const Streams::Group &group, mlir::Value cursor, bool again = false, mlir::Value unless = {});
  void hasRead(mlir::Operation *reader, mlir::Block *place);
  mlir::Value memoryOf(const StreamFactor &factor, mlir::IRMapping &map);
  void begin(tile::DotOp dot, mlir::IRMapping &map);
  /// Stores a group's part of an operand that groups share.
  void share(mlir::Value tile, mlir::Value cursor);
  /// Begins the product of such an operand, once all groups have stored their parts.
  void beginShared(tile::DotOp dot, mlir::IRMapping &map, mlir::Value cursor);
  /// Waits until at most the last `pending` products begun in this block are in flight.
  void settle(size_t pending);
  /// Waits for the products begun with this map whose results are among `values`.
  void settleFor(mlir::ValueRange values, mlir::IRMapping &map);
  /// Waits for the products whose results `op` uses, and loads the vectors that it uses.
  void settleFor(mlir::Operation *op, mlir::IRMapping &map);
  /// The value is a loaded vector, or repeats one.
  bool isVector(mlir::Value value);
  /// Loads a vector, and gives it its shape.
  void loadVector(mlir::Value value, mlir::IRMapping &map);
  /// Loads the vectors among the values.
  void loadVectors(mlir::ValueRange values, mlir::IRMapping &map);

  mlir::func::FuncOp kernel;
  Schedule schedule;
  Streams streams;
  mlir::ImplicitLocOpBuilder b;
  llvm::SmallVector<Ring> rings;
  llvm::DenseMap<mlir::Operation *, unsigned> ringOf;       ///< by the first load of a group
  llvm::DenseMap<mlir::Operation *, Streams::Group> groups; ///< likewise
  llvm::DenseMap<mlir::Operation *, mlir::Value> parts;     ///< by load: its memory, once received
  llvm::SmallVector<Slot> slots;
  struct Begun {
    tile::DotOp dot;
    mlir::Value sum;
    mlir::IRMapping *map; ///< what its result is for
  };
  struct Store {
    kgpu::MemType memory;
    mlir::Value map;
  };
  llvm::MapVector<mlir::Operation *, Store> stores;
  /// Memory that results of a type leave through, one after the other.
  llvm::SmallDenseMap<mlir::Type, mlir::Value> outlets;
  struct Reduction {
    kgpu::MemType memory;
    unsigned ring = 0;
    mlir::Value map = {};
  };
  llvm::MapVector<mlir::Operation *, Reduction> reductions;
  llvm::DenseMap<mlir::Type, llvm::SmallVector<mlir::Value>> factors; ///< memory of computed operands
  /// The block being written.
  struct Inside {
    llvm::SmallVector<Begun> begun; ///< in flight, in program order
    /// Operands that were stored, here or in an enclosing block, and where.
    llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> stored;
    bool reduces = false; ///< it has a reduction
  } inside;
  Inside enter(mlir::Block &block);
  /// A step of a rotated loop that begins during the one before.
  struct Step {
    RotatedLoop &rotated;
    mlir::IRMapping map;
    mlir::Value cursor; ///< of its slot; before it has begun, of the one before
    mlir::Value comes;  ///< whether there is such a step, or else the one before is meant (null: it is the first)
    bool isDue = false, hasBegun = false;
  };
  Step *step = nullptr;               ///< in the block being written
  std::optional<unsigned> sharedRing; ///< of the operand that groups share
  /// A product that was put off by a step.
  struct Deferred {
    tile::DotOp dot;
    mlir::IRMapping map; ///< what its result is for
  };
  Deferred *stepBefore = nullptr; ///< what the step being written makes for the one before
  llvm::MapVector<mlir::Operation *, mlir::Operation *> throughHeld; ///< see storesThroughHeld
  bool loadsLate = false;                                            ///< vectors are loaded where they are used
  mlir::Block *multiply = nullptr;
};

} // namespace kiln::schedule
