// Plans conversions between register layouts.
//
// Inside a warp, linear algebra gives the source of each element. Let G be a right inverse of the source layout on
// (register, lane). Destination register r of lane l takes G(to(r, l)) = (register s, lane p); both s and p are
// XOR-linear in r, l and the bits of the other thread coordinates. One shuffle step needs p to be a permutation of the
// lanes: then s is a function of the sender, which selects what it sends. Where p depends on too few bits of l (a
// transposition of register and lane bits), step k serves destination register k ^ C(l) instead of k. C is chosen so
// that the sum of p's columns and those of C is a permutation; the receiver selects the step that fills each register.
#include "dialects/layout/Conversion.h"
#include "dialects/layout/Bits.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <tuple>

using namespace llvm;

namespace kiln::layout {

static constexpr unsigned kLaneBits = 5;
static constexpr Coord kThreadCoords[] = {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta};

/// Costs in full-rate instructions: a shuffle occupies the pipeline like two; a barrier costs its wait.
static constexpr int64_t kShuffleCost = 2, kBarrierCost = 24;

bool Conversion::laneMapIsIdentity() const {
  unsigned lanes = 0;
  for (const auto &[bit, number] : laneMap) {
    if (bit.coord != Coord::Lane || number != int64_t(1) << bit.digit)
      return false;
    ++lanes;
  }
  return lanes == kLaneBits;
}

static int64_t linearIndex(const Layout &layout, const Index &element) {
  int64_t linear = 0;
  for (unsigned d = 0; d < layout.rank(); ++d)
    linear = linear * layout.shape()[d] + element[d];
  return linear;
}

/// True when both layouts map every value of `coord` to the same element.
static bool agree(const Layout &a, const Layout &b, Coord coord) {
  if (a.digits(coord) == b.digits(coord))
    return true;
  if (a.size(coord) != b.size(coord))
    return false;
  for (int64_t value = 1; value < a.size(coord); ++value)
    if (a.at(coord, value) != b.at(coord, value))
      return false;
  return true;
}

std::optional<SmallVector<int64_t, 8>> registerMap(const Layout &from, const Layout &to) {
  for (Coord coord : kThreadCoords)
    if (!agree(from, to, coord))
      return std::nullopt;
  DenseMap<int64_t, int64_t> holder;
  for (int64_t r = 0; r < from.registers(); ++r)
    holder.try_emplace(linearIndex(from, from.at(Coord::Reg, r)), r);
  SmallVector<int64_t, 8> sources;
  for (int64_t r = 0; r < to.registers(); ++r) {
    auto found = holder.find(linearIndex(to, to.at(Coord::Reg, r)));
    if (found == holder.end())
      return std::nullopt;
    sources.push_back(found->second);
  }
  return sources;
}

//===-- Shuffles -------------------------------------------------------------------------------------------------===//

namespace {
/// A place inside a warp, as vectors over F2: the bit digits of the register, and the lane.
struct Place {
  uint64_t reg = 0, lane = 0;
  Place operator^(const Place &other) const { return {reg ^ other.reg, lane ^ other.lane}; }
};

/// The digits of a register coordinate, bits and odd ones apart.
struct RegisterDigits {
  SmallVector<uint64_t, 8> steps;  ///< of each bit, in the tile, packed
  SmallVector<int64_t, 8> weights; ///< of each bit, in the register number
  struct Odd {
    int64_t radix, weight;
    unsigned dim; ///< rank() when it replicates
  };
  SmallVector<Odd, 2> odd;

