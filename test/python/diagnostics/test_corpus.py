"""Every wrong program of `corpus/` gives exactly the message stored with it, and every message follows the rules.

`corpus/TOPIC/NAME.py` is a program with one mistake, `NAME.txt` the message for its author. UPDATE_GOLDEN=1 in the
environment rewrites the messages that changed; read each of them.
"""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import kiln
import pytest
from kiln.errors import InternalError, KilnError

CORPUS = Path(__file__).parent / "corpus"
PROGRAMS = sorted(CORPUS.glob("*/*.py"))
UPDATE = os.environ.get("UPDATE_GOLDEN", "") not in ("", "0")


def name_of(path: Path) -> str:
    return path.relative_to(CORPUS).with_suffix("").as_posix()


def message_of(path: Path) -> str:
    """The message that the program raises, with paths shortened to file names and addresses masked."""
    # One worker, so that the first program instance to fail is always the same.
    with kiln.knobs.scope(num_threads=1):
        try:
            runpy.run_path(str(path), run_name="wrong_program")
        except KilnError as error:
            text = str(error)
            assert not isinstance(error, InternalError), text
        else:
            pytest.fail(f"{name_of(path)} raised nothing")
    text = text.replace(f"{path.parent}{os.sep}", "")
    # With a GPU the message ends here; otherwise it adds what the loader said about the driver's library.
    text = re.sub(r": no CUDA driver: [^\n]*", "", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text) + "\n"


@pytest.mark.parametrize("path", PROGRAMS, ids=name_of)
def test_message(path: Path) -> None:
    golden = path.with_suffix(".txt")
    message = message_of(path)
    if UPDATE and (not golden.exists() or golden.read_text(encoding="utf-8") != message):
        golden.write_text(message, encoding="utf-8")
    assert golden.exists(), f"no message beside the program, which raised:\n{message}"
    assert message == golden.read_text(encoding="utf-8")


def test_every_program_has_a_message_and_every_message_a_program() -> None:
    assert len(PROGRAMS) >= 300
    programs, messages = ({name_of(p) for p in CORPUS.rglob(f"*.{kind}")} for kind in ("py", "txt"))
    assert programs == messages


# Words that only compiler developers know or should see.
INSIDES = re.compile(
    r"Traceback|/|site-packages|File \"|::|\bstd\b|\bmlir\b|\bllvm\b|\bpybind|tensor<|!tile|#tile|#kiln"
    r"|\b(arith|scf|tile|func|math_ops|ub)\.[a-z_]+\b(?!\()|constexpr\[|<(function|class|module|lambda)|object at"
    r"|\bhandle\b|_kiln|NoneType|BoundLauncher|kiln\.(frontend|runtime|errors)|semantic|visit_|\bSSA\b|\bnan0\b",
)
# The parts of a message that quote the program.
EXCERPT = re.compile(r"^ *\d+ \| |^ +\| ")
START = re.compile(r"^(?P<file>[\w.]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>[a-z ]+?): (?P<sentence>.+)$", re.DOTALL)
KINDS = ("error", "note", "assertion failed", "access out of bounds", "race between program instances")


def messages() -> list[tuple[Path, list[str]]]:
    return [(p, p.with_suffix(".txt").read_text(encoding="utf-8").splitlines()) for p in PROGRAMS]


def test_no_message_shows_the_compilers_insides() -> None:
    for path, lines in messages():
        for line in lines:
            # Operators and the program's own text may contain a slash.
            said = line.replace(" // ", " ").replace(" / ", " ").replace("with //", "")
            said = re.sub(r"if / elif|\(x / y\)|operator /|of //", "", said)
            if not EXCERPT.match(line):
                assert not INSIDES.search(said), f"{name_of(path)}: {line}"


def test_every_message_says_where_and_shows_it() -> None:
    for path, lines in messages():
        where = START.match(lines[0])
        assert where and where["kind"] in KINDS[:1] + KINDS[2:], f"{name_of(path)}: {lines[0]}"
        assert where["file"] == path.name and "^" in lines[2], name_of(path)
        source = path.read_text(encoding="utf-8").splitlines()
        for above, line, below in zip(lines, lines[1:], lines[2:], strict=False):
            shown = re.match(r"^ *(\d+) \| (.*)$", line)
            if shown is None:
                continue
            number, text = int(shown[1]), shown[2]
            assert source[number - 1] == text, name_of(path)
            carets = re.fullmatch(r" +\| ([\t ]*)(\^~*)", below)
            assert carets, f"{name_of(path)}: no carets below {line!r}"
            start, width = len(carets[1]), len(carets[2])
            marked = text[start : start + width]
            assert marked and marked == marked.strip(), f"{name_of(path)}: the carets are below {marked!r}"
            place = re.match(r"^([\w.]+):(\d+):(\d+): ", above)
            if place:
                assert (place[1], int(place[2]), int(place[3])) == (path.name, number, start + 1), name_of(path)


def test_every_message_is_written_in_the_house_style() -> None:
    for path, lines in messages():
        source = path.read_text(encoding="utf-8")
        for line in lines:
            where = START.match(line)
            hint = line.removeprefix("hint: ") if line.startswith("hint: ") else None
            sentence = where["sentence"] if where else hint
            if sentence is None or "assertion failed" in line:
                continue  # an excerpt, a detail, or the program's own words
            sentence = re.sub(r"^(launch of \w+: )?(argument '\w+': |grid .*?: )?", "", sentence)
            first = re.split(r"[^\w`']", sentence)[0]
            assert first[:1].islower() or not first[:1].isalpha() or first in source, f"{name_of(path)}: {line}"
            assert not sentence.rstrip().endswith((".", "!")) or sentence.endswith("..."), f"{name_of(path)}: {line}"
            if sentence.startswith("expected"):
                assert re.search(r", got |: ", sentence), f"{name_of(path)}: says what was expected, not what there is"
        assert sum(line.startswith("hint: ") for line in lines) <= 1, name_of(path)


def test_what_messages_advise_exists() -> None:
    import kiln.language as kl

    for path, lines in messages():
        for line in lines:
            if EXCERPT.match(line) or " has no attribute " in line:
                continue
            for module, name in re.findall(r"\b(kl|kiln)\.([A-Za-z]\w*)", line):
                assert hasattr({"kl": kl, "kiln": kiln}[module], name), f"{name_of(path)}: {line}"


def test_a_launch_names_the_kernel_and_its_argument() -> None:
    for path, lines in messages():
        # Errors about an expression in the kernel itself do not name the launch.
        if path.parent.name == "launch" and "launch of" not in lines[0]:
            inside = "kl." in lines[1] or "tensor descriptor: " in lines[0]
            assert inside, f"{name_of(path)}: {lines[0]}"
