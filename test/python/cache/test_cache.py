"""The cache as seen by a program: a damaged, unreadable or full cache costs a compile and one warning, never a wrong
result."""

import hashlib
import json
import os
import sys

import pytest

pytestmark = pytest.mark.cpu

PROGRAM = """
import warnings
import numpy as np
import kiln
import kiln.language as kl

warnings.simplefilter("always")
events = []
kiln.hooks.compile_end.add(lambda event: events.append(event.cached))

@kiln.jit
def kernel(x, y, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.store(y + i, kl.load(x + i) * 3)

@kiln.jit
def other(x, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), 9.0)

def launch(block=32):
    x = np.arange(block, dtype=np.float32)
    y = np.zeros(block, np.float32)
    kernel[(1,)](x, y, BLOCK=block)
    assert (y == x * 3).all()
    other[(1,)](x, block)
    assert (x == 9).all()
    return events

print(launch())
"""


def test_damaged_entries_are_recompiled_with_a_warning(place):
    assert place.run(PROGRAM) == "[False, False]\n"
    for kind, victim in (("artifact", "object"), ("artifact", "tile.mlir"), ("index", "manifest.json")):
        for entry in place.entries(kind):
            path = place.root / entry["key"][:2] / entry["key"] / victim
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 4
            path.write_bytes(content)
        # An artifact is found by its IR if its index entry is lost.
        output = place.run(PROGRAM)
        assert ("[False, False]" if kind == "artifact" else "[True, True]") in output
        assert output.count("RuntimeWarning: kiln's cache: entry") == 2, "one for each, and no more"
        assert place.run(PROGRAM) == "[True, True]\n"
    assert len(list((place.root / "quarantine").iterdir())) == 6


def rewrite(root, entry, change, files=()):
    """Rewrites the entry with a valid checksum: `change` modifies the manifest, `files` gives new contents."""
    folder = root / entry["key"][:2] / entry["key"]
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]
    change(manifest)
    for name, content in files:
        (folder / name).write_bytes(content)
        of_file = next(file for file in manifest["files"] if file["name"] == name)
        of_file |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    body = json.dumps(manifest, indent=2).partition("\n")[2] + "\n"
    digest = hashlib.sha256(body.encode()).hexdigest()
    (folder / "manifest.json").write_text(f'{{"sha256":"{digest}",\n{body}')


def test_a_wrong_index_entry_is_replaced(place):
    place.run(PROGRAM)
    artifacts = {entry["subject"]: entry for entry in place.entries("artifact")}
    index = {entry["subject"]: entry for entry in place.entries("index")}
    for leads_to, told in (
        (artifacts["other"]["key"], "the index entry of kernel is not used: it leads to code of other"),
        (index["kernel"]["key"], "it leads to an entry of another kind (index)"),
        ("0" * 64, ""),
        ("../../passwd", ""),
        (7, ""),
    ):
        rewrite(place.root, index["kernel"], lambda manifest, to=leads_to: manifest["facts"].update(artifact=to))
        output = place.run(PROGRAM)
        assert "[True, True]" in output, "the artifact is found by its IR"
        assert told in output and output.count("RuntimeWarning") == bool(told)
        log = place.run(PROGRAM, kiln_log="debug,cache")
        assert "hit: kernel by its source" in log, "the index leads to it again"


def test_an_artifact_that_cannot_be_loaded_is_recompiled(place):
    place.run(PROGRAM)
    (entry,) = (entry for entry in place.entries("artifact") if entry["subject"] == "kernel")
    (other,) = (entry for entry in place.entries("artifact") if entry["subject"] == "other")
    wrong = (place.root / other["key"][:2] / other["key"] / "object").read_bytes()
    rewrite(place.root, entry, lambda manifest: None, [("object", wrong)])
    output = place.run(PROGRAM)
    assert "[False, True]" in output
    assert output.count("RuntimeWarning") == 1 and "cannot load the object of kernel 'kernel'" in output
    place.run(PROGRAM)
    assert place.run(PROGRAM) == "[True, True]\n"


@pytest.mark.parametrize("trouble", ["link", "file", "no permission", "writable by others"])
def test_a_rejected_cache_folder_costs_one_warning(place, trouble):
    (place.folder / "elsewhere").mkdir(mode=0o755)
    if trouble == "link":
        place.root.symlink_to(place.folder / "elsewhere")
    elif trouble == "file":
        place.root.write_text("")
    elif trouble == "writable by others":
        place.root.mkdir()
        (place.root / "00").mkdir()
        place.root.chmod(0o777)
    else:
        if os.geteuid() == 0:
            pytest.skip("nothing is forbidden to root")
        place.root.mkdir(mode=0o500)
    for _ in range(2):
        output = place.run(PROGRAM)
        assert output.count("Warning") == 1 and "[False, False]" in output
        assert "kernels are compiled for this process alone" in output
    assert not list((place.folder / "elsewhere").iterdir())


