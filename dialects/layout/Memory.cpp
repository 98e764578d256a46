// Addresses of registers in shared memory, passes over its banks, and the choice of a memory layout.
//
// The memory layout is chosen by subspaces. The bits of an offset are, from the lowest: V, the run that both sides hold
// in registers; W, what completes a word of a bank; B, the bank; S, the row of banks; then odd parts. Lanes of one
// phase conflict where they differ by a member of V + W + S that is not in V + W. So S should meet the lanes' subspaces
// of both the store and the load in zero only: S takes first what is outside both, then sums of a lane bit of one and a
// lane bit of the other (the swizzle).
#include "dialects/layout/Memory.h"
#include "dialects/layout/Algebra.h"
#include "dialects/layout/Bits.h"
#include "dialects/layout/Constructors.h"
#include "dialects/layout/Matrix.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <numeric>
#include <set>

using namespace llvm;

namespace kiln::layout {

static constexpr int64_t kWordBytes = 4, kBanks = 32, kLanes = 32, kWidestAccess = 16;
static constexpr Coord kCtaCoords[] = {Coord::Reg, Coord::Lane, Coord::Warp, Coord::Group};

//===-- Addresses ------------------------------------------------------------------------------------------------===//

/// Groups the digits of a number into fields: within a field, bits and the odd digit above them combine by XOR.
static SmallVector<MemoryAddress::Field, 1> fieldsOf(ArrayRef<int64_t> radices, SmallVectorImpl<unsigned> &fieldOf,
                                                     SmallVectorImpl<int64_t> &weightIn) {
  SmallVector<MemoryAddress::Field, 1> fields(1);
  bool odd = false;
  for (int64_t radix : radices) {
    // Weights above an odd digit are no powers of two, so the following digits do not combine with it by XOR.
    if (odd) {
      MemoryAddress::Field next;
      next.stride = fields.back().stride * fields.back().size;
      fields.push_back(next);
    }
    odd = radix != 2;
    fieldOf.push_back(fields.size() - 1);
    weightIn.push_back(fields.back().size);
    fields.back().size *= radix;
  }
  return fields;
}

static constexpr Coord kThreadCoords[] = {Coord::Reg, Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta};

/// The map from registers to offsets of the cta's own memory; std::nullopt if some element is not kept there.
static std::optional<Map> ownMemory(const Layout &registers, const Layout &memory) {
  Map held = mapOf(registers, kThreadCoords), places = mapOf(memory, {Coord::Offset}),
      kept = mapOf(memory, {Coord::Cta});
  // Offsets in the memory of cta c are relative to c's own element, so a cta digit contributes the difference between
  // its step in the registers and its step in the memory.
  size_t ctaDigits = registers.digits(Coord::Cta).size(), firstCta = held.domain.size() - ctaDigits;
  if (!kept.domain.empty() && ArrayRef<int64_t>(held.domain).drop_front(firstCta) != ArrayRef<int64_t>(kept.domain))
    return std::nullopt;
  for (const auto &[i, image] : llvm::enumerate(kept.images))
    held.images[firstCta + i] ^= image;
  Span reached;
  SmallVector<uint64_t, 24> generators;
  for (unsigned i = 0; i < places.domain.size(); ++i)
    if (places.domain[i] == 2 && reached.insert(places.images[i]))
      generators.push_back(uint64_t(1) << i);
  SmallVector<uint64_t, 24> images;
  for (auto [radix, image] : llvm::zip_equal(held.domain, held.images)) {
    uint64_t source = 0;
    if (radix == 2) {
      std::optional<uint64_t> members = reached.express(image);
      if (!members)
        return std::nullopt;
      for (unsigned i = 0; i < generators.size(); ++i)
        if (*members >> i & 1)
          source ^= generators[i];
    } else if (image) {
      for (unsigned i = 0; i < places.domain.size(); ++i)
        if (places.domain[i] == radix && places.images[i] == image)
          source = uint64_t(1) << i;
      if (!source)
        return std::nullopt;
    }
    images.push_back(source);
  }
  return Map::create(held.domain, places.domain, images);
}

std::optional<MemoryAddress> memoryAddress(const Layout &registers, const Layout &memory) {
  if (registers.shape() != memory.shape())
    return std::nullopt;
  MemoryAddress address;
  std::optional<Map> access = ownMemory(registers, memory);
  address.local = access.has_value();
  if (!access) {
    std::optional<Map> inverse = rightInverse(mapOf(memory, {Coord::Offset, Coord::Cta}));
    if (inverse)
      access = compose(*inverse, mapOf(registers, kThreadCoords));
    if (!access)
      return std::nullopt;
  }

  SmallVector<unsigned, 24> fieldOf;
  SmallVector<int64_t, 24> weightIn;
  Map::Radices offsetRadices, ctaRadices;
  for (const Digit &digit : memory.digits(Coord::Offset))
    offsetRadices.push_back(digit.radix);
  address.offset = fieldsOf(offsetRadices, fieldOf, weightIn);
  for (const Digit &digit : memory.digits(Coord::Cta))
    ctaRadices.push_back(digit.radix);
  SmallVector<unsigned, 4> ctaFieldOf;
  SmallVector<int64_t, 4> ctaWeightIn;
  SmallVector<MemoryAddress::Field, 1> ctaFields = fieldsOf(ctaRadices, ctaFieldOf, ctaWeightIn);
  if (ctaFields.size() != 1)
    return std::nullopt;
  address.cta = ctaFields.front();

  // The step of a thread's or register's digit in each field.
  unsigned offsetDigits = offsetRadices.size();
  auto stepIn = [&](uint64_t image, unsigned field) {
    int64_t step = 0;
    for (unsigned j = 0; j < offsetDigits; ++j)
      if ((image >> j & 1) && fieldOf[j] == field)
        step += weightIn[j];
    return step;
  };
  auto stepInCta = [&](uint64_t image) {
    int64_t step = 0;
    for (unsigned j = 0; j < ctaWeightIn.size(); ++j)
      if (offsetDigits + j < 64 && (image >> (offsetDigits + j) & 1))
        step += ctaWeightIn[j];
    return step;
  };
  SmallVector<MemoryAddress::Field *, 2> all;
  for (MemoryAddress::Field &field : address.offset)
    all.push_back(&field);
  all.push_back(&address.cta);
  for (auto [f, field] : llvm::enumerate(all)) {
    bool isCta = f == address.offset.size();
    unsigned position = 0;
    field->registers.assign(registers.registers(), 0);
    for (Coord coord : kThreadCoords) {
      int64_t weight = 1;
      for (const auto &[i, digit] : llvm::enumerate(registers.digits(coord))) {
        uint64_t image = access->images[position++];
        int64_t step = isCta ? stepInCta(image) : stepIn(image, f);
        if (step && coord == Coord::Reg)
          for (int64_t r = 0; r < registers.registers(); ++r)
            field->registers[r] ^= r / weight % digit.radix * step;
        else if (step)
          field->terms.push_back({coord, unsigned(i), digit.radix, step});
        weight *= digit.radix;
      }
    }
  }
  return address;
}

static int64_t fieldAt(const MemoryAddress::Field &field, const Layout &registers, const Point &point) {
  int64_t value = field.registers[point[unsigned(Coord::Reg)]];
  for (const MemoryAddress::Term &term : field.terms) {
    int64_t number = point[unsigned(term.coord)];
    for (unsigned i = 0; i < term.digit; ++i)
      number /= registers.digits(term.coord)[i].radix;
    value ^= number % term.radix * term.step;
  }
  return value;
}

int64_t MemoryAddress::offsetAt(const Layout &registers, const Point &point) const {
  int64_t sum = 0;
  for (const Field &field : offset)
    sum += field.stride * fieldAt(field, registers, point);
  return sum;
}

int64_t MemoryAddress::ctaAt(const Layout &registers, const Point &point) const {
  return local ? point[unsigned(Coord::Cta)] : fieldAt(cta, registers, point);
}

//===-- Banks ----------------------------------------------------------------------------------------------------===//

/// The widest run of an access; see memoryVector().
static int64_t vectorOf(const MemoryAddress &address, int64_t elementBytes) {
  const MemoryAddress::Field &low = address.offset.front();
  // What registers reach, all fields side by side: a step inside the run must be zero in the other fields.
  SmallVector<uint64_t, 16> entries(low.registers.size(), 0);
  unsigned shift = 0;
  auto append = [&](const MemoryAddress::Field &field) {
    for (auto [entry, value] : llvm::zip_equal(entries, field.registers))
      entry |= uint64_t(value) << shift;
    shift += Log2_64_Ceil(field.size);
  };
  for (const MemoryAddress::Field &field : address.offset)
    append(field);
  if (!address.local)
    append(address.cta);
  Span held;
  for (uint64_t entry : entries)
    held.insert(entry);
  int64_t run = 1;
  auto fits = [&](int64_t bit) {
    // The odd digit above the bits cannot extend a run.
    if (bit * 2 * elementBytes > kWidestAccess || low.size % (bit * 2) || !held.contains(bit))
      return false;
    return llvm::none_of(low.terms, [&](const auto &term) { return (term.step & bit) != 0; });
  };
  while (fits(run))
    run *= 2;
  return run;
}

int64_t memoryVector(const Layout &registers, const Layout &memory, int64_t elementBytes) {
  std::optional<MemoryAddress> address = memoryAddress(registers, memory);
  return address ? vectorOf(*address, elementBytes) : 1;
}

BankUse bankUse(const Layout &registers, const Layout &memory, int64_t elementBytes) {
  BankUse use;
  std::optional<MemoryAddress> address = memoryAddress(registers, memory);
  if (!address)
    return use;
  use.vector = vectorOf(*address, elementBytes);
  int64_t accessBytes = std::max(use.vector * elementBytes, kWordBytes);
  int64_t lanesInPhase = kLanes * kWordBytes / accessBytes;
  int64_t lanes = registers.size(Coord::Lane);
  // Where the whole offset combines by XOR, registers shift all lanes alike, and one register stands for all.
  int64_t accesses = std::max<int64_t>(1, registers.withoutReplicatedRegisters().registers() / use.vector);
  bool alike = address->offset.size() == 1;
  std::set<int64_t> starts;
  for (int64_t r = 0; r < registers.registers() && (!alike || starts.empty()); ++r) {
    Point point = {};
    point[unsigned(Coord::Reg)] = r;
    if (!starts.insert(address->offsetAt(registers, point) / use.vector).second)
      continue;
    for (int64_t first = 0; first < lanes; first += lanesInPhase) {
      std::map<int64_t, std::set<int64_t>> words; // per bank
      for (int64_t lane = first; lane < std::min(lanes, first + lanesInPhase); ++lane) {
        point[unsigned(Coord::Lane)] = lane;
        int64_t byte = address->offsetAt(registers, point) / use.vector * use.vector * elementBytes;
        for (int64_t word = byte / kWordBytes; word * kWordBytes < byte + use.vector * elementBytes; ++word)
          words[word % kBanks].insert(word);
      }
      size_t most = 0;
      for (const auto &[bank, wanted] : words)
        most = std::max(most, wanted.size());
      use.wavefronts += int64_t(most);
      ++use.minimum;
    }
    point[unsigned(Coord::Lane)] = 0;
    ++use.instructions;
  }
  if (alike) {
    use.wavefronts *= accesses;
    use.minimum *= accesses;
    use.instructions = accesses;
  }
  return use;
}

//===-- Choice ---------------------------------------------------------------------------------------------------===//

namespace {
using Vectors = SmallVector<uint64_t, 16>;

/// The subspaces that the choice depends on, within what one cta keeps.
struct RegistersAndLanes {
  Vectors registers, lanes; ///< lanes: of one phase, once `phase` is known
};
} // namespace

static Span spanOf(std::initializer_list<ArrayRef<uint64_t>> parts) {
  Span span;
  for (ArrayRef<uint64_t> part : parts)
    for (uint64_t vector : part)
      span.insert(vector);
  return span;
}

/// A basis of the intersection of two subspaces, modulo a third.
static Vectors intersect(ArrayRef<uint64_t> a, ArrayRef<uint64_t> b, ArrayRef<uint64_t> modulo) {
  // Members of b's span that a's generators reach, from the relations between a basis of a and one of b.
  Vectors inserted; // the part that each independent vector has in a; zero for those of `modulo` and b
  Span fresh;
  for (uint64_t vector : modulo)
    if (fresh.insert(vector))
      inserted.push_back(0);
  for (uint64_t vector : a)
    if (fresh.insert(vector))
      inserted.push_back(vector);
  Vectors common;
  Span found = spanOf({modulo});
  for (uint64_t vector : b) {
    std::optional<uint64_t> members = fresh.express(vector);
    if (!members) {
      // Its part outside a: later members of b may lie in a only in combination with it.
      fresh.insert(vector);
      inserted.push_back(0);
      continue;
    }
    uint64_t part = 0;
    for (unsigned i = 0; i < inserted.size(); ++i)
      if (*members >> i & 1)
        part ^= inserted[i];
    if (part && found.insert(part))
      common.push_back(part);
  }
  return common;
}

/// Adds to `span` at most `count` vectors of `candidates` that are independent of it, and returns them.
static Vectors extend(Span &span, ArrayRef<uint64_t> candidates, unsigned count) {
  Vectors chosen;
  for (uint64_t vector : candidates)
    if (chosen.size() < count && span.insert(vector))
      chosen.push_back(vector);
  return chosen;
}

static Layout swizzledFor(const Layout &store, const Layout &load, int64_t elementBytes) {
  TileBits bits(load.shape());
  auto vectorsOf = [&](const Layout &layout, ArrayRef<Coord> coords) {
    Vectors vectors;
    for (Coord coord : coords)
      for (const Digit &digit : layout.digits(coord))
        if (digit.radix == 2)
          vectors.push_back(bits.pack(digit.basis));
    return vectors;
  };
  // What one cta keeps: the span of what its threads load. The cta coordinate distinguishes the rest of the tile.
  Span space;
  Vectors basis = extend(space, vectorsOf(load, kCtaCoords), 64);
  unsigned dimension = basis.size();
  extend(space, vectorsOf(load, {Coord::Cta}), 64);
  auto project = [&](Vectors vectors) {
    for (uint64_t &vector : vectors) {
      uint64_t members = *space.express(vector), inside = 0;
      for (unsigned i = 0; i < dimension; ++i)
        if (members >> i & 1)
          inside ^= basis[i];
      vector = inside;
    }
    return vectors;
  };
  RegistersAndLanes stored{project(vectorsOf(store, {Coord::Reg})), project(vectorsOf(store, {Coord::Lane}))};
  RegistersAndLanes loaded{project(vectorsOf(load, {Coord::Reg})), project(vectorsOf(load, {Coord::Lane}))};

  unsigned elementLog = Log2_64(elementBytes);
  auto logOf = [&](int64_t bytes) { return unsigned(std::max<int64_t>(0, int64_t(Log2_64(bytes)) - elementLog)); };
  Vectors run = intersect(stored.registers, loaded.registers, {});
  if (run.size() > logOf(kWidestAccess))
    run.resize(logOf(kWidestAccess));
  unsigned phase = Log2_64(kLanes * kWordBytes / std::max(elementBytes << run.size(), kWordBytes));
  stored.lanes.resize(std::min<size_t>(stored.lanes.size(), phase));
  loaded.lanes.resize(std::min<size_t>(loaded.lanes.size(), phase));

  // The word: first bits that both sides hold in lanes, then bits that neither has in lanes, then any.
  Span chosen = spanOf({run});
  Vectors offsets = run;
  unsigned wordBits = logOf(kWordBytes);
  auto fillWord = [&](ArrayRef<uint64_t> candidates) {
    unsigned missing = wordBits > offsets.size() ? wordBits - offsets.size() : 0;
    llvm::append_range(offsets, extend(chosen, candidates, missing));
  };
  fillWord(intersect(stored.lanes, loaded.lanes, run));
  Span lanes = spanOf({offsets, stored.lanes, loaded.lanes});
  fillWord(extend(lanes, basis, 64));
  fillWord(loaded.lanes);
  fillWord(stored.lanes);
  fillWord(basis);

  // Rows of banks: bits outside both sides' lanes, then sums of one lane bit of each, then those that must conflict.
  unsigned bankBits = logOf(kWordBytes * kBanks);
  unsigned rowBits = dimension > std::max<unsigned>(bankBits, offsets.size())
                         ? dimension - std::max<unsigned>(bankBits, offsets.size())
                         : 0;
  Vectors common = intersect(stored.lanes, loaded.lanes, offsets), sums;
  Span both = spanOf({offsets, common});
  Span storedOnly = both, loadedOnly = both;
  Vectors e = extend(storedOnly, stored.lanes, 64), f = extend(loadedOnly, loaded.lanes, 64);
  for (unsigned i = 0; i < std::min(e.size(), f.size()); ++i)
    sums.push_back(e[i] ^ f[i]);
  Span outside = spanOf({offsets, stored.lanes, loaded.lanes});
  Span rowSpan = chosen;
  Vectors rows = extend(rowSpan, extend(outside, basis, 64), rowBits);
  for (ArrayRef<uint64_t> candidates : {ArrayRef<uint64_t>(sums), ArrayRef<uint64_t>(e), ArrayRef<uint64_t>(f),
                                        ArrayRef<uint64_t>(common), ArrayRef<uint64_t>(basis)})
    llvm::append_range(rows, extend(rowSpan, candidates, rowBits - rows.size()));
  // Banks: the remaining bits, in the order of the loading lanes where possible.
  Span all = rowSpan;
  llvm::append_range(offsets, extend(all, loaded.lanes, 64));
  llvm::append_range(offsets, extend(all, basis, 64));
  llvm::append_range(offsets, rows);

  std::array<Digits, kNumCoords> digits;
  Digits &offset = digits[unsigned(Coord::Offset)];
  for (uint64_t vector : offsets)
    offset.push_back({2, bits.unpack(vector)});
  // The memory's ctas are the loads'; odd parts that a cta coordinate distinguishes are not in the offsets.
  llvm::append_range(digits[unsigned(Coord::Cta)], load.digits(Coord::Cta));
  for (unsigned d = 0; d < load.rank(); ++d) {
    Side parts = *splitSide(load.shape()[d]);
    bool byCta = llvm::any_of(load.digits(Coord::Cta),
                              [&](const Digit &digit) { return digit.radix != 2 && digit.basis[d] != 0; });
    if (parts.odd == 1 || byCta)
      continue;
    Index step(load.rank(), 0);
    step[d] = parts.power;
    offset.push_back({parts.odd, step});
  }
  return *Layout::create(load.shape(), digits);
}

namespace {
/// One side of an exchange: its registers, and how matrix instructions see them.
struct Party {
  const Layout &registers;
  SmallVector<MatrixRows, 2> matrices;

