#include "compiler/conversion/kgpu_to_nvvm/SharedMemory.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

static constexpr auto kNoWrap = arith::IntegerOverflowFlags::nsw | arith::IntegerOverflowFlags::nuw;
static constexpr Coord kPlaces[] = {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta};

//===----------------------------------------------------------------------===//
// OffsetMap
//===----------------------------------------------------------------------===//

uint64_t OffsetMap::pack(const layout::Index &element) const {
  uint64_t bits = 0;
  for (auto [dim, side] : llvm::enumerate(memory.shape()))
    bits |= uint64_t(element[dim] & (layout::splitSide(side)->power - 1)) << firstBit[dim];
  return bits;
}

OffsetMap::OffsetMap(const Layout &memory) : memory(memory) {
  unsigned total = 0;
  for (int64_t side : memory.shape()) {
    firstBit.push_back(total);
    total += llvm::Log2_64(layout::splitSide(side)->power);
  }
  int64_t place = 1;
  for (const layout::Digit &digit : memory.digits(Coord::Offset)) {
    int dim = -1;
    if (digit.radix != 2)
      for (auto [d, step] : llvm::enumerate(digit.basis))
        dim = step != 0 ? int(d) : dim;
    digits.push_back({place, digit.radix, dim});
    place *= digit.radix;
  }
  // Gaussian elimination: rows of (element bits, the digits that XOR to them), each with a lowest bit that no other row
  // has. Digits of other ctas are numbered after those of the offset.
  auto insert = [&](uint64_t vector, uint64_t digit) {
    for (auto &[row, known] : rows)
      if (vector & (row & -row)) {
        vector ^= row;
        digit ^= known;
      }
    if (!vector)
      return;
    for (auto &[row, known] : rows)
      if (row & (vector & -vector)) {
        row ^= vector;
        known ^= digit;
      }
    rows.push_back({vector, digit});
  };
  for (auto [i, digit] : llvm::enumerate(memory.digits(Coord::Offset)))
    if (digit.radix == 2)
      insert(pack(digit.basis), uint64_t(1) << i);
  for (const layout::Digit &digit : memory.digits(Coord::Cta))
    if (digit.radix == 2)
      insert(pack(digit.basis), 0);
}

uint64_t OffsetMap::bitsOf(const layout::Index &element) const {
  uint64_t vector = pack(element), result = 0;
  for (auto [row, known] : rows)
    if (vector & (row & -row)) {
      vector ^= row;
      result ^= known;
    }
  return result;
}

int64_t OffsetMap::valueOf(uint64_t bits) const {
  int64_t value = 0;
  for (auto [i, place] : llvm::enumerate(digits))
    if (bits >> i & 1)
      value += place.value;
  return value;
}

int64_t OffsetMap::oddOf(const layout::Index &element) const {
  int64_t value = 0;
  for (const Place &place : digits)
    if (place.dim >= 0)
      value += element[place.dim] / layout::splitSide(memory.shape()[place.dim])->power * place.value;
  return value;
}

int64_t OffsetMap::offsetOf(const layout::Index &element) const { return valueOf(bitsOf(element)) + oddOf(element); }

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// The digits of the offset that depend on lanes, warps, groups and ctas.
static uint64_t threadBits(const Layout &tile, const OffsetMap &map) {
  uint64_t bits = 0;
  for (Coord coord : kPlaces)
    for (const layout::Digit &digit : tile.digits(coord))
      if (digit.radix == 2)
        bits |= map.bitsOf(digit.basis);
  return bits;
}

static MemoryPlan::Vector accessAt(const Layout &tile, const OffsetMap &map, uint64_t moved, int64_t reg) {
  layout::Index element = tile.at(Coord::Reg, reg);
  uint64_t bits = map.bitsOf(element);
  MemoryPlan::Vector access;
  access.flip = bits & moved;
  access.constant = map.valueOf(bits & ~moved) + map.oddOf(element);
  return access;
}

MemoryPlan::Vector nvvm::accessOf(const Layout &tile, const OffsetMap &map, int64_t reg) {
  MemoryPlan::Vector access = accessAt(tile, map, threadBits(tile, map), reg);
  access.registers.push_back(reg);
  return access;
}

