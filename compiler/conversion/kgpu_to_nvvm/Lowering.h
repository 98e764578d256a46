// What the files of this room share: the emitter of one kernel as the code of one thread. A tile with a layout is a
// list of scalars, one per register of the layout; everything else is one scalar. Each .cpp implements one concern,
// says so in its first line, and enters its emitters into the table through its add…() function (declared at the end).
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/target/Target.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Layout.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <functional>

namespace kiln::nvvm {

class Lowering;

/// The scalars of one value: one per register of a tile's layout, in order; one for a scalar; a descriptor is its base,
/// extents and strides.
using Registers = llvm::SmallVector<mlir::Value, 8>;

/// Who emits which op, by name.
class EmitTable {
public:
  using Emit = std::function<mlir::LogicalResult(Lowering &, mlir::Operation *)>;

  /// table.add<tile::ReduceOp, emitReduce>() with LogicalResult emitReduce(Lowering &, tile::ReduceOp).
  template <typename Op, mlir::LogicalResult (*emit)(Lowering &, Op)> void add() {
    emitters[Op::getOperationName()] = [](Lowering &lowering, mlir::Operation *op) {
      return emit(lowering, mlir::cast<Op>(op));
    };
  }
  /// Several ops by one function.
  template <mlir::LogicalResult (*emit)(Lowering &, mlir::Operation *), typename... Ops> void addAll() {
    (void(emitters[Ops::getOperationName()] = emit), ...);
  }
  const Emit *find(mlir::Operation *op) const {
    auto found = emitters.find(op->getName().getStringRef());
    return found == emitters.end() ? nullptr : &found->second;
  }

private:
  llvm::StringMap<Emit> emitters;
};

inline bool isTile(mlir::Type type) { return mlir::isa<mlir::RankedTensorType>(type); }
inline bool isTile(mlir::Value value) { return isTile(value.getType()); }
inline mlir::Type elementOf(mlir::Type type) {
  auto tile = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return tile ? tile.getElementType() : type;
}
inline mlir::Type elementOf(mlir::Value value) { return elementOf(value.getType()); }
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

/// The layout in the type of a tile; null (never for IR that kiln-verify-layouts accepts) without one.
const layout::Layout *layoutOf(mlir::Type type);
/// The type an element has in memory, global and shared: i1 is a byte, f8 an i8, a pointer !llvm.ptr<1>.
mlir::Type memoryType(mlir::Type element);
int64_t memoryBytes(mlir::Type element);
/// The type an element has in a register: a pointer is !llvm.ptr<1>, everything else itself.
mlir::Type registerType(mlir::Type element);

/// Address spaces of !llvm.ptr.
constexpr unsigned kGlobal = 1, kShared = 3, kCluster = 7;

class Lowering {
public:
  Lowering(mlir::func::FuncOp kernel, const Target &target, const EmitTable &table);
  mlir::LogicalResult run();

  //--- Values
  /// The registers of a value that was emitted (constants are made where they are used).
  llvm::ArrayRef<mlir::Value> get(mlir::Value value);
  mlir::Value scalar(mlir::Value value) { return get(value).front(); }
  void set(mlir::Value value, Registers registers);
  /// How many registers a value of this type is: those of the layout, 1, or those of a descriptor.
  unsigned registerCount(mlir::Type type) const;
  /// Types of those registers.
  llvm::SmallVector<mlir::Type> registerTypes(mlir::Type type) const;

  //--- Place.cpp: where this thread is among those of the kernel; inside a role, among those of the role. All i32,
  // computed once at the entry of either.
  mlir::Value thread();                             ///< of the cta (of the role)
  mlir::Value lane();                               ///< of the warp
  mlir::Value warp();                               ///< of its group
  mlir::Value group();                              ///< of the cta (of the role)
  mlir::Value cta();                                ///< of the cluster
  mlir::Value hardware(layout::Coord coord);        ///< one of the above; not Reg or Offset
  int64_t warps() const { return team.numWarps; }   ///< of a group
  int64_t groups() const { return team.numGroups; } ///< of a cta (of the role)
  int64_t clusterSize() const { return cluster; }   ///< ctas per program instance
  int64_t threads() const { return 32 * team.numWarps * team.numGroups; }
  int64_t maxRegisters() const { return limit; }      ///< of a thread; 0: no limit was asked for
  int64_t blockThreads() const { return numThreads; } ///< of the cta, whatever role is being emitted
  /// The number of this warp in the cta, the same for all of its lanes as far as ptxas can see.
  mlir::Value blockWarp();
  /// i1: one lane of this warp, and one thread of the cta (of the role): who arrives, and who issues copies. Always the
  /// same ones.
  mlir::Value isLeader();
  mlir::Value isIssuer();
  /// Emits `body` for the threads of role `index`, at whose entry the insertion point stands.
  mlir::LogicalResult inRole(kgpu::RolesOp roles, unsigned index, llvm::function_ref<mlir::LogicalResult()> body);

