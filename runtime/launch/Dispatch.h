// Which of several variants of a kernel runs a call: the most special one that fits what the call was found to be.
//
// A variant states facts (a type, a divisor, a constant) by parameter; a call's key states those of its arguments, as
// CallEncoder found them. A variant fits if every fact it states follows from the call's. Of two that fit, the one that
// states more wins; of equals the first.
#pragma once
#include "runtime/launch/Specialize.h"
#include "llvm/ADT/StringMap.h"
#include <shared_mutex>

namespace kiln::launch {

/// What code that is specialised for `code` expects of an argument that was found to be `found`, as "expected …, got
/// …"; empty if it fits. Integers may be wider in the code. Blocks of descriptors are the code's own affair.
std::string findMisfit(const Specialization &code, const Specialization &found);

/// A variant that fits fewer calls than another states more.
unsigned countFacts(const Specialization &code);

/// As a signature spells it: "*fp32:16", "i32", "1", "'text'". Objects and tuples have no spelling: "?".
std::string spell(const Specialization &item);

/// The most special variants first. Safe to use from several threads.
class Dispatcher {
public:
  using Variant = std::vector<Specialization>; ///< one for each parameter
  explicit Dispatcher(std::vector<Variant> variants);

  /// The variant, by its index, for calls with this key; std::nullopt if none fits.
  std::optional<unsigned> find(llvm::StringRef key);

  /// Why no variant fits, one line for each: the first argument that it does not fit.
  std::string explain(llvm::StringRef key, llvm::ArrayRef<std::string> names) const;

  const Variant &getVariant(unsigned index) const { return variants[index]; }
  /// The key of a call that shows the facts of the variant and no others.
  llvm::StringRef getKey(unsigned index) const { return keys[index]; }

private:
  std::vector<Variant> variants;
  std::vector<std::string> keys;
  std::vector<unsigned> order;
  std::shared_mutex mutex; ///< of what follows
  llvm::StringMap<unsigned> known;
};

} // namespace kiln::launch
