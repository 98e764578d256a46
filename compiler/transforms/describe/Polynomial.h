// Integers of tile IR as polynomials: exact sums of products of symbols, which are not decomposed further.
//
// `start + i * stride`, elementwise, is one polynomial over the scalars `start` and `stride` and the index i along a
// dimension. Two values are equal in every element of every program if their polynomials are equal. Everything is
// exact: an op that may wrap in its width is not decomposed.
#pragma once
#include "compiler/analysis/Range.h"
#include "dialects/tile/TileOps.h"
#include <map>

namespace kiln::describe {

/// Coefficients by the symbols they multiply, which are sorted and may repeat. No coefficient is 0.
using Polynomial = std::map<std::vector<unsigned>, int64_t>;

Polynomial constant(int64_t value);
Polynomial symbol(unsigned id);
/// std::nullopt if a coefficient overflows 64 bits.
std::optional<Polynomial> add(const Polynomial &a, const Polynomial &b, int64_t times = 1);
std::optional<Polynomial> multiply(const Polynomial &a, const Polynomial &b);
/// The number, if the polynomial is a constant.
std::optional<int64_t> asConstant(const Polynomial &polynomial);

/// The building blocks of polynomials.
struct Symbol {
  enum class Kind {
    Scalar,    ///< `value`, an integer or a pointer
    Iteration, ///< the number of earlier iterations of the loop whose induction variable is `value`
    Index,     ///< the index along dimension `dim` of a tile
    /// `value`: for each index i along `dim` it is `start + i` where that is from 0 to `limit` - 1, and some other
    /// number elsewhere. Programs write `(start + i) % limit`, or `where(start + i < limit, start + i, 0)`, to stay
    /// inside an array.
    Folded,
    Carried, ///< a loop-carried value, while it is being evaluated
  };
  Kind kind;
  mlir::Value value;
  unsigned dim = 0;
  Polynomial start, limit;

  bool alongDim() const { return kind == Kind::Index || kind == Kind::Folded; }
};

class Polynomials {
public:
  explicit Polynomials(const RangeAnalysis &ranges) : ranges(ranges) {}

  /// The value as a polynomial; pointers count in elements. Nothing, with a sentence in `why`, if it is a tile whose
  /// elements are not a polynomial.
  std::optional<Polynomial> of(mlir::Value value, std::string &why);
  /// Conditions whose conjunction is the mask: each holds where its polynomial is less than 0. Nothing, with a sentence
  /// in `why`, if the mask is more than comparisons.
  std::optional<llvm::SmallVector<Polynomial>> conditionsOf(mlir::Value mask, std::string &why);

  const Symbol &operator[](unsigned id) const { return symbols[id]; }
  unsigned index(unsigned dim) { return intern({Symbol::Kind::Index, {}, dim, {}, {}}); }
  /// The symbol along a dimension that a term contains; std::nullopt if it has none. `more` is set if it has two.
  std::optional<unsigned> alongDim(const std::vector<unsigned> &term, bool &more) const;
  bool isUniform(const Polynomial &polynomial) const;

  /// Minimum and maximum of a polynomial over tiles of a shape, in 512 bits; std::nullopt if its degree is too high.
  std::optional<std::pair<llvm::APInt, llvm::APInt>> bounds(const Polynomial &polynomial,
                                                            llvm::ArrayRef<int64_t> shape);
  /// The same polynomial in terms of induction variables instead of iteration numbers, where the division is exact.
  Polynomial byVariables(const Polynomial &polynomial);

private:
  std::optional<std::pair<llvm::APInt, llvm::APInt>> boundsOfTerms(const Polynomial &polynomial,
                                                                   llvm::ArrayRef<int64_t> shape) const;
  using Memo = llvm::DenseMap<mlir::Value, std::optional<Polynomial>>;
  std::optional<Polynomial> get(mlir::Value value, Memo &memo);
  std::optional<Polynomial> compute(mlir::Value value, Memo &memo);
  std::optional<Polynomial> ofArgument(mlir::BlockArgument argument, Memo &memo);
  std::optional<Polynomial> ofCarried(mlir::scf::ForOp loop, unsigned index, Memo &memo);
  std::optional<Polynomial> folded(mlir::Value value, mlir::Value number, mlir::Value limit, Memo &memo);
  /// A scalar as a symbol; a tile has no polynomial, for the given reason.
  std::optional<Polynomial> leaf(mlir::Value value, llvm::StringRef reason);
  std::optional<Polynomial> renamed(std::optional<Polynomial> polynomial, llvm::ArrayRef<int64_t> dims);
  bool collectConditions(mlir::Value mask, llvm::ArrayRef<int64_t> dims, llvm::SmallVector<Polynomial> &conditions);
  bool isInvariant(const Polynomial &polynomial, mlir::scf::ForOp loop) const;
  unsigned intern(Symbol symbol);

  const RangeAnalysis &ranges;
  std::vector<Symbol> symbols;
  Memo known;
  llvm::DenseSet<mlir::Value> open; ///< carried values that are being evaluated
  std::string reason;
};

/// The step of a loop that counts up by a constant, with signed comparison.
std::optional<int64_t> constantStep(mlir::scf::ForOp loop);

} // namespace kiln::describe