  //--- Coordinates.cpp: which element a register holds
  /// The part of the coordinate along `dim` that this thread's lane, warp, group and cta owe (i32; null when none do).
  mlir::Value threadPart(const layout::Layout &layout, unsigned dim);
  /// The coordinate of register `reg` along `dim`: thread part and constant. Where their bits do not overlap they are
  /// added without wrapping, so that the constant folds into addresses.
  mlir::Value coordinate(const layout::Layout &layout, int64_t reg, unsigned dim);
  /// The same in two parts, to be added: a value (or null) and a constant.
  std::pair<mlir::Value, int64_t> coordinateParts(const layout::Layout &layout, int64_t reg, unsigned dim);
  /// Row-major index of register `reg` in the tile (i32), constants folded likewise.
  mlir::Value linearIndex(const layout::Layout &layout, int64_t reg);
  /// i1: this thread owns the elements of its owner registers; null when every thread does.
  mlir::Value isOwner(const layout::Layout &layout);
  /// i1: the first thread of the program instance, which does what a scalar op does once.
  mlir::Value isFirstThread();
  /// The first register of this thread that holds the same element as `reg`.
  static int64_t ownerRegister(const layout::Layout &layout, int64_t reg);
  static bool isOwnerRegister(const layout::Layout &layout, int64_t reg) { return ownerRegister(layout, reg) == reg; }
  /// Those that are their own owners, in order.
  static llvm::SmallVector<int64_t> ownerRegisters(const layout::Layout &layout);
  /// Sets registers that repeat an element to what its owner holds.
  static void repeatOwners(const layout::Layout &layout, Registers &registers);
  /// All registers from what the owners hold, in their order.
  static Registers fromOwners(const layout::Layout &layout, llvm::ArrayRef<mlir::Value> values);
  /// Value of a linear function of one hardware coordinate: digits of `coord` mapped by their bases along one
  /// dimension. `basis(digit index)` is what one step adds (bits: XORs). Null when all are zero.
  mlir::Value digitsValue(const layout::Layout &layout, layout::Coord coord,
                          llvm::function_ref<int64_t(unsigned)> basis);
  /// Runs `body` with the insertion point at the kernel's (the role's) entry, where what it makes dominates everything
  /// that its threads do.
  mlir::Value atEntry(llvm::function_ref<mlir::Value()> body);

  //--- Values.cpp, Ptx.cpp, ScalarOps.cpp: constants, instructions by name, registers as bits, ops on scalars
  mlir::Value i1(bool value);
  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value zero(mlir::Type type);
  mlir::Value constant(mlir::Type type, mlir::Attribute value);
  /// llvm.call_intrinsic; a null result type is void (and returns null).
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);
  /// Inline PTX. `pure`: depends on the operands alone (may be merged, moved or dropped); otherwise it is volatile and
  /// clobbers memory.
  Registers ptx(llvm::StringRef text, llvm::StringRef constraints, llvm::ArrayRef<mlir::Type> results,
                mlir::ValueRange operands, bool pure = false);
  /// Holds ptxas: what stands before is issued before what stands behind.
  void hold();
  /// A register as an integer of its width in memory (i1: i8, pointer: i64) and back.
  mlir::Value toBits(mlir::Value value);
  mlir::Value fromBits(mlir::Value bits, mlir::Type registerType);
  /// The 32-bit word that a 16-bit register was unpacked from and which half it is; null if it came another way.
  static std::pair<mlir::Value, unsigned> wordOf(mlir::Value value);
  /// A register as it lies in memory (memoryType) and back.
  mlir::Value toMemory(mlir::Value value, mlir::Type element);
  mlir::Value fromMemory(mlir::Value value, mlir::Type element);
  /// ptr + bytes (i32/i64 or a constant), inbounds of nothing.
  mlir::Value offsetBy(mlir::Value pointer, mlir::Value bytes);
  mlir::Value offsetBy(mlir::Value pointer, int64_t bytes);
  /// The kernel's dynamic shared memory, !llvm.ptr<3>.
  mlir::Value sharedBase();
  /// `offset` bytes into it, as the 32-bit address that PTX takes.
  mlir::Value sharedAddress(int64_t offset);
  /// The 32-bit address of memory.
  mlir::Value addressOf(mlir::Value pointer);
  /// Applies a single-block region of scalar ops (reduce, scan, portable) and returns what it yields; empty when an op
  /// in it is unknown (reported).
  Registers applyRegion(mlir::Region &region, llvm::ArrayRef<mlir::Value> arguments);
  /// One arith, math or pointer op on scalars; null on an unknown op (reported).
  llvm::SmallVector<mlir::Value, 2> applyScalar(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands);

