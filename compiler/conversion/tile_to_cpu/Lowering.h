// What the files of this room share: the emitter of one kernel. The plan (Plan.h) says what happens in which order;
// this class emits it. Each .cpp implements one concern and is named after it.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/conversion/tile_to_cpu/Plan.h"
#include "compiler/target/Target.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"
#include <map>
#include <memory>

namespace kiln::cpu {

/// One coordinate: a run-time value plus a constant.
struct Coord {
  mlir::Value value;
  int64_t constant = 0;
};

/// Which elements to evaluate: one, or `width` consecutive ones along `vectorDim`, starting there.
struct Index {
  llvm::SmallVector<Coord> at;
  int vectorDim = -1;
  int64_t width = 1;

  bool isVector() const { return vectorDim >= 0; }
  Index lane0() const {
    Index index = *this;
    index.vectorDim = -1;
    index.width = 1;
    return index;
  }
};

/// True for ops whose elements are their operand's under another index: operandIndex().
bool isRenaming(mlir::Operation *op);
Index operandIndex(mlir::Operation *op, const Index &at);

/// A tile in memory, row-major and dense.
struct Storage {
  mlir::Value pointer;
  int lifetime = -1; ///< index into the lifetimes of frame buffers
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
};

/// Loops around the code being emitted, outermost first; level 0 is the block the nest stands in. A value is emitted at
/// the outermost level where its index is known, once.
struct Nest {
  struct Level {
    mlir::Block *block = nullptr;
    mlir::Operation *before = nullptr; ///< the next inner loop, or null: at the block's end
    std::map<std::vector<uintptr_t>, mlir::Value> cache;
  };
  llvm::SmallVector<Level> levels;
  llvm::DenseMap<mlir::Value, int> levelOf;
};

/// How a group's nest walks its index space.
struct Walk {
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<int> order; ///< dimensions, outermost first
  int vectorDim = -1;           ///< or -1: one element at a time
  int64_t width = 1;
  int blockDim = -1; ///< a second dimension walked in steps of `block`, or -1
  int64_t block = 1;
};

/// A tensor descriptor, taken apart.
struct Descriptor {
  mlir::Value base;
  llvm::SmallVector<mlir::Value> shape, strides;
  tile::Padding padding;
};

/// Whether the op reads a scalar in a loop without a count, which may wait for another program instance to write it.
bool mayWait(mlir::Operation *op);

enum class Check { None, Bounds, Races };
enum class Access : int { Load = 0, Store = 1, Atomic = 2 };

class KernelLowering {
public:
  KernelLowering(mlir::func::FuncOp kernel, const Target &target, Check check);
  mlir::LogicalResult run();

private:
  //--- Kernel.cpp: the entry function, arguments, program ids, the walk over steps
  void createEntry();
  void bindArguments();
  mlir::LogicalResult emitBlock(mlir::Block *block);
  mlir::LogicalResult emitOp(mlir::Operation *op);
  void finish();
  mlir::Value scalar(mlir::Value value);
  void bind(mlir::Value value, mlir::Value lowered) { scalars[value] = lowered; }
  mlir::Type scalarType(mlir::Type element);
  mlir::Type laneType(mlir::Type element, const Index &at);

