// See Dispatch.h.
#include "runtime/launch/Dispatch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>
#include <mutex>
#include <numeric>

using namespace kiln;
using namespace kiln::launch;
using Kind = Specialization::Kind;

/// The most keys whose variant is remembered; a program's calls have far fewer.
static constexpr unsigned mostKnown = 4096;

//===-- Facts ----------------------------------------------------------------------------------------------------===//

static unsigned divisorOf(const Specialization &item) { return item.divisible ? 16 : item.divisor; }

std::string kiln::launch::spell(const Specialization &item) {
  switch (item.kind) {
  case Kind::None:
    return "None";
  case Kind::Bool:
    return item.integer ? "True" : "False";
  case Kind::Integer:
    return std::to_string(item.integer);
  case Kind::BigInteger:
    return item.text;
  case Kind::Float:
    return llvm::formatv("{0}", llvm::format("%.17g", item.number));
  case Kind::String:
    return "'" + item.text + "'";
  case Kind::Scalar:
  case Kind::Pointer:
  case Kind::Descriptor: {
    unsigned divisor = divisorOf(item);
    return item.getType() + (divisor > 1 ? ":" + std::to_string(divisor) : "") + (item.wholeRows ? ":rows" : "");
  }
  case Kind::Object:
  case Kind::Tuple:
    break;
  }
  return "?";
}

static bool isSameConstant(const Specialization &a, const Specialization &b) {
  // Floats are compared by their bits, as in keys.
  return a.kind == b.kind && a.integer == b.integer && a.text == b.text &&
         std::memcmp(&a.number, &b.number, sizeof a.number) == 0;
}

/// True if integer type `wide` holds every value of `narrow`.
static bool holds(ElementType wide, ElementType narrow) {
  if (wide == narrow)
    return true;
  if (!artifact::isInteger(wide) || !artifact::isInteger(narrow) || narrow == ElementType::I1 ||
      wide == ElementType::I1 || artifact::getBytes(wide) <= artifact::getBytes(narrow))
    return false;
  return artifact::isSignedInteger(wide) || !artifact::isSignedInteger(narrow);
}

static std::string misfit(const std::string &expected, const Specialization &found) {
  return "expected " + expected + ", got " + spell(found);
}

std::string kiln::launch::findMisfit(const Specialization &code, const Specialization &found) {
  if (code.isConstant())
    return isSameConstant(code, found) ? "" : misfit(spell(code), found);
  if (code.kind == Kind::Tuple) {
    if (found.kind != Kind::Tuple || found.items.size() != code.items.size() || found.text != code.text)
      return misfit("a tuple of " + std::to_string(code.items.size()), found);
    for (size_t i = 0; i < code.items.size(); ++i)
      if (std::string problem = findMisfit(code.items[i], found.items[i]); !problem.empty())
        return "item " + std::to_string(i) + ": " + problem;
    return "";
  }
  // A launch makes the integer 1 a constant, but code for any integer accepts it too.
  bool isOne = found.kind == Kind::Integer && found.integer == 1 && code.kind == Kind::Scalar &&
               artifact::isInteger(code.element) && code.element != ElementType::I1;
  if (!isOne && (found.kind != code.kind ||
                 !(code.kind == Kind::Scalar ? holds(code.element, found.element) : code.element == found.element)))
    return misfit(code.kind == Kind::Descriptor ? "a descriptor of " + std::string(artifact::getName(code.element))
                                                : code.getType(),
                  found);
  if (code.kind == Kind::Descriptor && code.block.size() != found.block.size())
    return misfit("a descriptor of rank " + std::to_string(code.block.size()), found);
  unsigned divisor = divisorOf(code);
  if ((isOne ? 1 : divisorOf(found)) % divisor)
    return misfit((code.kind == Kind::Scalar ? "a multiple of " : "an address that is a multiple of ") +
                      std::to_string(divisor),
                  found);
  if (code.wholeRows && !found.wholeRows)
    return misfit("rows of a multiple of 16 bytes", found);
  return "";
}

unsigned kiln::launch::countFacts(const Specialization &code) {
  if (code.kind == Kind::Tuple)
    return std::accumulate(code.items.begin(), code.items.end(), 0u,
                           [](unsigned sum, const Specialization &item) { return sum + countFacts(item); });
  if (code.isConstant())
    return 16;
  unsigned facts = code.divisible ? 3 : code.divisor == 8 ? 2 : code.divisor == 4 ? 1 : 0;
  // Prefer narrower integers: this outweighs any divisor that a wider one states.
  if (code.kind == Kind::Scalar)
    facts += 4 * (4 - unsigned(llvm::Log2_32(artifact::getBytes(code.element))));
  return facts + code.wholeRows;
}

//===-- The choice -----------------------------------------------------------------------------------------------===//

Dispatcher::Dispatcher(std::vector<Variant> given) : variants(std::move(given)), order(variants.size()) {
  std::vector<unsigned> facts;
  for (const Variant &variant : variants) {
    keys.push_back(encodeKey(variant));
    unsigned sum = 0;
    for (const Specialization &item : variant)
      sum += countFacts(item);
    facts.push_back(sum);
  }
  std::iota(order.begin(), order.end(), 0u);
  llvm::sort(order, [&](unsigned a, unsigned b) { return facts[a] != facts[b] ? facts[a] > facts[b] : a < b; });
}

static std::string findFirstMisfit(const Dispatcher::Variant &variant, llvm::ArrayRef<Specialization> found,
                                   llvm::ArrayRef<std::string> names = {}) {
  for (size_t i = 0; i < variant.size(); ++i)
    if (std::string problem = findMisfit(variant[i], found[i]); !problem.empty())
      return names.empty() ? problem : "argument '" + names[i] + "': " + problem;
  return "";
}

std::optional<unsigned> Dispatcher::find(llvm::StringRef key) {
  {
    std::shared_lock<std::shared_mutex> lock(mutex);
    auto entry = known.find(key);
    if (entry != known.end())
      return entry->second;
  }
  std::vector<Specialization> found = decodeKey(key);
  for (unsigned index : order) {
    if (!findFirstMisfit(variants[index], found).empty())
      continue;
    std::lock_guard<std::shared_mutex> lock(mutex);
    if (known.size() >= mostKnown)
      known.clear();
    known[key] = index;
    return index;
  }
  return std::nullopt;
}

std::string Dispatcher::explain(llvm::StringRef key, llvm::ArrayRef<std::string> names) const {
  std::vector<Specialization> found = decodeKey(key);
  std::string text;
  for (unsigned index : order)
    text += "\n  variant " + std::to_string(index) + ": " + findFirstMisfit(variants[index], found, names);
  return text;
}