def test_a_read_only_cache(place):
    place.run(PROGRAM)
    shipped = place.folder / "package"
    place.root.rename(shipped)
    before = {path: path.stat().st_mtime_ns for path in shipped.rglob("*")}
    program = PROGRAM.replace("print(launch())", "print(launch(), launch(64))")
    assert place.run(program, kiln_cache_readonly=shipped) == "[True, True, False, False] [True, True, False, False]\n"
    assert {path: path.stat().st_mtime_ns for path in shipped.rglob("*")} == before
    # With no writable cache, and one entry damaged: that kernel is compiled, and the entry stays as it is.
    (victim,) = [path for path in shipped.rglob("object") if b"kernel" in (path.parent / "metadata.json").read_bytes()]
    victim.write_bytes(b"damaged")
    output = place.run(PROGRAM, kiln_cache_readonly=shipped, kiln_cache=0)
    assert "[False, True]" in output and "is not used: object: expected" in output
    assert victim.read_bytes() == b"damaged"


def test_the_cache_stays_within_its_size(place):
    program = PROGRAM.replace("print(launch())", "for n in range(4, 12): launch(1 << n)\nprint(len(events))")
    assert place.run(program, kiln_cache_size="150K") == "16\n"
    blocks = sum(path.stat().st_blocks for path in place.root.glob("??/*/*")) * 512
    assert 0 < blocks <= 170 << 10
    assert place.run(program, kiln_cache_size="lots", expect=1).count("expected a size such as 512M or 2G") == 1


def test_what_prints_while_it_compiles_prints_each_time(place):
    program = PROGRAM.replace("    i = kl.arange", "    kl.static_print('compiled for', BLOCK)\n    i = kl.arange", 1)
    for cached in ("False", "True"):
        assert place.run(program) == f"compiled for 32\n[{cached}, {cached}]\n"


def test_switches_that_show_or_check_stages_compile(place):
    assert place.run(PROGRAM) == "[False, False]\n"
    dump = place.folder / "dump"
    for switches in ({"kiln_dump": dump}, {"kiln_verify_each": 1}):
        assert place.run(PROGRAM, **switches) == "[False, False]\n"
    assert any("kernel" in path.name for path in dump.iterdir())


def test_a_failure_reports_its_line_wherever_the_code_is_from(place):
    program = """
    import numpy as np, kiln, kiln.language as kl
    {lines}
    @kiln.jit
    def kernel(x):
        kl.device_assert(kl.load(x) > 5, "more")
    cached = []
    kiln.hooks.compile_end.add(lambda event: cached.append(event.cached))
    try:
        kernel[(1,)](np.zeros(1, np.float32))
    except kiln.errors.DeviceAssertError as error:
        print(cached, str(error))
    """
    first = place.run(program.format(lines=""))
    assert first.startswith("[False]") and "program.py:6" in first
    assert place.run(program.format(lines="")) == first.replace("[False]", "[True]")
    assert "hit: kernel by its source" in place.run(program.format(lines=""), kiln_log="info,cache")
    assert place.run(program.format(lines="# a comment")) == first.replace("[False]", "[True]")
    moved = place.run(program.format(lines="\n    # one more"))
    assert moved.startswith("[False]") and "program.py:7" in moved


def test_hits_and_misses_are_logged_with_their_reason(place):
    first = place.run(PROGRAM, kiln_log="info,cache")
    assert "kiln.cache: miss: kernel: nothing is kept of it (index)" in first
    again = place.run(PROGRAM, kiln_log="info,cache")
    assert again.count("kiln.cache: hit: ") == 2 and "hit: kernel by its source" in again
    other = place.run(PROGRAM.replace("launch())", "launch(64))"), kiln_log="info,cache")
    assert "kiln.cache: miss: kernel: argument BLOCK: constexpr int 64, before constexpr int 32" in other
    commented = place.run(PROGRAM.replace("    kl.store(y", "    # what for\n    kl.store(y"), kiln_log="info,cache")
    assert "miss: kernel: source of kernel: " in commented and "hit: kernel by its IR" in commented


def test_many_processes_compile_one_kernel(place):
    path = place.write(PROGRAM)
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if place.run(path=path).endswith("]\n") else 1
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert place.run(path=path) == "[True, True]\n"
    assert not list((place.root / "tmp").iterdir()) and len(place.entries()) == 2


def test_a_folder_that_vanishes_while_a_program_runs(place):
    program = PROGRAM + (
        "import os, shutil\nfrom kiln.runtime import publishing\n"
        "publishing.flush()\nshutil.rmtree(os.environ['KILN_CACHE'])\nprint(launch(64))\n"
    )
    assert place.run(program).splitlines()[-1] == "[False, False, False, False]"
    assert len(place.entries()) == 2


def test_a_program_that_listens_gets_what_was_cached(place):
    program = """
    import numpy as np, kiln, kiln.language as kl
    @kiln.jit
    def kernel(x, n):
        kl.store(x, n)
    seen = []
    kiln.hooks.compile_start.add(lambda event: seen.append(("start", event.name)))
    kiln.hooks.compile_end.add(lambda event: seen.append(("end", event.cached)))
    kiln.hooks.load_end.add(lambda compiled: seen.append(("load", compiled.name)))
    kernel[(1,)](np.zeros(1, np.int32), 3)
    print(seen)
    """
    for cached in (False, True):
        assert place.run(program) == f"[('start', 'kernel'), ('load', 'kernel'), ('end', {cached})]\n"