MemoryPlan nvvm::planMemory(const Layout &tile, const OffsetMap &map, int64_t elementBytes, int64_t align) {
  MemoryPlan plan;
  ArrayRef<layout::Digit> registers = tile.digits(Coord::Reg);
  uint64_t moved = threadBits(tile, map), repeated = tile.ownerMask(Coord::Reg);
  SmallVector<uint64_t> images;
  SmallVector<int64_t> strides;
  int64_t stride = 1;
  for (auto [i, digit] : llvm::enumerate(registers)) {
    images.push_back(digit.radix == 2 && !(repeated >> i & 1) ? map.bitsOf(digit.basis) : 0);
    strides.push_back(stride);
    stride *= digit.radix;
  }
  // Register digits that step through memory by one element, two elements, ..., where no other digit does.
  SmallVector<int64_t> inVector = {0};
  uint64_t taken = 0;
  for (unsigned bit = 0; bit < map.places().size(); ++bit) {
    if (map.places()[bit].radix != 2 || moved >> bit & 1 || int64_t(inVector.size()) * 2 * elementBytes > align)
      break;
    int found = -1, users = 0;
    for (auto [i, image] : llvm::enumerate(images)) {
      users += image >> bit & 1;
      if (image == uint64_t(1) << bit)
        found = i;
    }
    if (found < 0 || users != 1)
      break;
    taken |= uint64_t(1) << found;
    for (int64_t known : SmallVector<int64_t>(inVector))
      inVector.push_back(known + strides[found]);
  }
  plan.vector = inVector.size();
  for (int64_t reg = 0; reg < tile.registers(); ++reg) {
    if (!isOwnerRegister(tile, reg))
      continue;
    bool first = true;
    for (unsigned i = 0; i < registers.size(); ++i)
      first &= !(taken >> i & 1) || reg / strides[i] % 2 == 0;
    if (!first)
      continue;
    MemoryPlan::Vector access = accessAt(tile, map, moved, reg);
    for (int64_t next : inVector)
      access.registers.push_back(reg + next);
    plan.accesses.push_back(access);
  }
  return plan;
}

MemoryAddress::MemoryAddress(Lowering &lowering, const Layout &tile, const OffsetMap &map, Value base,
                             int64_t elementBytes)
    : lowering(lowering), tile(tile), map(map), base(base), elementBytes(elementBytes) {}

Value MemoryAddress::threadBytes(uint64_t flip) {
  CodeBuilder &b = lowering.b;
  ArrayRef<OffsetMap::Place> places = map.places();
  Value sum;
  auto add = [&](Value term) {
    if (term)
      sum = sum ? arith::AddIOp::create(b, sum, term, kNoWrap).getResult() : term;
  };
  // Between odd digits, the offset is a binary number times a place value.
  for (unsigned begin = 0; begin < places.size();) {
    if (places[begin].radix != 2) {
      int64_t value = places[begin].value * elementBytes;
      for (Coord coord : kPlaces)
        add(lowering.coordinates.digitsValue(tile, coord, [&](unsigned i) {
          const layout::Digit &digit = tile.digits(coord)[i];
          return digit.radix != 2 && digit.basis[places[begin].dim] != 0 ? value : 0;
        }));
      ++begin;
      continue;
    }
    unsigned end = begin;
    while (end < places.size() && places[end].radix == 2)
      ++end;
    uint64_t mask = llvm::maskTrailingOnes<uint64_t>(end - begin);
    int64_t scale = places[begin].value * elementBytes;
    int64_t inside = llvm::isPowerOf2_64(scale) ? scale : 1;
    Value bits;
    uint64_t seen = 0;
    for (Coord coord : kPlaces) {
      uint64_t own = 0;
      Value part = lowering.coordinates.digitsValue(tile, coord, [&](unsigned i) -> int64_t {
        const layout::Digit &digit = tile.digits(coord)[i];
        uint64_t image = digit.radix == 2 ? map.bitsOf(digit.basis) >> begin & mask : 0;
        own |= image;
        return int64_t(image) * inside;
      });
      if (!part)
        continue;
      if (!bits)
        bits = part;
      else if (seen & own)
        bits = arith::XOrIOp::create(b, bits, part);
      else
        bits = arith::AddIOp::create(b, bits, part, kNoWrap);
      seen |= own;
    }
    if (uint64_t flipped = flip >> begin & mask; bits && flipped)
      bits = arith::XOrIOp::create(b, bits, b.i32(int64_t(flipped) * inside));
    if (bits && inside != scale)
      bits = arith::MulIOp::create(b, bits, b.i32(scale), kNoWrap);
    add(bits);
    begin = end;
  }
  return sum;
}

Value MemoryAddress::of(const MemoryPlan::Vector &access) {
  Value &pointer = pointers[access.flip];
  if (!pointer) {
    // The thread's part is the same wherever the memory is used, so it is computed once.
    Value bytes = lowering.place.atEntry([&] { return threadBytes(access.flip); });
    pointer = bytes ? lowering.b.offsetBy(base, bytes) : base;
  }
  return lowering.b.offsetBy(pointer, access.constant * elementBytes);
}
