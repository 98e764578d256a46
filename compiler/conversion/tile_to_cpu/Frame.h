// Tiles in memory: buffers in the worker's frame, their lifetimes, and which values are in which buffer. Addresses are
// emitted before the offsets are known; their constants are patched at the end.
#pragma once
#include "compiler/conversion/tile_to_cpu/Nest.h"

namespace kiln::cpu {

/// A tile in memory, row-major and dense.
struct Storage {
  mlir::Value pointer;
  int lifetime = -1; ///< index into the lifetimes of frame buffers
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
};

class Frame {
public:
  explicit Frame(CodeBuilder &b) : b(b) {}

  /// `pointer` is the start of the frame; addresses of buffers are computed before `anchor`.
  void begin(mlir::Value pointer, mlir::Operation *anchor);
  /// Assigns an offset to every buffer; returns the size of the frame in bytes.
  int64_t finish();

  //--- Storages
  Storage allocate(mlir::Type type, mlir::Value pointer = {});
  void assign(mlir::Value value, Storage storage) { storages[value] = std::move(storage); }
  bool holds(mlir::Value value) const { return storages.count(value); }
  Storage &storageOf(mlir::Value value);
  mlir::Value buffer(int64_t bytes, int &lifetime);

  //--- Lifetimes
  void advance() { ++now; }
  void touch(int lifetime);
  int join(int a, int b);
  void enterLoop();
  void leaveLoop();

private:
  int root(int lifetime) const;

  struct Lifetime {
    int parent;
    int64_t begin, end;
  };
  struct Buffer {
    int64_t bytes;
    int lifetime;
    mlir::Operation *offset; ///< the constant to patch
  };
  struct LoopScope {
    int64_t begin;
    llvm::SmallVector<int> touched;
  };

  CodeBuilder &b;
  mlir::Value pointer;
  mlir::Operation *anchor = nullptr;
  llvm::DenseMap<mlir::Value, Storage> storages;
  llvm::SmallVector<Lifetime> lifetimes;
  llvm::SmallVector<Buffer> buffers;
  llvm::SmallVector<LoopScope> loopScopes;
  int64_t now = 0;
};

/// Reads and writes elements of storages at an index of the nest.
class Buffers {
public:
  Buffers(CodeBuilder &b, Nests &nests) : b(b), nests(nests) {}
  mlir::Value address(const Storage &storage, const Index &at);
  mlir::Value read(const Storage &storage, const Index &at);
  void write(const Storage &storage, const Index &at, mlir::Value value);

private:
  CodeBuilder &b;
  Nests &nests;
};

} // namespace kiln::cpu