  /// Library.cpp: a call of a library function on scalars; null when there is none of that name (reported).
  mlir::Value emitExternCall(tile::ExternCallOp op, llvm::ArrayRef<mlir::Value> operands);

  //--- Kernel.cpp
  mlir::LogicalResult emitBlock(mlir::Block &block);
  /// Emits the ops of a block up to its terminator and returns the expanded operands of that.
  mlir::FailureOr<Registers> emitBody(mlir::Block &block);
  /// tile.program_id and tile.num_programs (i32).
  mlir::Value programId(unsigned axis);
  mlir::Value gridSize(unsigned axis);
  /// Number of the program instance that the hardware started, and how many it started (i32, one dimension).
  mlir::Value firstProgram();
  mlir::Value programStep();
  /// TensorMap.cpp: the address of a map among the parameters (!llvm.ptr, generic: "l" in PTX).
  mlir::Value tensorMapParameter(mlir::Operation *map) {
    return entry.getArgument(entry.getNumArguments() - unsigned(tensorMaps.size()) + tensorMapIds.at(map));
  }
  /// What is computed once at the entry stands before it, what the kernel does behind it.
  mlir::Operation *anchor() { return team.anchor; }
  /// Access.cpp: the L2 policy of an eviction hint (i64).
  mlir::Value evictPolicy(tile::Eviction evict);
  /// The argument of the kernel a pointer steps from is never written by it and reached by no other argument.
  bool isReadOnly(mlir::Value pointer);
  /// Some write to global memory may come before this op when the kernel runs.
  bool mayFollowStore(mlir::Operation *op);

  /// Barrier.cpp: the lanes of a warp meet, so that one of them speaks for all. Orders nothing between warps.
  void meetInWarp();

  //--- Hooks.cpp
  /// An assertion failed in this thread; of a scalar: in all threads of the program.
  void recordFailure(bool ofAll);
  /// `mask` (or null: always) where no assertion of this thread has failed yet. Tiles of global memory are accessed
  /// under it: what a thread goes on with after a failure may be an address out of bounds.
  mlir::Value unlessFailed(mlir::Value mask);
  /// Index of the site of a print or assert.
  int64_t siteOf(mlir::Operation *op);
  /// Linear program id, x fastest (i64), of the instance that `op` belongs to. Null, reported, where the loop over the
  /// instances of a persistent kernel is not around it.
  mlir::Value programNumber(mlir::Operation *op);
  /// `offset` bytes into the KilnDeviceLog.
  mlir::Value logAddress(int64_t offset);

  mlir::func::FuncOp source;    ///< the kernel in kgpu IR, unchanged while it is emitted
  mlir::LLVM::LLVMFuncOp entry; ///< what is emitted
  mlir::ImplicitLocOpBuilder b; ///< at the place of the op being emitted, with its location
  const Target &target;
  AlignmentAnalysis alignment; ///< of `source`
  mlir::Type ptrType;          ///< !llvm.ptr<1>
  bool pdl = false;
  mlir::Value hooks; ///< i64 address of the hook buffer; null without sites
  llvm::SmallVector<mlir::Attribute> sites;
  /// Where the number of prints executed so far is kept.
  mlir::Value &printCount() { return team.printCount; }

private:
  void createEntry();
  void bindArguments();
  mlir::LogicalResult checkPersistent();
  mlir::LogicalResult collectTensorMaps();
  /// Attributes of the parameters from `firstArgument` on, which start behind `offset` bytes of others.
  void bindTensorMaps(unsigned firstArgument, int64_t offset);
  /// Adds to what the metadata says about the launch.
  void describeCuda(llvm::StringRef name, mlir::Attribute value);
  /// The op's code between the barriers it brings.
  mlir::LogicalResult emitOp(mlir::Operation *op);
  /// Barrier.cpp. Called by emitOp alone, so that no emitter makes a barrier that kiln-verify-barriers did not see.
  void emitBarrier(const kgpu::BarrierUse &use);
  mlir::Value guardDivisor(mlir::Operation *op, mlir::Value dividend, mlir::Value divisor);

