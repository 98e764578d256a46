// The hooks of a launch, and the messages about what they observe.
#include "runtime/launch/Monitor.h"
#include "runtime/device/CpuKernel.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <charconv>
#include <cmath>

using namespace kiln;
using namespace kiln::launch;
using artifact::Site;

// More than any person reads; a launch that prints more loses the rest and says so.
static constexpr size_t maxOutputBytes = size_t(64) << 20;

Monitor::Monitor(const artifact::Metadata &metadata, device::Grid grid, std::vector<BufferExtent> buffers)
    : metadata(metadata), grid(grid), buffers(std::move(buffers)) {
  if (metadata.check == "races")
    races.emplace();
}

const KilnHooks *Monitor::getHooks() const {
  static const KilnHooks hooks = {print, fail, access};
  return &hooks;
}

void Monitor::record(const Failure &candidate) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!failure || candidate.program < failure->program)
    failure = candidate;
}

//===-- Coordinates ----------------------------------------------------------------------------------------------===//

static std::string join(llvm::ArrayRef<int64_t> numbers) {
  std::string text = "(";
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + ")";
}

static std::string getCoordinate(llvm::ArrayRef<int64_t> shape, int64_t element) {
  llvm::SmallVector<int64_t> coordinate(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    coordinate[i] = element % shape[i];
    element /= shape[i];
  }
  return join(coordinate);
}

std::string Monitor::describeProgram(int64_t program) const {
  return join({program % grid.x, program / grid.x % grid.y, program / grid.x / grid.y});
}

std::string Monitor::describeElement(int32_t site, int64_t element) const {
  const Site &where = metadata.sites[site];
  if (where.operands.empty() || where.operands.front().shape.empty())
    return "";
  return ", tile coordinate " + getCoordinate(where.operands.front().shape, element);
}

std::string Monitor::describeSource(int32_t site) const {
  const Site &where = metadata.sites[site];
  if (where.location.empty())
    return "an unknown line";
  return where.location.front().file + ":" + std::to_string(where.location.front().line);
}

//===-- Printing -------------------------------------------------------------------------------------------------===//

/// The shortest text that parses to this value in its own type.
static std::string getDigits(artifact::ElementType type, double value) {
  char text[64];
  bool narrow = artifact::getBytes(type) < 4 && std::isfinite(value);
  // Nine digits identify any float32, and all values of narrower types are float32 values.
  for (int digits = 1; narrow && digits < 9; ++digits) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    double candidate = std::strtod(text, nullptr);
    char encoded[8];
    artifact::encodeFloat(type, candidate, encoded);
    if (artifact::decodeFloat(type, encoded) == value) {
      value = candidate;
      break;
    }
  }
  char *end = narrow || type == artifact::ElementType::FP64 ? std::to_chars(text, text + sizeof text, value).ptr
                                                            : std::to_chars(text, text + sizeof text, float(value)).ptr;
  return std::string(text, end);
}

static void printElement(llvm::raw_ostream &stream, const Site::Operand &operand, const char *element, bool hex) {
  unsigned bytes = operand.pointer ? 8 : artifact::getBytes(operand.type);
  if (hex || operand.pointer) {
    uint64_t bits = 0;
    memcpy(&bits, element, bytes);
    stream << llvm::format_hex(bits, 2 + 2 * bytes);
    return;
  }
  if (artifact::isFloat(operand.type)) {
    double value = artifact::decodeFloat(operand.type, element);
    std::string digits = getDigits(operand.type, value);
    stream << digits;
    if (std::isfinite(value) && digits.find_first_of(".e") == std::string::npos)
      stream << ".0";
    return;
  }
  uint64_t value = artifact::decodeInteger(operand.type, element);
  if (operand.type == artifact::ElementType::I1)
    stream << (value ? "True" : "False");
  else if (artifact::isSignedInteger(operand.type))
    stream << int64_t(value);
  else
    stream << value;
}

void Monitor::print(const KilnLaunch *launch, int32_t site, int64_t program, const void *const *operands) {
  Monitor &self = *static_cast<Monitor *>(launch->runtime);
  const Site &what = self.metadata.sites[site];
  std::string text;
  llvm::raw_string_ostream stream(text);
  std::string prefix = "pid " + self.describeProgram(program);
  // The user's prefix may or may not end in a colon or a space.
  llvm::StringRef label = llvm::StringRef(what.message).rtrim(" :");
  if (what.operands.empty())
    stream << prefix << " " << what.message << "\n";
  for (size_t i = 0; i < what.operands.size(); ++i) {
    const Site::Operand &operand = what.operands[i];
    unsigned bytes = operand.pointer ? 8 : artifact::getBytes(operand.type);
    int64_t count = 1;
    for (int64_t side : operand.shape)
      count *= side;
    for (int64_t element = 0; element < count; ++element) {
      stream << prefix;
      if (!operand.shape.empty())
        stream << " idx " << getCoordinate(operand.shape, element);
      if (!label.empty())
        stream << " " << label << ":";
      stream << " ";
      printElement(stream, operand, static_cast<const char *>(operands[i]) + element * bytes, what.hex);
      if (what.operands.size() > 1)
        stream << " (operand " << i << ")";
      stream << "\n";
    }
  }
  std::lock_guard<std::mutex> lock(self.mutex);
  if (self.outputBytes > maxOutputBytes)
    return;
  self.outputBytes += text.size();
  self.output[program] += text;
}

std::string Monitor::takeOutput() {
  std::string text;
  for (auto &[program, lines] : output)
    text += lines;
  if (outputBytes > maxOutputBytes)
    text += llvm::formatv("(more than {0} MiB printed by kernel '{1}': the rest is left out)\n", maxOutputBytes >> 20,
                          metadata.name);
  output.clear();
  outputBytes = 0;
  return text;
}