  //--- Group.cpp, Nest.cpp, Walk.cpp: groups, loop nests, which dimension vectors run along
  Walk chooseWalk(llvm::ArrayRef<int64_t> shape, int reduceAxis, int64_t lanes) const;
  void preferDimension(Walk &walk, const Step &step);
  int gathersAlong(mlir::Value value, int dim, llvm::DenseSet<std::pair<mlir::Value, int>> &seen);
  bool splitTurned(const Step &step, llvm::SmallVectorImpl<Step> &parts);
  /// A square of as many vectors as lanes: rows become columns.
  void turnOver(llvm::MutableArrayRef<mlir::Value> columns);
  void writeTransposed(mlir::Value value, const Storage &target, const Walk &walk, const Index &at);
  mlir::LogicalResult emitGroup(const Step &step);
  /// Runs `body` at each index of the walk.
  mlir::LogicalResult forEach(const Walk &walk, llvm::function_ref<mlir::LogicalResult(const Index &)> body);
  /// Loop from 0 to `count` by `step` in the current block; the body gets the variable and carried values.
  llvm::SmallVector<mlir::Value>
  loop(int64_t count, int64_t step, mlir::ValueRange inits,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
  llvm::SmallVector<mlir::Value> branch(mlir::Value condition, mlir::TypeRange types,
                                        llvm::function_ref<llvm::SmallVector<mlir::Value>()> then,
                                        llvm::function_ref<llvm::SmallVector<mlir::Value>()> otherwise);
  /// Opens the loops of a walk; the innermost one carries `inits`. Code then goes into the innermost body.
  struct OpenNest {
    Nest nest;
    Index at;
    llvm::SmallVector<mlir::scf::ForOp> loops;
    llvm::SmallVector<mlir::Value> carried; ///< in the innermost body (or the inits, if there is no such loop)
    bool innermostLoops = false;            ///< the last dimension of the order has a loop
    Nest *outer = nullptr;
  };
  /// With `all` false the innermost loop is left to innermost().
  void openNest(OpenNest &open, const Walk &walk, mlir::ValueRange inits, bool all = true);
  llvm::SmallVector<mlir::Value> innermost(OpenNest &open, const Walk &walk, mlir::ValueRange inits,
                                           llvm::function_ref<llvm::SmallVector<mlir::Value>()> body);
  mlir::LogicalResult emitRoots(const Step &step, OpenNest &open, const Walk &walk, llvm::ArrayRef<Storage> targets,
                                llvm::ArrayRef<bool> identities, llvm::SmallVectorImpl<mlir::Value> &yields);
  //--- Full.cpp
  mlir::Value wholeRow(mlir::Value mask, unsigned dim, const Index &at);
  void collectMasks(mlir::Value value, llvm::SetVector<mlir::Value> &masks, llvm::DenseSet<mlir::Value> &seen,
                    bool top);
  mlir::Value fullRow(const Step &step, OpenNest &open, const Walk &walk, llvm::SmallVectorImpl<mlir::Value> &masks);
  /// Closes the innermost loop; code then goes after it. Returns its results (or `yields`).
  llvm::SmallVector<mlir::Value> closeInnermost(OpenNest &open, mlir::ValueRange yields);
  void closeNest(OpenNest &open);
  mlir::Value evalAlone(mlir::Value tile, Index at);
  int levelOf(const Coord &coord) const;
  int levelOf(const Index &at) const;
  void insertAt(int level);
  int64_t lanes() const { return std::max<int64_t>(1, target.vectorBytes / 4); }

  //--- Evaluate.cpp, EvaluateShape.cpp: lazy tiles
  mlir::Value eval(mlir::Value tile, Index at);
  mlir::Value evalVector(mlir::Value tile, const Index &at);
  mlir::Value evalOp(mlir::Value tile, const Index &at);
  mlir::Value evalElementwise(mlir::Value tile, const Index &at);
  mlir::Value evalReshape(tile::ReshapeOp op, const Index &at);
  mlir::Value evalSplit(mlir::Value tile, const Index &at);
  mlir::Value evalJoin(tile::JoinOp op, const Index &at);
  mlir::Value evalCat(tile::CatOp op, const Index &at);
  mlir::Value evalRange(tile::MakeRangeOp op, const Index &at);
  mlir::Value evalInlineAsm(mlir::Value tile, const Index &at);
  mlir::Value emitExternCall(tile::ExternCallOp op, llvm::ArrayRef<mlir::Value> operands);
  mlir::Value callHost(llvm::StringRef symbol, mlir::Type result, llvm::ArrayRef<mlir::Value> operands);
  mlir::Operation *cloneFor(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, int64_t width);
  /// Evaluates a single-block region of scalar ops on scalars or vectors.
  llvm::SmallVector<mlir::Value> emitRegion(mlir::Region &region, llvm::ArrayRef<mlir::Value> arguments);
  mlir::Value toVector(mlir::Value value, int64_t width);
  mlir::Value guardDivisor(mlir::Operation *op, mlir::Value dividend, mlir::Value divisor);
  void memoise(mlir::Value tile, const Index &at, mlir::Value lowered);
  std::vector<uintptr_t> keyOf(mlir::Value tile, const Index &at) const;
  // Coordinates
  mlir::Value coordValue(const Coord &coord);
  Coord total(const Coord &a, const Coord &c);
  Coord scaled(const Coord &coord, int64_t factor);
  Coord derived(const Coord &coord, llvm::function_ref<mlir::Value(mlir::Value)> fn);
  Coord quotient(const Coord &coord, int64_t divisor);
  Coord remainder(const Coord &coord, int64_t divisor);

  //--- Memory.cpp: loads, stores, descriptors, buffers
  mlir::Value evalLoad(tile::LoadOp op, const Index &at);
  mlir::Value evalDescLoad(tile::DescLoadOp op, const Index &at);
  mlir::LogicalResult emitStore(mlir::Operation *op, const Index &at);
  void emitScalarStore(tile::StoreOp op);
  mlir::Value emitScalarLoad(tile::LoadOp op);
  void bindDescriptor(tile::MakeDescOp op);
  mlir::Value loadFrom(mlir::Value address, mlir::Type element, int64_t width, bool isVolatile = false);
  void storeTo(mlir::Value address, mlir::Value value, mlir::Type element);
  mlir::Value maskedLoad(mlir::Value address, mlir::Value mask, mlir::Value other, mlir::Type element, int64_t width);
  void maskedStore(mlir::Value address, mlir::Value mask, mlir::Value value, mlir::Type element);
  mlir::Value gather(mlir::Value addresses, mlir::Value mask, mlir::Value other, mlir::Type element, int64_t width);
  void scatter(mlir::Value addresses, mlir::Value mask, mlir::Value value, mlir::Type element);
  mlir::Value addressOf(mlir::Value pointers, const Index &at);
  mlir::Value offsetBy(mlir::Value pointer, mlir::Value bytes);
  mlir::Value offsetBy(mlir::Value pointer, int64_t bytes);
  mlir::Value bufferAddress(const Storage &storage, const Index &at);
  mlir::Value readBuffer(const Storage &storage, const Index &at);
  void writeBuffer(const Storage &storage, const Index &at, mlir::Value value);
  mlir::Value toMemory(mlir::Value value, mlir::Type element);
  mlir::Value fromMemory(mlir::Value value, mlir::Type element);
  struct BoxPart {
    mlir::Value address, mask, stride; ///< lane 0; i1 scalar or vector or null; bytes per step or null (contiguous)
  };
  BoxPart boxPart(const Descriptor &desc, mlir::ValueRange offsets, std::optional<llvm::ArrayRef<int32_t>> boundary,
                  mlir::Type element, const Index &at);
  bool contiguous(mlir::Value pointers, unsigned dim, int64_t width);
  /// Neighbours.cpp: whether the pointers of this vector point to neighbours (an i1), or null if they never do.
  mlir::Value neighbours(mlir::Value pointers, const Index &at);
  mlir::Value laneAddresses(mlir::Value base, mlir::Value strideBytes, int64_t width);

  //--- Frame.cpp: buffers and their lifetimes
  Storage allocate(mlir::Type type, mlir::Value pointer = {});
  Storage allocateFor(mlir::Value value);
  void assign(mlir::Value value, Storage storage) { storages[value] = std::move(storage); }
  Storage &storageOf(mlir::Value value);
  void touch(int lifetime);
  int joinLifetimes(int a, int b);
  int rootLifetime(int lifetime) const;
  mlir::Value frameBuffer(int64_t bytes, int &lifetime);
  mlir::LogicalResult writeTile(mlir::Value tile, const Storage &target);
  void copyBuffer(const Storage &from, const Storage &to);
  void enterLoop();
  void leaveLoop();

  //--- Reduce.cpp
  /// x with combine(x, y) = y, or null if the region is not of a known form.
  mlir::TypedAttr identityOf(tile::ReduceOp op);
  void storeReduced(tile::ReduceOp op, mlir::ValueRange values, const Index &at, llvm::ArrayRef<Storage> results);
  llvm::SmallVector<mlir::Value> foldLanes(tile::ReduceOp op, llvm::SmallVector<mlir::Value> lanes, int64_t width);

  //--- Dot.cpp, Scan.cpp, Sort.cpp, Gather.cpp, Histogram.cpp, Atomics.cpp, Hooks.cpp, ControlFlow.cpp
  mlir::LogicalResult emitDot(tile::DotOp op);
  mlir::LogicalResult emitScan(tile::ScanOp op);
  llvm::SmallVector<mlir::Value> scanLanes(tile::ScanOp op, llvm::SmallVector<mlir::Value> values, int64_t width);
  mlir::LogicalResult emitSort(tile::SortOp op);
  mlir::LogicalResult emitTopk(tile::TopkOp op);
  mlir::LogicalResult emitGather(tile::GatherOp op);
  mlir::LogicalResult emitHistogram(tile::HistogramOp op);
  /// Sort.cpp: the first elements of each sorted row, as many as fit into the rows of `target`.
  void firstOfRows(const Storage &source, const Storage &target, bool descending, bool isUnsigned);
  struct Network;
  /// The old value (zero where masked off).
  mlir::Value emitAtomic(mlir::Operation *op, const Index *at);
  mlir::Value atomicAt(mlir::Operation *op, mlir::Value address, mlir::Value compare, mlir::Value value);
  mlir::Value exchangeLoop(mlir::Value address, mlir::Type element, mlir::Operation *op,
                           llvm::function_ref<mlir::Value(mlir::Value)> update);
  mlir::LogicalResult emitPrint(tile::PrintOp op);
  mlir::LogicalResult emitAssert(tile::AssertOp op, const Index *at);
  void emitAccess(mlir::Operation *op, Access kind, mlir::Value address, mlir::Value mask, mlir::Type element,
                  const Index &at, mlir::ArrayRef<int64_t> shape, mlir::Value strideBytes, mlir::Value addresses);
  /// An index of a tile that must be below `side`.
  void emitIndexCheck(mlir::Operation *op, mlir::Value index, int64_t side, const Index &at,
                      llvm::ArrayRef<int64_t> shape);
  /// Before the elements of one store of a tile.
  void emitStoreBegins(mlir::Operation *op);
  int siteOf(mlir::Operation *op);
  void hookCall(int64_t hook, llvm::ArrayRef<mlir::Value> arguments);
  mlir::Value indexOf(mlir::Value value);
  mlir::Value linearElement(const Index &at, llvm::ArrayRef<int64_t> shape);
  mlir::LogicalResult emitFor(mlir::scf::ForOp op);
  mlir::LogicalResult emitIf(mlir::scf::IfOp op);
  mlir::LogicalResult emitWhile(mlir::scf::WhileOp op);
  /// Buffers of the block being emitted inside a loop: tile arguments first, then spares.
  struct Pool {
    llvm::SmallVector<mlir::Value> pointers;
    llvm::SmallVector<int64_t> bytes;
    int lifetime = -1;
  };
  /// Puts the tiles that a loop begins with into buffers of its own.
  mlir::LogicalResult placeTiles(llvm::MutableArrayRef<mlir::OpOperand> inits, Pool &pool,
                                 llvm::SmallVectorImpl<mlir::Value> &pointers);
  void appendScalars(mlir::Value value, llvm::SmallVectorImpl<mlir::Value> &list);
  void bindCarried(mlir::Value value, mlir::ValueRange lowered, unsigned &next);
  llvm::SmallVector<mlir::Value> carryOut(mlir::Block *block, Pool &pool, mlir::ValueRange operands,
                                          llvm::ArrayRef<int64_t> extraBytes);

  mlir::Value i64(int64_t value);
  mlir::Value i32(int64_t value);
  mlir::Value splatConstant(mlir::Type type, mlir::Attribute value);
  mlir::Value zeroOf(mlir::Type type);
  mlir::Value iota(mlir::Type element, int64_t width);

  mlir::func::FuncOp kernel, entry;
  const Target &target;
  Check check;
  Shapes shapes;
  AlignmentAnalysis alignment;
  std::unique_ptr<Plan> plan;
  mlir::ImplicitLocOpBuilder b;
  mlir::Type ptrType;
  mlir::Value launch, frame, hooks, program;
  mlir::Operation *frameAnchor = nullptr; ///< frame addresses are computed before it
  mlir::Value programIds[3], gridSizes[3];

  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  llvm::DenseMap<mlir::Value, Storage> storages;
  llvm::DenseMap<mlir::Value, Descriptor> descriptors;
  /// Where Carry roots wrote: (terminator, operand) to buffer.
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, Storage> carriedTo;
  /// Masks known to be true in the loop being emitted.
  llvm::SmallDenseSet<mlir::Value> trueMasks;
  Nest *nest = nullptr;
  Pool *pool = nullptr;

  struct Lifetime {
    int parent;
    int64_t begin, end;
  };
  struct FrameBuffer {
    int64_t bytes;
    int lifetime;
    mlir::Operation *offset; ///< the constant to patch
  };
  llvm::SmallVector<Lifetime> lifetimes;
  llvm::SmallVector<FrameBuffer> buffers;
  struct LoopScope {
    int64_t begin;
    llvm::SmallVector<int> touched;
  };
  llvm::SmallVector<LoopScope> loopScopes;
  int64_t now = 0;
  llvm::SmallVector<mlir::Attribute> sites;
  llvm::DenseMap<mlir::Operation *, int> siteIds;
  bool splitsPairsSomewhere = false;
  bool waits = false;  ///< a loop may wait for another program instance
  bool failed = false; ///< an error was reported deep inside an evaluation
};

} // namespace kiln::cpu
