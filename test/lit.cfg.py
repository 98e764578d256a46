"""lit: dialect, passes, conversion and tools, on IR, with no GPU."""

import os

import lit.formats

config.name = "kiln"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "python", "runtime", "kernels", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
root = os.path.dirname(config.test_source_root)
# Absolute: tests run in folders of their own.
build = os.path.join(root, os.environ.get("KILN_BUILD", "build"))
config.test_exec_root = os.path.join(build, "test", "lit")

llvm = "/usr/lib/llvm-22/bin"
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "compiler", "tools"), llvm, os.environ.get("PATH", "")]
)
config.environment["PYTHONPATH"] = os.path.join(build, "python")
config.environment["FILECHECK_OPTS"] = "--dump-input-filter=all -dump-input-context=10"
config.substitutions.append(("%python", lit_config.params.get("python", os.path.join(root, ".venv", "bin", "python"))))
config.substitutions.append(("%source", root))
