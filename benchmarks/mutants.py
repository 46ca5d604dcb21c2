"""How many small faults the tests notice: ``python -m benchmarks.mutants``.

A mutant is the package with one operator, number, condition or decorator changed by cosmic-ray.
For each of a seeded sample of them the tests of the folder that mirrors its package are run, those
named like its module first, until one fails: then the mutant is killed.

This differs from what ``cosmic-ray exec`` does in:

1. the sample has at most one change of a kind in a line, and an operator is exchanged for its
   nearest relatives only (``+`` for ``-``, ``<`` for ``<=`` or ``>``), for the far ones are noticed
   by anything;
2. annotations are left alone: they are not evaluated;
3. no file is written. Each mutant is a fork of one process that has imported torch and the like but
   not vinets, and gets the changed source from an import hook, so a mutant costs its tests and
   nothing else, and the working tree may be edited meanwhile.

A mutant is known by the text of its line and not by its number. A run that was stopped goes on; one
after an edit tries what is new. Results of several calls are merged into one file.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from types import CodeType, ModuleType

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "vinets"
RESULT = Path(__file__).parent / "results" / "mutants.json"
JUDGED = Path(__file__).parent / "mutants_judged.json"
PACKAGES = ("algebra", "oracles", "ideals", "heads")
IMPORTED = (  # by the parent, once for all; vinets must not be among them
    *("torch", "numpy", "scipy.linalg", "sklearn.base", "sklearn.utils.validation", "joblib"),
    *("safetensors.torch", "hypothesis", "sympy", "cvxpy", "pytest"),
)
MEMORY = 12 << 30  # of address space: a mutant may ask for any amount

RELATIVES = {
    "Binary": "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_FloorDiv Pow_Mul RShift_LShift "
    "LShift_RShift BitOr_BitAnd BitAnd_BitOr BitXor_BitOr",
    "Comparison": "Eq_NotEq NotEq_Eq Lt_LtE Lt_Gt LtE_Lt LtE_GtE Gt_GtE Gt_Lt GtE_Gt GtE_LtE "
    "Is_IsNot IsNot_Is",
    "Unary": "USub_UAdd Delete_Invert Delete_Not",
}
OTHERS = (
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr"),
    *("ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("ExceptionReplacer", "NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop"),
)


@dataclass(frozen=True)
class Mutant:
    """One change to one module; ``name`` does not depend on what stands above it."""

    name: str
    file: str
    line: int
    operator: str
    occurrence: int
    before: str
    after: str


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: "killed", "survived" or "timed out"."""

    mutant: Mutant
    outcome: str
    seconds: float


# --- which mutants --------------------------------------------------------------------------------


def operators() -> dict[str, Operator]:
    """The changes that are tried, by name."""
    wanted = {f"Replace{kind}Operator_{p}" for kind in RELATIVES for p in RELATIVES[kind].split()}
    names = [n for n in operator_names() if n.partition("/")[2] in wanted.union(OTHERS)]
    return {name.partition("/")[2]: get_operator(name)() for name in names}


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a module that differ from it in what Python runs."""
    source = path.read_text()
    lines, tree, plain = source.splitlines(), get_ast(source), _meaning(source)
    seen: Counter[tuple[str, ...]] = Counter()
    for name, operator in operators().items():
        places = (p for node in ast_nodes(tree) for p in operator.mutation_positions(node))
        for occurrence, ((row, _), _) in enumerate(places):
            mutated = mutate_code(source, operator, occurrence)
            if mutated is None or _meaning(mutated) in (None, plain):
                continue
            before, after = _difference(lines, mutated.splitlines(), row)
            file = path.relative_to(ROOT).as_posix()
            identity = (file, name, before, after)
            seen[identity] += 1
            key = hashlib.sha1(repr((*identity, seen[identity])).encode()).hexdigest()[:10]
            yield Mutant(key, file, row, name, occurrence, before, after)


def sample(package: str, count: int, seed: int) -> list[Mutant]:
    """The ``count`` mutants of the smallest hashes, at most one of a kind in a line.

    Drawing by hash leaves the rest of the sample as it is when a line of the source changes.
    """

    def rank(text: str) -> str:
        return hashlib.sha1(f"{seed}:{text}".encode()).hexdigest()

    chosen: dict[tuple[str, int, str], Mutant] = {}
    for path in sorted((SOURCE / package).rglob("*.py")):
        for mutant in mutants_of(path):
            place = (mutant.file, mutant.line, mutant.operator.partition("_")[0])
            known = chosen.get(place)
            if known is None or rank(mutant.name) < rank(known.name):
                chosen[place] = mutant
    return sorted(chosen.values(), key=lambda m: rank(m.name))[:count]


def _meaning(source: str) -> str | None:
    """The syntax tree without annotations and without the kinds of parameters; None if invalid."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.posonlyargs, node.kwonlyargs = [], []
            node.defaults = [*node.defaults, *(d for d in node.kw_defaults if d is not None)]
            node.kw_defaults = []
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def _difference(lines: Sequence[str], mutated: Sequence[str], row: int) -> tuple[str, str]:
    """The changed line before and after; a decorator that is removed leaves nothing."""
    before = lines[row - 1].strip()
    if len(mutated) != len(lines):
        return before, ""
    pairs = zip(lines, mutated, strict=True)
    return next(((old.strip(), new.strip()) for old, new in pairs if old != new), (before, before))