  RegisterDigits(const Layout &layout, const TileBits &bits) {
    int64_t weight = 1;
    for (const Digit &digit : layout.digits(Coord::Reg)) {
      if (digit.radix == 2) {
        steps.push_back(bits.pack(digit.basis));
        weights.push_back(weight);
      } else {
        const auto *step = llvm::find_if(digit.basis, [](int64_t value) { return value != 0; });
        odd.push_back({digit.radix, weight, unsigned(step - digit.basis.begin())});
      }
      weight *= digit.radix;
    }
  }
  int64_t number(uint64_t mask) const {
    int64_t sum = 0;
    for (unsigned i = 0; i < weights.size(); ++i)
      if (mask >> i & 1)
        sum += weights[i];
    return sum;
  }
};

class ShufflePlan {
public:
  ShufflePlan(const Layout &from, const Layout &to)
      : from(from), to(to), bits(from.shape()), source(from, bits), target(to, bits) {}
  /// False when an element would have to come from another warp.
  bool build(Conversion &plan);

private:
  bool solve();
  void permuteLanes();
  Select select(uint64_t base, ArrayRef<std::pair<Parity, uint64_t>> columns,
                function_ref<int64_t(uint64_t)> value) const;

  const Layout &from, &to;
  TileBits bits;
  RegisterDigits source, target;
  SmallVector<Place, 8> registerPlaces;             ///< per bit digit of the destination register
  std::array<Place, kLaneBits> lanePlaces;          ///< per bit of the destination lane
  std::array<uint64_t, kLaneBits> laneShift = {};   ///< C: the step bits that go with each lane bit
  Span lanes;                                       ///< the senders reached by the receiver's lane bits
  SmallVector<unsigned, kLaneBits> independent;     ///< the lane bits inserted into `lanes`, in order
  SmallVector<std::pair<ThreadBit, Place>, 4> rest; ///< bits of warps, groups and ctas that change the place
  SmallVector<Place, 8> kernel;                     ///< places of the source that repeat its element 0
};
} // namespace

/// Applies G to every bit of the destination; false if the source's warp lacks an element that the destination needs.
bool ShufflePlan::solve() {
  Span reached;
  SmallVector<Place, 16> generators;
  auto placeOf = [&](uint64_t element) -> std::optional<Place> {
    std::optional<uint64_t> members = reached.express(element);
    if (!members)
      return std::nullopt;
    Place place;
    for (unsigned i = 0; i < generators.size(); ++i)
      if (*members >> i & 1)
        place = place ^ generators[i];
    return place;
  };
  auto generate = [&](uint64_t element, Place place) {
    if (std::optional<Place> known = placeOf(element)) {
      kernel.push_back(*known ^ place);
      return;
    }
    reached.insert(element);
    generators.push_back(place);
  };
  // Lanes that repeat an element come last, so that elements prefer to stay in their lane.
  for (const auto &[i, step] : llvm::enumerate(source.steps))
    generate(step, {uint64_t(1) << i, 0});
  for (const auto &[i, digit] : llvm::enumerate(from.digits(Coord::Lane)))
    generate(bits.pack(digit.basis), {0, uint64_t(1) << i});

  for (uint64_t step : target.steps) {
    std::optional<Place> place = placeOf(step);
    if (!place)
      return false;
    registerPlaces.push_back(*place);
  }
  for (const auto &[i, digit] : llvm::enumerate(to.digits(Coord::Lane))) {
    std::optional<Place> place = placeOf(bits.pack(digit.basis));
    if (!place)
      return false;
    lanePlaces[i] = *place;
  }
  for (Coord coord : {Coord::Warp, Coord::Group, Coord::Cta}) {
    if (from.digits(coord) == to.digits(coord))
      continue;
    if (from.digits(coord).size() != to.digits(coord).size())
      return false;
    for (const auto &[i, digit] : llvm::enumerate(to.digits(coord))) {
      const Digit &other = from.digits(coord)[i];
      if (digit == other)
        continue;
      if (digit.radix != 2 || other.radix != 2)
        return false;
      std::optional<Place> place = placeOf(bits.pack(digit.basis) ^ bits.pack(other.basis));
      if (!place)
        return false;
      rest.push_back({{coord, unsigned(i)}, *place});
    }
  }
  return true;
}

/// Makes the map from receiver lane to sender lane a permutation. It uses the replicas in the source (kernel) and steps
/// that serve different registers in different lanes.
void ShufflePlan::permuteLanes() {
  // Prefer the receiver's own lane: where the source repeats an element there, take that replica.
  Span kernelLanes;
  SmallVector<Place, 8> kernelBasis;
  for (const Place &place : kernel)
    if (place.lane && kernelLanes.insert(place.lane))
      kernelBasis.push_back(place);
  for (unsigned i = 0; i < kLaneBits; ++i)
    if (std::optional<uint64_t> members = kernelLanes.express(lanePlaces[i].lane ^ (uint64_t(1) << i)))
      for (unsigned k = 0; k < kernelBasis.size(); ++k)
        if (*members >> k & 1)
          lanePlaces[i] = lanePlaces[i] ^ kernelBasis[k];
  // Independent lane bits stay as they are, those that map to themselves first; the others are completed, if possible
  // to map to themselves.
  SmallVector<unsigned, kLaneBits> open;
  for (unsigned i = 0; i < kLaneBits; ++i)
    if (lanePlaces[i].lane == uint64_t(1) << i && lanes.insert(lanePlaces[i].lane))
      independent.push_back(i);
  for (unsigned i = 0; i < kLaneBits; ++i)
    if (!llvm::is_contained(independent, i)) {
      if (lanes.insert(lanePlaces[i].lane))
        independent.push_back(i);
      else
        open.push_back(i);
    }
  auto place = [&](unsigned i, Place added, uint64_t shift) {
    lanePlaces[i] = lanePlaces[i] ^ added;
    laneShift[i] = shift;
    lanes.insert(lanePlaces[i].lane);
    independent.push_back(i);
  };
  for (unsigned i : open) {
    // Use a replica in the receiver's own lane, or in any lane that makes the map a permutation.
    const Place *chosen = nullptr;
    for (const Place &place : kernelBasis) {
      uint64_t lane = lanePlaces[i].lane ^ place.lane;
      if (!lanes.contains(lane) && (!chosen || lane == uint64_t(1) << i))
        chosen = &place;
    }
    if (chosen) {
      place(i, *chosen, 0);
      continue;
    }
    // Receivers may share a sender if they want the same register of it.
    uint64_t members = *lanes.express(lanePlaces[i].lane), registers = lanePlaces[i].reg;
    for (unsigned k = 0; k < independent.size(); ++k)
      if (members >> k & 1)
        registers ^= lanePlaces[independent[k]].reg;
    if (!registers)
      continue;
    // Otherwise steps serve different registers in different lanes.
    unsigned shift = 0;
    while (shift < registerPlaces.size() && lanes.contains(lanePlaces[i].lane ^ registerPlaces[shift].lane))
      ++shift;
    if (shift < registerPlaces.size()) {
      place(i, registerPlaces[shift], uint64_t(1) << shift);
      continue;
    }
    // The destination has no such register (it does not hold all that the source's warp has): every register that a
    // receiver may want is sent, and the receiver selects.
    laneShift[i] = uint64_t(1) << registerPlaces.size();
    lanePlaces[i].reg ^= registers;
    registerPlaces.push_back({registers, 0});
  }
}

/// Selects among value(base ^ sum of columns): a basis of the columns' span gives one bit of the index per vector.
Select ShufflePlan::select(uint64_t base, ArrayRef<std::pair<Parity, uint64_t>> columns,
                           function_ref<int64_t(uint64_t)> value) const {
  Span span;
  SmallVector<uint64_t, 4> basis;
  for (const auto &column : columns)
    if (column.second && span.insert(column.second))
      basis.push_back(column.second);
  Select result;
  result.bits.resize(basis.size());
  for (const auto &[bit, column] : columns)
    if (uint64_t members = *span.express(column))
      for (unsigned i = 0; i < basis.size(); ++i)
        if (members >> i & 1)
          for (const ThreadBit &part : bit) {
            auto *twice = llvm::find(result.bits[i], part);
            if (twice != result.bits[i].end())
              result.bits[i].erase(twice);
            else
              result.bits[i].push_back(part);
          }
  for (uint64_t choice = 0; choice < uint64_t(1) << basis.size(); ++choice) {
    uint64_t sum = base;
    for (unsigned i = 0; i < basis.size(); ++i)
      if (choice >> i & 1)
        sum ^= basis[i];
    result.choices.push_back(value(sum));
  }
  return result;
}

bool ShufflePlan::build(Conversion &plan) {
  if (from.size(Coord::Lane) != 32 || to.size(Coord::Lane) != 32)
    return false;
  // Odd parts stay in registers of the thread: each odd digit of the destination is one of the source's register
  // digits.
  SmallVector<int64_t, 2> oddWeights;
  for (const RegisterDigits::Odd &odd : target.odd) {
    int64_t weight = 0;
    if (odd.dim < to.rank()) {
      const auto *match = llvm::find_if(source.odd, [&](const auto &other) { return other.dim == odd.dim; });
      if (match == source.odd.end())
        return false;
      weight = match->weight;
    }
    oddWeights.push_back(weight);
  }
  if (!solve())
    return false;
  permuteLanes();

  // A receiver for each bit of a sender's lane; for lanes that no lane receives from, any value will do.
  SmallVector<uint64_t, 2 * kLaneBits> receivers;
  for (unsigned i : independent)
    receivers.push_back(uint64_t(1) << i);
  Span asked = lanes;
  for (unsigned i = 0; i < kLaneBits; ++i)
    if (asked.insert(uint64_t(1) << i))
      receivers.push_back(0);
  std::array<uint64_t, kLaneBits> receiverOf = {};
  for (unsigned i = 0; i < kLaneBits; ++i) {
    uint64_t members = *asked.express(uint64_t(1) << i);
    for (unsigned k = 0; k < receivers.size(); ++k)
      if (members >> k & 1)
        receiverOf[i] ^= receivers[k];
  }

  for (unsigned i = 0; i < kLaneBits; ++i)
    if (lanePlaces[i].lane)
      plan.laneMap.push_back({{Coord::Lane, i}, int64_t(lanePlaces[i].lane)});
  for (const auto &[bit, place] : rest)
    if (place.lane)
      plan.laneMap.push_back({bit, int64_t(place.lane)});
  bool ownLane = plan.laneMapIsIdentity();

  // The register that a sender gives, as a function of the receiver `lane ^ …` that takes it.
  auto registerOfReceiver = [&](uint64_t receiver) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < kLaneBits; ++i)
      if (receiver >> i & 1)
        sum ^= lanePlaces[i].reg;
    return sum;
  };
  SmallVector<std::pair<Parity, uint64_t>, 6> sendColumns;
  auto toReceiver = [&](uint64_t lane) {
    uint64_t receiver = 0;
    for (unsigned i = 0; i < kLaneBits; ++i)
      if (lane >> i & 1)
        receiver ^= receiverOf[i];
    return receiver;
  };
  for (unsigned i = 0; i < kLaneBits; ++i)
    sendColumns.push_back({{ThreadBit{Coord::Lane, i}}, registerOfReceiver(receiverOf[i])});
  for (const auto &[bit, place] : rest)
    sendColumns.push_back({{bit}, registerOfReceiver(toReceiver(place.lane)) ^ place.reg});

  unsigned registerBits = target.steps.size(), stepBits = registerPlaces.size();
  int64_t oddCount = 1;
  for (const RegisterDigits::Odd &odd : target.odd)
    oddCount *= odd.radix;
  // Steps that send the same values are merged.
  std::map<std::tuple<int64_t, uint64_t, uint64_t>, int64_t> known;
  SmallVector<int64_t, 16> stepOf; ///< [odd value * 2^stepBits + k]
  for (int64_t odd = 0; odd < oddCount; ++odd) {
    int64_t sourceOdd = 0, left = odd;
    for (const auto &[digit, weight] : llvm::zip_equal(target.odd, oddWeights)) {
      sourceOdd += left % digit.radix * weight;
      left /= digit.radix;
    }
    for (uint64_t k = 0; k < uint64_t(1) << stepBits; ++k) {
      Place place;
      for (unsigned i = 0; i < stepBits; ++i)
        if (k >> i & 1)
          place = place ^ registerPlaces[i];
      uint64_t base = registerOfReceiver(toReceiver(place.lane)) ^ place.reg;
      auto [entry, isNew] = known.try_emplace({sourceOdd, base, place.lane}, int64_t(plan.steps.size()));
      if (isNew) {
        ShuffleStep step;
        step.from = select(base, sendColumns, [&](uint64_t mask) { return source.number(mask) + sourceOdd; });
        step.laneXor = int64_t(place.lane);
        step.shuffles = !ownLane || place.lane != 0;
        plan.cost += step.shuffles * kShuffleCost + int64_t(step.from.choices.size()) - 1;
        plan.steps.push_back(std::move(step));
      }
      stepOf.push_back(entry->second);
    }
  }

  SmallVector<std::pair<Parity, uint64_t>, 6> takeColumns;
  for (unsigned i = 0; i < kLaneBits; ++i)
    takeColumns.push_back({{ThreadBit{Coord::Lane, i}}, laneShift[i]});
  plan.results.resize(to.registers());
  for (int64_t odd = 0; odd < oddCount; ++odd) {
    int64_t number = 0, left = odd;
    for (const RegisterDigits::Odd &digit : target.odd) {
      number += left % digit.radix * digit.weight;
      left /= digit.radix;
    }
    for (uint64_t mask = 0; mask < uint64_t(1) << registerBits; ++mask) {
      Select &result = plan.results[number + target.number(mask)];
      result = select(mask, takeColumns, [&](uint64_t k) { return stepOf[(uint64_t(odd) << stepBits) + k]; });
      plan.cost += int64_t(result.choices.size()) - 1;
    }
  }
  return true;
}