//===-- Assertions and checks ------------------------------------------------------------------------------------===//

void Monitor::fail(const KilnLaunch *launch, int32_t site, int64_t program, int64_t element) {
  Failure failure;
  failure.site = site;
  failure.program = program;
  failure.element = element;
  static_cast<Monitor *>(launch->runtime)->record(failure);
  device::abandonInstance(launch);
}

void Monitor::access(const KilnLaunch *launch, int32_t site, int64_t program, int64_t element, const void *pointer,
                     int32_t bytes, int32_t kindNumber) {
  Monitor &self = *static_cast<Monitor *>(launch->runtime);
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  if (kindNumber == KILN_ACCESS_STORE_BEGINS) {
    self.stored[site].clear();
    return;
  }
  Failure failure;
  failure.site = site;
  failure.program = program;
  failure.element = element;
  failure.address = address;
  failure.bytes = bytes;
  failure.access = KilnAccess(kindNumber);
  auto sameStore = [&]() -> std::optional<int64_t> {
    auto store = self.stored.find(site);
    if (failure.access != KILN_ACCESS_STORE || store == self.stored.end())
      return std::nullopt;
    auto [other, isNew] = store->second.try_emplace(address, element);
    return isNew ? std::nullopt : std::optional(other->second);
  };
  if (kindNumber == KILN_ACCESS_INDEX) {
    failure.kind = Failure::Kind::Index;
  } else if (std::optional<int64_t> other = self.races ? sameStore() : std::nullopt) {
    failure.kind = Failure::Kind::Lanes;
    failure.otherElement = *other;
  } else if (self.races) {
    failure.kind = Failure::Kind::Race;
    failure.other = self.races->note({program, site, failure.access}, address, bytes);
    if (!failure.other)
      return;
  } else {
    failure.kind = Failure::Kind::OutOfBounds;
    for (const BufferExtent &buffer : self.buffers)
      if (address >= buffer.begin && address + bytes <= buffer.end) {
        if (buffer.writable || failure.access == KILN_ACCESS_LOAD)
          return;
        failure.kind = Failure::Kind::ReadOnly;
      }
  }
  self.record(failure);
  device::abandonInstance(launch);
}

/// The verb for an access to memory.
static const char *getVerb(KilnAccess kind) {
  constexpr const char *verbs[] = {"load", "store", "atomic"};
  return verbs[unsigned(kind)];
}

static std::string withBytes(uint64_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

std::string Monitor::describeBuffers(uintptr_t address, int32_t bytes) const {
  // Find the nearest buffer, and by how much the access misses it.
  const BufferExtent *nearest = nullptr;
  uint64_t distance = UINT64_MAX;
  bool after = false;
  for (const BufferExtent &buffer : buffers) {
    bool isAfter = address + bytes > buffer.end;
    uint64_t miss = isAfter ? address + bytes - buffer.end : buffer.begin - address;
    if (address >= buffer.begin && address + bytes <= buffer.end)
      miss = 0;
    if (miss < distance) {
      nearest = &buffer;
      distance = miss;
      after = isAfter;
    }
  }
  if (!nearest)
    return "no argument of this launch is a buffer";
  std::string range = llvm::formatv("argument '{0}', {1:x} to {2:x}, {3}", nearest->argument, nearest->begin,
                                    nearest->end, withBytes(nearest->end - nearest->begin));
  if (distance == 0)
    return "the buffer is " + range;
  // Counted to the far end of the access, i.e. how much has to be cut off.
  return llvm::formatv("the nearest buffer is {0}: the access goes {1} {2} it", range, withBytes(distance),
                       after ? "past the end of" : "before the start of");
}

std::string Monitor::getMessage(const Failure &failure) const {
  if (failure.kind == Failure::Kind::Assert)
    return metadata.sites[failure.site].message;
  if (failure.kind == Failure::Kind::Index)
    return llvm::formatv("index {0} is outside of an axis of {1} elements", int64_t(failure.address), failure.bytes);
  std::string access =
      llvm::formatv("{0} of {1} at address {2:x}", getVerb(failure.access), withBytes(failure.bytes), failure.address);
  switch (failure.kind) {
  case Failure::Kind::Lanes:
    return access + " is one of two by this store: that of tile coordinate " +
           getCoordinate(metadata.sites[failure.site].operands.front().shape, failure.otherElement) +
           " has the same address";
  case Failure::Kind::OutOfBounds:
    return access + " is outside every buffer passed in";
  case Failure::Kind::ReadOnly:
    return access + " is to a read-only buffer";
  case Failure::Kind::Race:
    return llvm::formatv("{0} races with the {1} of program {2}", access, getVerb(failure.other->kind),
                         describeProgram(failure.other->program));
  case Failure::Kind::Assert:
  case Failure::Kind::Index:
    break;
  }
  return "";
}

std::string Monitor::getDetail(const Failure &failure) const {
  if (failure.kind == Failure::Kind::Assert || failure.kind == Failure::Kind::Index)
    return "";
  return describeBuffers(failure.address, failure.bytes);
}

std::string Monitor::describe(const Failure &failure) const {
  std::string text = describeSource(failure.site) + ": ";
  if (failure.kind == Failure::Kind::Assert)
    text += "assertion failed: ";
  text += getMessage(failure) + ", in program " + describeProgram(failure.program) +
          describeElement(failure.site, failure.element);
  if (failure.other)
    text += "; the other access is at " + describeSource(failure.other->site);
  if (std::string detail = getDetail(failure); !detail.empty())
    text += "; " + detail;
  return text;
}
