"""lit: dialects, passes, conversions and tools, on IR, without a GPU."""

import glob
import os

import lit.formats

config.name = "kiln"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "python", "runtime", "kernels", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
root = os.path.dirname(config.test_source_root)
# Absolute paths, as each test runs in its own folder.
build = os.path.join(root, os.environ.get("KILN_BUILD", "build"))
config.test_exec_root = os.path.join(build, "test", "lit")

llvm = "/usr/lib/llvm-22/bin"
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "compiler", "tools"), llvm, os.environ.get("PATH", "")]
)
config.environment["PYTHONPATH"] = os.path.join(build, "python")
# Set by the Makefile: freed memory is overwritten, and allocated memory is not zero.
if fill := os.environ.get("MALLOC_PERTURB_"):
    config.environment["MALLOC_PERTURB_"] = fill
config.environment["FILECHECK_OPTS"] = "--dump-input-filter=all -dump-input-context=10"
# ptxas: an assembler for NVIDIA GPUs is available, from a package of the environment or a toolkit.
python = lit_config.params.get("python", os.path.join(root, ".venv", "bin", "python"))
packaged = glob.glob(os.path.join(os.path.dirname(python), "..", "lib", "python3*", "site-packages", "nvidia", "cu13"))
toolkits = [*packaged, os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
tool = next((t for t in toolkits if t and os.access(os.path.join(t, "bin", "ptxas"), os.X_OK)), None)
if tool:
    config.available_features.add("ptxas")
    config.environment["CUDA_HOME"] = tool
config.substitutions.append(("%python", python))
config.substitutions.append(("%source", root))