# -- the command line -----------------------------------------------------------------------------


def kiln(place, capfd, *words):
    from kiln.cli import main

    capfd.readouterr()
    code = main(["cache", "--root", str(place.root), *words])
    out, err = capfd.readouterr()
    return code, out + err


def test_the_command_lists_checks_and_cleans(place, capfd):
    place.run(PROGRAM)
    code, text = kiln(place, capfd, "ls")
    assert code == 0 and len(text.splitlines()) == 5, "two artifacts, two index entries, a note of the front end"
    assert len(kiln(place, capfd, "ls", "other")[1].splitlines()) == 2
    code, text = kiln(place, capfd, "stat")
    assert code == 0 and f"folder      {place.root}" in text and "artifact    2 entries" in text
    assert kiln(place, capfd, "verify") == (0, "5 entries whole, 0 not\n")
    entry = place.entries()[0]
    (place.root / entry["key"][:2] / entry["key"] / "object").write_bytes(b"other")
    code, text = kiln(place, capfd, "verify")
    assert code == 1 and "object: expected" in text and "4 entries whole, 1 not and set aside" in text
    code, text = kiln(place, capfd, "gc", "--size", "0")
    assert code == 0 and text.startswith("removed 4 entries, ") and "; 0 stay" in text
    assert kiln(place, capfd, "ls") == (0, "")


def test_the_command_leaves_folders_of_others_as_they_are(place, capfd):
    """A cache that ships with a package is readable by everyone, and stays so."""
    place.run(PROGRAM)
    place.root.chmod(0o755)
    for words in (["ls"], ["stat"], ["why", "kernel"], ["verify"]):
        assert kiln(place, capfd, *words)[0] == 0
        assert place.root.stat().st_mode & 0o777 == 0o755
    entry = place.entries()[0]  # opening a store for writing makes its folder private
    assert place.root.stat().st_mode & 0o777 == 0o700
    place.root.chmod(0o755)
    (place.root / entry["key"][:2] / entry["key"] / "object").write_bytes(b"other")
    assert "4 entries whole, 1 not\n" in kiln(place, capfd, "verify")[1]
    code, text = kiln(place, capfd, "gc", "--size", "0")
    assert code == 1 and "expected a folder of mode 700" in text and "mode 755" in text
    assert place.root.stat().st_mode & 0o777 == 0o755 and not (place.root / "quarantine").exists()


def test_the_command_reports_invalid_arguments(place, capfd):
    place.run(PROGRAM)
    assert kiln(place, capfd, "gc", "--size", "12Q") == (1, "expected a size such as 512M or 2G, got '12Q'\n")
    code, text = kiln(place, capfd, "ls", "othr")
    assert code == 1 and text == "nothing is kept of a kernel 'othr'; did you mean 'other'?\n"
    file = place.write("no folder", "file")
    code, text = kiln(place, capfd, "--root", str(file), "ls")
    assert code == 1 and "to be a folder" in text


def test_a_difference_is_reported_with_its_line():
    from kiln.runtime import cache

    before, now = "def f(x):\n    return x\n", "def f(x):\n    return x * 2\n"
    fields = [[("target", "cpu", 0), ("source of f", text, 0)] for text in (now, before, now + "    pass\n")]
    assert cache.difference(fields[0], fields[1]) == "source of f: line 2, 'return x * 2', before 'return x'"
    assert cache.difference(fields[2], fields[0]) == "source of f: line 3, 'pass', before no such line"
    assert cache.difference(fields[0], [("target", "sm_90a", 0)]) == "target: cpu, before sm_90a"


def test_the_command_says_why(place, capfd):
    place.run(PROGRAM)
    assert kiln(place, capfd, "why", "kernel")[1].startswith("kernel: compiled once, ")
    place.run(PROGRAM.replace("launch())", "launch(64))"))
    assert kiln(place, capfd, "why", "kernel") == (
        0, "kernel: argument BLOCK: constexpr int 64, before constexpr int 32\n")  # fmt: skip
    place.run(PROGRAM.replace("* 3)", "* 4)").replace("x * 3", "x * 4"))
    assert kiln(place, capfd, "why", "kernel")[1].startswith("kernel: source of kernel: ")
    code, text = kiln(place, capfd, "why", "kernal")
    assert code == 1 and "did you mean 'kernel'?" in text


def test_without_a_cache_the_command_says_so(place, capfd, monkeypatch):
    from kiln.cli import main

    monkeypatch.setenv("KILN_CACHE", "0")
    assert main(["cache", "stat"]) == 1 and "KILN_CACHE is off" in capfd.readouterr().err
    assert kiln(place, capfd, "stat")[1].startswith("folder      none yet")
    assert not place.root.exists() and "kiln" in sys.modules
