// PTX to machine code by NVIDIA's assembler, run as a program: its library form drops setmaxnreg, and a process costs
// only 10 ms. Files live in a folder of their own that is removed whatever happens.
#include "compiler/codegen/Codegen.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <csignal>
#include <thread>
#include <unistd.h>

using namespace kiln;
using namespace kiln::codegen;

// Limits for an assembler that does nothing, and (in seconds of work) for one that does not finish.
static constexpr auto kPatience = std::chrono::seconds(30);
static constexpr double kMostWork = 300;

namespace {
/// A new folder below the system's temporary one, removed with its contents.
class TemporaryFolder {
public:
  TemporaryFolder() { error = llvm::sys::fs::createUniqueDirectory("kiln-ptxas", path); }
  ~TemporaryFolder() {
    if (!error)
      llvm::sys::fs::remove_directories(path);
  }
  std::string file(llvm::StringRef name) const {
    llvm::SmallString<128> whole(path);
    llvm::sys::path::append(whole, name);
    return whole.str().str();
  }
  std::error_code error;

private:
  llvm::SmallString<128> path;
};
} // namespace

static std::string readFile(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  return file ? (*file)->getBuffer().str() : "";
}

/// The largest number that the group of `pattern` matches in the log, as in "8 bytes spill stores".
static int64_t figure(llvm::StringRef log, llvm::StringRef pattern) {
  llvm::Regex number(pattern);
  llvm::SmallVector<llvm::StringRef> groups;
  int64_t largest = 0, value;
  while (number.match(log, &groups)) {
    if (!groups[1].getAsInteger(10, value))
      largest = std::max(largest, value);
    log = log.substr(groups[0].end() - log.begin());
  }
  return largest;
}

std::vector<std::string> kiln::codegen::changesIn(llvm::StringRef log) {
  // Matched by their words, since their numbers vary between versions. Nothing precedes these words that a kernel's
  // name could imitate.
  static constexpr llvm::StringLiteral told[] = {"'setmaxnreg' ignored", "instructions are serialized due to",
                                                 "warpgroup.wait is injected"};
  std::vector<std::string> notes;
  for (llvm::StringRef line : llvm::split(log, '\n'))
    if (llvm::any_of(told, [&](llvm::StringRef words) { return line.contains(words); })) {
      // ptxas info    : (C7508) ...
      size_t number = line.find('(');
      notes.push_back(line.substr(number == llvm::StringRef::npos ? 0 : number).trim().str());
    }
  return notes;
}

std::string kiln::codegen::withOneBlock(llvm::StringRef ptx) {
  // The directive belongs between a kernel's parameters and its body, next to .reqntid.
  size_t at = ptx.find("\n.reqntid ");
  if (at == llvm::StringRef::npos || ptx.contains("\n.minnctapersm "))
    return ptx.str();
  return (ptx.take_front(at) + "\n.minnctapersm 1" + ptx.drop_front(at)).str();
}

static std::string spellOut(llvm::StringRef ptx, llvm::StringRef bits) {
  std::string negation = ("neg.s" + bits + " ").str(), result;
  while (true) {
    auto [before, after] = ptx.split(negation);
    result += before;
    if (before.size() == ptx.size())
      return result;
    // neg.s16 \t%rs2, %rs1;
    auto [operands, rest] = after.split(';');
    auto [to, from] = operands.split(',');
    result += llvm::formatv("not.b{0} \t{1}, {2};\n\tadd.s{0} \t{1}, {1}, 1;", bits, to.trim(), from.trim()).str();
    ptx = rest;
  }
}

std::string kiln::codegen::withSafeNegation(llvm::StringRef ptx) {
  std::string result = spellOut(ptx, "16");
  llvm::StringRef text(result);
  bool compares = llvm::any_of(llvm::ArrayRef<llvm::StringRef>{"max.s32", "min.s32", "max.u32", "min.u32"},
                               [&](llvm::StringRef name) { return text.contains(name); });
  return compares ? spellOut(text, "32") : result;
}

char MachineError::ID;

double kiln::codegen::processorSeconds(int process) {
  // Read as a stream: such a file reports a size of zero.
  auto file = llvm::MemoryBuffer::getFileAsStream("/proc/" + llvm::Twine(process) + "/stat");
  if (!file)
    return 0;
  // The process name, in parentheses, may contain anything.
  auto [before, after] = (*file)->getBuffer().rsplit(')');
  llvm::SmallVector<llvm::StringRef> fields;
  after.trim().split(fields, ' ');
  int64_t ticks = 0;
  for (unsigned field : {11u, 12u, 13u, 14u}) // its own in user and system mode, then its children's
    if (int64_t part; field < fields.size() && !fields[field].getAsInteger(10, part))
      ticks += part;
  return double(ticks) / double(sysconf(_SC_CLK_TCK));
}

