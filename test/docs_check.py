"""make docs-check: runs every fenced Python example of the documents, and checks generated tables against their source.

The examples of a file run in order in one fresh namespace. As kernels need their source, an example is compiled under a
name that linecache knows.
"""

from __future__ import annotations

import linecache
import os
import pathlib
import re
import sys
import traceback

os.environ["KILN_CACHE"] = "0"  # recompile everything that the documents show

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_examples(path: pathlib.Path) -> tuple[int, list[str]]:
    text = path.read_text()
    namespace: dict[str, object] = {"__name__": f"docs.{path.stem}"}
    failures, count = [], 0
    for match in FENCE.finditer(text):
        count += 1
        line = text[: match.start()].count("\n") + 1
        name = f"<{path.relative_to(ROOT)}:{line}>"
        source = match[1]
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        try:
            exec(compile(source, name, "exec"), namespace)
        except Exception:
            failures.append(f"{path.relative_to(ROOT)}:{line}\n{traceback.format_exc(limit=-3)}")
    return count, failures


def check_switches() -> list[str]:
    from kiln import knobs

    if knobs.markdown() in (ROOT / "README.md").read_text():
        return []
    return ["README.md: the table of switches differs from `python -m kiln.knobs`; paste its output"]


def pass_order() -> list[str]:
    """The names of the passes that Pipeline.cpp adds, in source order."""
    flags = {"Inliner": "inline", "SymbolDCE": "symbol-dce", "CSE": "cse", "Canonicalizer": "canonicalize"}
    for path in ROOT.glob("compiler/**/Passes.td"):
        flags |= re.findall(r'^def (\w+)Pass : Pass<"([\w-]+)"', path.read_text(), re.MULTILINE)
    source = (ROOT / "compiler/pipeline/Pipeline.cpp").read_text()
    cleanup, source = source[: source.index("void kiln::build")], source[source.index("void kiln::build") :]
    assert cleanup.count("addPass(createCanonicalizerPass(") == cleanup.count("addPass(createCSEPass(") == 2
    names: list[str] = []
    for made, tidied in re.findall(r"create(\w+)Pass\(|\b(addCleanup|addScalarCleanup)\(", source):
        names += ["canonicalize", "cse"] if tidied else [flags[made]]
    return names


def check_pass_order() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    said = re.search(r"^Pass order \(.*?\):\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    names = re.findall(r"`([\w-]+)`", said[1]) if said else []
    order = pass_order()
    if names == order:
        return []
    place = next((i for i, (a, b) in enumerate(zip(names, order, strict=False)) if a != b), min(len(names), len(order)))
    here, there = [list[place] if place < len(list) else "the end" for list in (names, order)]
    return [f"ARCHITECTURE.md: pass {place + 1} of the list is {here}; in Pipeline.cpp it is {there}"]


def main() -> int:
    documents = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(ROOT.glob("kernels/**/*.md"))]
    passed, failures = 0, check_switches() + check_pass_order()
    for path in documents:
        count, failed = run_examples(path)
        passed += count - len(failed)
        failures += failed
    print("\n".join(failures))
    print(f"docs: {passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
