// Machine code: assembly text or object from LLVM IR, and object from assembly text.
#include "compiler/codegen/Unit.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/MCAsmBackend.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCObjectFileInfo.h"
#include "llvm/MC/MCObjectWriter.h"
#include "llvm/MC/MCParser/MCAsmParser.h"
#include "llvm/MC/MCParser/MCTargetAsmParser.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCStreamer.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace kiln;
using namespace kiln::codegen;

llvm::Expected<std::string> kiln::codegen::emit(Unit &unit, llvm::TargetMachine &machine, FileKind kind, bool keep) {
  std::unique_ptr<llvm::Module, UnlessFatal> copy;
  if (keep)
    copy.reset(llvm::CloneModule(*unit.module).release());
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  std::unique_ptr<llvm::legacy::PassManager, UnlessFatal> owned(new llvm::legacy::PassManager);
  llvm::legacy::PassManager &passes = *owned;
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  passes.add(new llvm::TargetLibraryInfoWrapperPass(library));
  auto type = kind == FileKind::Assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return llvm::createStringError("LLVM cannot emit this kind of file for " + machine.getTargetTriple().str());
  passes.run(keep ? *copy : *unit.module);
  if (llvm::Error error = diagnosticsOf(unit))
    return std::move(error);
  return std::string(bytes);
}

llvm::Expected<std::string> kiln::codegen::assemble(llvm::StringRef text, const Target &target) {
  auto machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  const llvm::Target &backend = (*machine)->getTarget();
  const llvm::Triple &triple = (*machine)->getTargetTriple();
  const llvm::MCTargetOptions &options = (*machine)->Options.MCOptions;

  std::string problems;
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, "kernel.s"), llvm::SMLoc());
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic &problem, void *into) {
        auto &list = *static_cast<std::string *>(into);
        if (problem.getKind() == llvm::SourceMgr::DK_Error)
          list += (list.empty() ? "line " : "; line ") + std::to_string(problem.getLineNo()) + ": " +
                  problem.getMessage().str();
      },
      &problems);

  std::unique_ptr<llvm::MCRegisterInfo> registers(backend.createMCRegInfo(triple));
  std::unique_ptr<llvm::MCAsmInfo> assembly(backend.createMCAsmInfo(*registers, triple, options));
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(backend.createMCSubtargetInfo(triple, target.cpu, target.features));
  std::unique_ptr<llvm::MCInstrInfo> instructions(backend.createMCInstrInfo());
  llvm::MCContext context(triple, assembly.get(), registers.get(), subtarget.get(), &sources, &options);
  std::unique_ptr<llvm::MCObjectFileInfo> sections(backend.createMCObjectFileInfo(context, /*PIC=*/true));
  context.setObjectFileInfo(sections.get());

  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  std::unique_ptr<llvm::MCAsmBackend> backendOfAssembly(backend.createMCAsmBackend(*subtarget, *registers, options));
  std::unique_ptr<llvm::MCObjectWriter> writer = backendOfAssembly->createObjectWriter(stream);
  std::unique_ptr<llvm::MCCodeEmitter> encoder(backend.createMCCodeEmitter(*instructions, context));
  std::unique_ptr<llvm::MCStreamer> streamer(backend.createMCObjectStreamer(
      triple, context, std::move(backendOfAssembly), std::move(writer), std::move(encoder), *subtarget));
  std::unique_ptr<llvm::MCAsmParser> parser(llvm::createMCAsmParser(sources, context, *streamer, *assembly));
  std::unique_ptr<llvm::MCTargetAsmParser> dialect(
      backend.createMCAsmParser(*subtarget, *parser, *instructions, options));
  parser->setTargetParser(*dialect);
  if (parser->Run(/*NoInitialTextSection=*/false) || !problems.empty())
    return llvm::createStringError(problems.empty() ? "the assembly does not parse" : problems);
  return std::string(bytes);
}
