// Errors as values for the runtime: a Status describes a failure in one lower-case sentence; ErrorOr<T> is a T or such
// a failure. Nothing below runtime/ throws; the Python binding turns a Status into the exception class for its code.
#pragma once
#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace kiln {

enum class StatusCode {
  Ok,
  InvalidArgument, ///< the caller passed something unusable
  Corrupt,         ///< bytes that should be an artifact are not
  Resource,        ///< valid, but does not fit this machine
  Internal,        ///< a bug of ours
  DeviceLost,      ///< from now on the device's context answers every call with an error
  NoVariant,       ///< there is no code for such arguments, or for such a device
  AssertionFailed, ///< an assertion in the kernel failed
};

/// What a valid kernel needs of a machine, and what there is: part of a Resource status, where known.
struct ResourceNeed {
  std::string resource;                ///< "shared memory", "registers" …
  int64_t required = 0, available = 0; ///< negative if only the resource is known
  std::string option;                  ///< what to reduce
};

/// A single pointer, null for success, because a launch passes several of them along.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : wrong(code == StatusCode::Ok ? nullptr : std::make_shared<Wrong>(Wrong{code, std::move(message), {}})) {}

  bool ok() const { return !wrong; }
  StatusCode getCode() const { return wrong ? wrong->code : StatusCode::Ok; }
  const std::string &getMessage() const {
    static const std::string none;
    return wrong ? wrong->message : none;
  }

  /// Null if the status is not about a resource.
  const ResourceNeed *getNeed() const { return wrong && wrong->need ? &*wrong->need : nullptr; }
  Status with(ResourceNeed amount) && {
    if (wrong)
      wrong = std::make_shared<Wrong>(Wrong{wrong->code, wrong->message, std::move(amount)});
    return std::move(*this);
  }

private:
  struct Wrong {
    StatusCode code;
    std::string message;
    std::optional<ResourceNeed> need;
  };
  std::shared_ptr<const Wrong> wrong;
};

inline Status invalidArgument(std::string message) { return {StatusCode::InvalidArgument, std::move(message)}; }
inline Status corrupt(std::string message) { return {StatusCode::Corrupt, std::move(message)}; }
inline Status resourceError(std::string message) { return {StatusCode::Resource, std::move(message)}; }
inline Status internalError(std::string message) { return {StatusCode::Internal, std::move(message)}; }
inline Status outOf(ResourceNeed need) {
  std::string message = "out of " + need.resource + ": required " + std::to_string(need.required) + ", available " +
                        std::to_string(need.available);
  return Status(StatusCode::Resource, std::move(message)).with(std::move(need));
}

/// A value, or the reason why there is none.
template <typename T> class [[nodiscard]] ErrorOr {
public:
  ErrorOr(T value) : value(std::move(value)) {}
  ErrorOr(Status status) : status(std::move(status)) { assert(!this->status.ok() && "an error needs a code"); }

  bool ok() const { return value.has_value(); }
  const Status &getStatus() const { return status; }
  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }

private:
  std::optional<T> value;
  Status status;
};

} // namespace kiln