/// Runs the assembler to its end. Does not use LLVM's own time limit, which is a signal for the whole process.
static llvm::Expected<int> runAssembler(llvm::StringRef ptxas, llvm::ArrayRef<llvm::StringRef> arguments,
                                        llvm::StringRef log, const std::atomic<bool> *cancelled, std::string &problem) {
  using Clock = std::chrono::steady_clock;
  std::optional<llvm::StringRef> streams[] = {llvm::StringRef(""), log, log};
  llvm::sys::ProcessInfo process =
      llvm::sys::ExecuteNoWait(ptxas, arguments, std::nullopt, streams, /*MemoryLimit=*/0, &problem);
  if (process.Pid == llvm::sys::ProcessInfo::InvalidPid)
    return -1;
  auto start = Clock::now(), lastWork = start, nextLook = start;
  double worked = 0;
  auto pause = std::chrono::microseconds(250);
  for (;;) {
    llvm::sys::ProcessInfo ended = llvm::sys::Wait(process, /*SecondsToWait=*/0, &problem, nullptr, /*Polling=*/true);
    if (ended.Pid == process.Pid)
      return ended.ReturnCode;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
    auto now = Clock::now();
    bool stop = cancelled && *cancelled;
    if (now >= nextLook) {
      nextLook = now + std::chrono::seconds(1);
      if (double seconds = processorSeconds(process.Pid); seconds > worked) {
        worked = seconds;
        lastWork = now;
      }
      stop |= now - lastWork >= kPatience || worked >= kMostWork;
    }
    if (!stop)
      continue;
    ::kill(process.Pid, SIGKILL);
    llvm::sys::Wait(process, std::nullopt, nullptr);
    if (cancelled && *cancelled)
      return llvm::make_error<MachineError>("the compile was cancelled");
    return llvm::make_error<MachineError>(
        llvm::formatv("expected {0} to end, got nothing in {1} seconds; set KILN_PTXAS to another ptxas, or to none "
                      "to have the driver assemble",
                      ptxas, std::chrono::duration_cast<std::chrono::seconds>(now - start).count())
            .str());
  }
}

llvm::Expected<Cubin> kiln::codegen::assemblePtx(llvm::StringRef ptx, const Target &target, llvm::StringRef ptxas,
                                                 int level, bool lineInfo, const std::atomic<bool> *cancelled) {
  TemporaryFolder folder;
  if (folder.error) {
    llvm::SmallString<128> root;
    llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, root);
    return llvm::make_error<MachineError>(llvm::formatv("cannot make a folder for ptxas in {0}: {1}; set TMPDIR to a "
                                                        "folder that is there and can be written",
                                                        root, folder.error.message())
                                              .str());
  }
  std::string source = folder.file("kernel.ptx"), cubin = folder.file("kernel.cubin"), log = folder.file("log");
  {
    std::error_code code;
    llvm::raw_fd_ostream stream(source, code);
    if (!code)
      stream << ptx;
    stream.close();
    if (code || stream.has_error()) {
      std::string message = (code ? code : stream.error()).message();
      stream.clear_error();
      return llvm::make_error<MachineError>("cannot write " + source + ": " + message);
    }
  }
  std::string arch = "-arch=" + target.cpu, optimize = "-O" + std::to_string(level);
  llvm::SmallVector<llvm::StringRef> arguments = {ptxas, arch, optimize, "-v", source, "-o", cubin};
  if (lineInfo)
    arguments.push_back("-lineinfo");
  std::string problem;
  llvm::Expected<int> ended = runAssembler(ptxas, arguments, log, cancelled, problem);
  if (!ended)
    return ended.takeError();
  int code = *ended;
  std::string said = readFile(log);
  if (code == -1)
    return llvm::make_error<MachineError>(llvm::formatv("cannot run {0}: {1}", ptxas, problem).str());
  if (code != 0)
    return llvm::createStringError(
        llvm::formatv("{0} failed ({1}): {2}", ptxas, code, problem.empty() ? llvm::StringRef(said).trim() : problem)
            .str());
  Cubin result;
  result.bytes = readFile(cubin);
  if (result.bytes.empty())
    return llvm::createStringError(ptxas + " left no cubin: " + llvm::StringRef(said).trim());
  result.registers = figure(said, "Used ([0-9]+) registers");
  result.spillStores = figure(said, "([0-9]+) bytes spill stores");
  result.spillLoads = figure(said, "([0-9]+) bytes spill loads");
  result.stack = figure(said, "([0-9]+) bytes stack frame");
  result.shared = figure(said, "([0-9]+) bytes smem");
  result.changes = changesIn(said);
  return std::move(result);
}