  const EmitTable &table;
  int64_t numThreads = 128, cluster = 1, limit = 0;
  llvm::DenseMap<mlir::Value, std::unique_ptr<Registers>> values; ///< what get() returns stays where it is
  llvm::SmallVector<std::unique_ptr<Registers>> constants;        ///< what get() returned for constants
  llvm::DenseMap<mlir::Operation *, int64_t> siteIds;
  llvm::DenseSet<mlir::Value> written; ///< arguments a store or atomic steps from; null stands for an unknown one
  std::optional<llvm::DenseSet<mlir::Operation *>> afterStores; ///< reads that mayFollowStore(), once asked for
  struct Part {
    const layout::Layout layout;
    llvm::SmallVector<mlir::Value, 3> dims;
    llvm::SmallVector<bool, 3> known;
    mlir::Value owner;
    bool ownerKnown = false;
  };
  Part &partOf(const layout::Layout &layout);
  mlir::Value special(mlir::Value &slot, llvm::StringRef name);
  Registers constantRegisters(mlir::Operation *op);
  /// What is the same for everybody, once it was computed where everybody comes past.
  struct Shared {
    mlir::Value tid, lane, blockWarp, cta, memory, address, program, programIds[3], gridSizes[3], hardwareGrid,
        policies[3];
  };
  /// The threads that run what is being emitted, and what has been computed at their entry.
  struct Team : Shared {
    int64_t numWarps = 4, numGroups = 1;
    int64_t firstWarp = 0;             ///< in the cta
    unsigned barrier = 0;              ///< number of the barrier they meet at
    mlir::Operation *anchor = nullptr; ///< atEntry() inserts before it
    mlir::Value thread, warp, group, firstThread, leader, issuer, printCount;
    llvm::DenseMap<unsigned, llvm::SmallVector<std::unique_ptr<Part>, 1>> parts; ///< by hash
  };
  Team team;
  llvm::SmallVector<mlir::DictionaryAttr, 4> tensorMaps; ///< as the metadata describes them, but for the offset
  llvm::DenseMap<mlir::Operation *, unsigned> tensorMapIds;
  bool isPersistent = false;
  bool failuresEnd = true; ///< nobody waits for what a program has still to do when an assertion of it fails
  bool mayGoOn = false;    ///< a thread may go on after an assertion that failed
  mlir::Value failureCell; ///< where it is kept that one has
};

/// WarpgroupMma.cpp: the registers of an accumulator behind a wait for all but the last `pending` products.
Registers waitForProducts(Lowering &lowering, llvm::ArrayRef<mlir::Value> registers, mlir::Type element,
                          int64_t pending);

/// Any arith or math op, register by register.
mlir::LogicalResult emitElementwise(Lowering &lowering, mlir::Operation *op);

/// Moves what touches no memory in front of the first op that needs it, through everything that stays in its order.
/// Tiles are emitted op by op; where registers are scarce, one access' elements are to go all the way first.
void orderByUse(mlir::Block &block);

// One per file.
void addControlFlow(EmitTable &table);
void addElementwise(EmitTable &table);
void addShape(EmitTable &table);
void addMemory(EmitTable &table);
void addDescriptors(EmitTable &table);
void addAtomics(EmitTable &table);
void addHooks(EmitTable &table);
void addLibrary(EmitTable &table); ///< inline_asm, extern_call
void addProgram(EmitTable &table); ///< program_id, num_programs, assume, launch_dependents, wait_for_grid, persistence
void addTensorMaps(EmitTable &table);
void addBarriers(EmitTable &table);
void addRoles(EmitTable &table);
void addChannels(EmitTable &table);     ///< channel, cursor, acquire, commit, receive, release
void addCopies(EmitTable &table);       ///< copy_in, copy_out, fence_async
void addThreadCopies(EmitTable &table); ///< copy_block, copy_tile
void addMbarriers(EmitTable &table);
void addConvert(EmitTable &table);
void addReduce(EmitTable &table);
void addScan(EmitTable &table);
void addCompare(EmitTable &table);      ///< kgpu.compare
void addGather(EmitTable &table);       ///< inside a warp
void addKeep(EmitTable &table);         ///< kgpu.keep
void addDot(EmitTable &table);          ///< kgpu.dot
void addWarpgroupMma(EmitTable &table); ///< kgpu.warpgroup_mma, kgpu.mma_wait
void addWarpMma(EmitTable &table);      ///< kgpu.warp_mma
void addSharedMemory(EmitTable &table); ///< alloc, slot, local_*

} // namespace kiln::nvvm