# --- one mutant -----------------------------------------------------------------------------------


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module, and compiles another source for it."""

    def __init__(self, path: Path, source: str) -> None:
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        super().__init__(name, str(path))
        self.source = source

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        folder = [str(Path(self.path).parent)] if Path(self.path).name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=folder
        )

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec")


def tests_for(file: str) -> list[str]:
    """Tests of a module: those of its name, those of its folder that import it, the others."""
    module = Path(file).relative_to("src/vinets").with_suffix("")
    package = ROOT / "tests" / module.parts[0]
    dotted = "vinets." + ".".join(module.parts)

    def distance(path: Path) -> tuple[bool, bool, str]:
        mirror = path.relative_to(ROOT / "tests") == module.parent / f"test_{module.name}.py"
        return not mirror, dotted not in path.read_text(), str(path)

    found = sorted(package.rglob("test_*.py"), key=distance)
    return [str(path.relative_to(ROOT)) for path in found] + [file]  # last its doctests


def run_tests(file: str, source: str | None, limit: float, log: Path) -> tuple[int | None, float]:
    """Exit code (None: too long) of the tests of ``file``, with ``source`` instead of it."""
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()  # so that what the tests start ends with them
        _be_the_mutant(file, source, log)
    code: int | None = None
    while code is None and time.monotonic() - begin < limit:
        time.sleep(0.02)
        done, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also the workers that the tests have left behind
    if code is None:
        os.waitpid(child, 0)
    return code, time.monotonic() - begin


def _be_the_mutant(file: str, source: str | None, log: Path) -> None:
    """Run the tests in this process, and leave it."""
    import resource

    import hypothesis
    import pytest

    code = 99
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        # the first counterexample is enough, and every run tries the same ones
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutants", phases=phases, derandomize=True, database=None, deadline=None
        )
        hypothesis.settings.load_profile("mutants")
        if source is not None:
            sys.meta_path.insert(0, _Changed(ROOT / file, source))
        options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not slow"]
        options.append("--assert=plain")  # else pytest itself loads the file of the doctests
        code = int(pytest.main([*options, *tests_for(file)]))
    finally:
        os._exit(code)


# --- the run --------------------------------------------------------------------------------------


def judge(mutant: Mutant, limit: float, log: Path) -> Verdict:
    """Try one mutant."""
    text = (ROOT / mutant.file).read_text()
    source = mutate_code(text, operators()[mutant.operator], mutant.occurrence)
    code, seconds = run_tests(mutant.file, source, limit, log)
    outcome = "timed out" if code is None else "survived" if code == 0 else "killed"
    return Verdict(mutant, outcome, round(seconds, 1))


def known_verdicts() -> dict[str, Verdict]:
    """What earlier calls found, by the names of the mutants."""
    if not RESULT.exists():
        return {}
    rows = json.loads(RESULT.read_text())["each"]
    facts = [{key: row[key] for key in Mutant.__dataclass_fields__} for row in rows]
    return {
        row["name"]: Verdict(Mutant(**fact), row["outcome"], row["seconds"])
        for row, fact in zip(rows, facts, strict=True)
    }


def judged() -> dict[str, dict[str, str]]:
    """Survivors that somebody has looked at: their kind, and why no test tells them.

    "same": nothing that the program returns can differ. "tie": it differs where two numbers agree
    to the last bits. "cost": time or memory differ, results do not beyond rounding. "look": a
    picture shows the same in another style.
    """
    return json.loads(JUDGED.read_text()) if JUDGED.exists() else {}


def keep(verdicts: Sequence[Verdict], seed: int, count: int) -> dict[str, object]:
    """Write everything found so far, and return its summary."""
    known, tally = judged(), Counter(v.outcome for v in verdicts)
    kinds = Counter(
        known.get(v.mutant.name, {"kind": "open"})["kind"]
        for v in verdicts
        if v.outcome == "survived"
    )
    noticed = tally["killed"] + tally["timed out"]
    modules = sorted({v.mutant.file for v in verdicts})
    summary: dict[str, object] = {
        "tool": f"cosmic-ray {version('cosmic-ray')}, driven by benchmarks/mutants.py",
        "python": platform.python_version(),
        "torch": version("torch"),
        "command": f"python -m benchmarks.mutants --count {count} --seed {seed}",
        "seed": seed,
        "mutants": len(verdicts),
        "killed": tally["killed"],
        "timed out": tally["timed out"],
        "survived": tally["survived"],
        "survivors by kind": dict(sorted(kinds.items())),
        "share noticed": round(noticed / max(1, len(verdicts)), 4),
        "share noticed of those that are not the same": round(
            noticed / max(1, len(verdicts) - kinds["same"]), 4
        ),
        "modules": {
            module: dict(Counter(v.outcome for v in verdicts if v.mutant.file == module))
            for module in modules
        },
    }
    rows = [
        {**asdict(v.mutant), "outcome": v.outcome, "seconds": v.seconds}
        | (known.get(v.mutant.name, {}) if v.outcome == "survived" else {})
        for v in sorted(
            verdicts, key=lambda v: (v.outcome == "killed", v.mutant.file, v.mutant.line)
        )
    ]
    fresh = RESULT.with_suffix(".tmp")
    fresh.write_text(json.dumps(summary | {"each": rows}, indent=1) + "\n")
    fresh.replace(RESULT)  # a run that is stopped here leaves the earlier file
    return summary


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, try, merge, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="folders of src/vinets")
    parser.add_argument("--count", type=int, default=76, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again", action="store_true", help="try survivors again, but for those judged"
    )
    options = parser.parse_args(arguments)

    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path.insert(0, str(SOURCE.parent))
    os.chdir(ROOT)
    for module in IMPORTED:
        importlib.import_module(module)
    assert "vinets" not in sys.modules, "the mutants would all be the same module"

    log = ROOT / "out" / "mutant.log"
    log.parent.mkdir(exist_ok=True)
    verdicts = known_verdicts()
    for package in options.packages:
        chosen = sample(package, options.count, options.seed)
        settled = {m.name for m in chosen}
        if options.again:
            open_ = {name for name, v in verdicts.items() if v.outcome != "killed"}
            settled -= open_.difference(judged())
        verdicts = {
            name: v
            for name, v in verdicts.items()
            if v.mutant.file.split("/")[2] != package or name in settled
        }
        code, seconds = run_tests(chosen[0].file, None, 900, log)
        if code != 0:
            sys.exit(f"The tests of {package} fail without a mutant; {log} has the reason.")
        limit = 30 + 4 * seconds
        print(f"{package}: {len(chosen)} mutants, {seconds:.0f} s without one", flush=True)
        for mutant in chosen:
            if mutant.name not in verdicts:
                verdict = judge(mutant, limit, log)
                verdicts[mutant.name] = verdict
                summary = keep(list(verdicts.values()), options.seed, options.count)
                if verdict.outcome != "killed":
                    place = f"{mutant.name} {mutant.file}:{mutant.line}"
                    print(f"{verdict.outcome}  {place}\n    {mutant.before}\n -> {mutant.after}")
                print(f"{len(verdicts)} {verdict.seconds} s", flush=True)
    summary = keep(list(verdicts.values()), options.seed, options.count)
    print(json.dumps({k: v for k, v in summary.items() if k != "modules"}, indent=1))


if __name__ == "__main__":
    main()