//===-- The plan -------------------------------------------------------------------------------------------------===//

/// The cost of stores and loads of runs up to 16 bytes, and of the barrier between them.
static int64_t sharedCost(const Layout &from, const Layout &to, int64_t elementBytes) {
  int64_t widest = std::max<int64_t>(1, 16 / elementBytes), run = 1;
  for (unsigned d = 0; d < from.rank(); ++d)
    run = std::max(run, std::min(from.contiguity(d), to.contiguity(d)));
  run = std::min(run, widest);
  return kBarrierCost + 2 * ((from.registers() + to.registers() + run - 1) / run);
}

std::optional<Conversion> planShuffles(const Layout &from, const Layout &to) {
  Conversion plan;
  if (!ShufflePlan(from, to).build(plan))
    return std::nullopt;
  plan.kind = ConversionKind::Shuffle;
  return plan;
}

Conversion planConversion(const Layout &from, const Layout &to, int64_t elementBytes) {
  Conversion plan;
  if (std::optional<SmallVector<int64_t, 8>> map = registerMap(from, to)) {
    bool same = from.registers() == to.registers();
    for (const auto &[register_, source] : llvm::enumerate(*map))
      same &= source == int64_t(register_);
    plan.kind = same ? ConversionKind::None : ConversionKind::Registers;
    plan.registers = std::move(*map);
    return plan;
  }
  int64_t shared = sharedCost(from, to, elementBytes);
  // Beyond this many registers shared memory is cheaper, so no plan by shuffles is made.
  constexpr int64_t mostRegisters = 1024;
  if (to.registers() <= mostRegisters) {
    if (std::optional<Conversion> shuffles = planShuffles(from, to)) {
      // A shuffle or select moves 32 bits.
      shuffles->cost *= std::max<int64_t>(1, elementBytes / 4);
      if (shuffles->cost <= shared)
        return *std::move(shuffles);
    }
  }
  plan.kind = ConversionKind::Shared;
  plan.crossesCtas = !agree(from, to, Coord::Cta);
  plan.cost = shared;
  return plan;
}

} // namespace kiln::layout
