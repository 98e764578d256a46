// Which of several variants of a kernel runs a call: the most specialised one that fits the call's facts.
//
// A variant states facts (a type, a divisor, a constant) for each parameter; a call's key states those of its
// arguments, as CallEncoder found them. A variant fits if every fact that it states follows from the call's. Of two
// that fit, the one that states more wins; among equals the first.
#pragma once
#include "runtime/launch/Specialize.h"
#include "llvm/ADT/StringMap.h"
#include <shared_mutex>

namespace kiln::launch {

/// Why code specialised for `code` does not accept an argument with the facts `found`, as "expected …, got …"; empty if
/// it does. Integers may be wider in the code. Blocks of descriptors do not matter.
std::string findMisfit(const Specialization &code, const Specialization &found);

/// The number of facts stated: a variant that fits fewer calls than another has more.
unsigned countFacts(const Specialization &code);

/// The spelling in signatures: "*fp32:16", "i32", "1", "'text'". Objects and tuples have none: "?".
std::string spell(const Specialization &item);

/// Tries the most specialised variants first. Safe to use from several threads.
class Dispatcher {
public:
  using Variant = std::vector<Specialization>; ///< one per parameter
  explicit Dispatcher(std::vector<Variant> variants);

  /// The index of the variant for calls with this key; std::nullopt if none fits.
  std::optional<unsigned> find(llvm::StringRef key);

  /// Why no variant fits: for each, one line on the first argument that it does not accept.
  std::string explain(llvm::StringRef key, llvm::ArrayRef<std::string> names) const;

  const Variant &getVariant(unsigned index) const { return variants[index]; }
  /// The key of a call with exactly the facts of the variant.
  llvm::StringRef getKey(unsigned index) const { return keys[index]; }

private:
  std::vector<Variant> variants;
  std::vector<std::string> keys;
  std::vector<unsigned> order;
  std::shared_mutex mutex; ///< guards `known`
  llvm::StringMap<unsigned> known;
};

} // namespace kiln::launch