  Party(const Layout &registers, int64_t elementBytes, bool byMatrices) : registers(registers) {
    for (bool transposed : {false, true})
      if (byMatrices)
        if (std::optional<MatrixRows> rows = matrixRows(registers, elementBytes, transposed))
          matrices.push_back(*rows);
  }
  /// The cost of the cheapest way between the registers and this memory.
  int64_t cost(const Layout &memory, int64_t elementBytes) const {
    BankUse use = bankUse(registers, memory, elementBytes);
    int64_t least = use.wavefronts + use.instructions;
    for (const MatrixRows &rows : matrices)
      if (keepsRows(rows, memory, elementBytes)) {
        BankUse moved = bankUse(rows.rows, memory, elementBytes);
        least = std::min(least, moved.wavefronts + moved.instructions);
      }
    return least;
  }
};
} // namespace

Layout chooseMemory(const Layout &store, const Layout &load, int64_t elementBytes, MatrixUse matrices) {
  if (load.size(Coord::Cta) > 1)
    return swizzledFor(store, load, elementBytes);
  Party stored(store, elementBytes, matrices.store), loaded(load, elementBytes, matrices.load);
  std::optional<Layout> best;
  int64_t least = 0;
  auto consider = [&](Layout memory, bool wins) {
    int64_t cost = stored.cost(memory, elementBytes) + loaded.cost(memory, elementBytes);
    if (best && (cost > least || (cost == least && !wins)))
      return false;
    best = std::move(memory);
    least = cost;
    return true;
  };
  auto formsOf = [](const Party &side) {
    SmallVector<const Layout *, 3> forms = {&side.registers};
    for (const MatrixRows &rows : side.matrices)
      forms.push_back(&rows.rows);
    return forms;
  };
  for (const Layout *from : formsOf(stored))
    for (const Layout *to : formsOf(loaded))
      consider(swizzledFor(*from, *to, elementBytes), /*wins=*/false);
  // Unswizzled rows have the simplest addresses.
  SmallVector<int32_t, 3> order(load.rank());
  std::iota(order.rbegin(), order.rend(), 0);
  for (unsigned i = 0; i < std::max<unsigned>(1, load.rank()); ++i) {
    if (consider(rowMajor(load.shape(), order), /*wins=*/true))
      break;
    std::rotate(order.begin(), order.begin() + (order.empty() ? 0 : 1), order.end());
  }
  return *best;
}

} // namespace kiln::layout
