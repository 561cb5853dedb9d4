"""What all tests share: marks by folder, the command line in this process, ledgers, tables, one release."""

from __future__ import annotations

import gc
import json
import os
import shlex

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# before numpy is loaded: the products here are small, and on a busy machine its threads wait for each other,
# which took three times the CPU of a release

import shutil
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import typer
from hypothesis import settings
from support import commands
from support.commands import DOMAIN, Fmwem, Run, as_before, write_table
from support.fakes import FakeNoise
from support.forked import programs
from support.places import Place
from support.postgres import Server, started
from support.releases import run
from support.tables import SMALL, small_table

from factored_mwem import Domain, Policy, Release
from factored_mwem.accounting.cap import Cap
from factored_mwem.accounting.unit import Neighbours
from factored_mwem.cli import main as cli
from factored_mwem.files import crashpoints as faults
from factored_mwem.kernels.warmup import warm_up
from factored_mwem.ledger import file as ledger_file
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.opening import create_ledger, open_ledger
from factored_mwem.mechanisms import course
from factored_mwem.pipeline import spending
from factored_mwem.privacy.noise import OpenDPNoise

HERE = Path(__file__).parent
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    # ledgers wait for the disk at every entry, which a tenth of the suite's time went into; it writes 100 MB
settings.register_profile("same", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("same")  # what fails here fails everywhere; scripts/fuzz looks for new examples


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Kernels are on disk before any worker asks for them: a first run says that it compiles."""
    if not hasattr(session.config, "workerinput"):
        warm_up()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[Any]:
    """What is collected is there to the end: to look through it again and again took a fifth of collecting
    it, and some of every test.
    """
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


@pytest.hookimpl
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The default suite does not import what it would deselect: Spark, Ibis and catalogs take seconds."""
    default = config.option.markexpr == "not slow and not system"
    return True if default and collection_path in (HERE / "slow", HERE / "system") else None


LONGEST = ("test_audit", "test_replay", "test_spark", "test_guide", "test_crash", "test_fuzz", "test_certify")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below slow/ and system/ carries the folder's name as its mark. What takes minutes begins
    first: no worker ends alone.
    """
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    for item in items:
        folder = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
        if folder in ("slow", "system"):
            item.add_marker(folder)


@pytest.fixture(autouse=True)
def own_numbers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's `RNG` starts anew for each test: which tests a worker ran before changes nothing."""
    if hasattr(request.module, "RNG"):
        seed = zlib.crc32(request.node.nodeid.encode())
        monkeypatch.setattr(request.module, "RNG", np.random.default_rng(seed))


@pytest.fixture(scope="session", autouse=True)
def one_day() -> Iterator[None]:
    """Records bear the day they are made, and midnight may come between two that a test compares."""
    with pytest.MonkeyPatch.context() as patch:
        day = spending.today()
        patch.setattr(spending, "today", lambda: day)
        yield


# ---- tables


@pytest.fixture(scope="session")
def people() -> pa.Table:
    """A table of 3000 people: a number, a text, a truth value and a measurement."""
    return small_table()


@pytest.fixture(scope="session")
def people_domain() -> Domain:
    return SMALL


@pytest.fixture(scope="session")
def made(people: pa.Table, people_domain: Domain) -> Release:
    """One release of the people, made once, without noise."""
    return run(people, Policy.of(epsilon=1.0), FakeNoise(), domain=people_domain)


# ---- the command line


@pytest.fixture(scope="session")
def parser() -> Any:
    """The parser of the command line, which typer makes anew at every call, as a process makes one."""
    return typer.main.get_command(cli.app)


@pytest.fixture
def fmwem(
    parser: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Fmwem]:
    """The command line in this process: `line` as a shell takes it, and more words as they are."""

    def run(line: Any = "", *more: Any, **environment: str) -> Run:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["fmwem", *shlex.split(line), *map(str, more)])
            patch.setattr(cli, "app", parser)
            for name, value in environment.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Run(ended.value.code, out, err)

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def forked() -> Iterator[Path]:
    """Where a `fmwem` is that is a process of its own, but need not load what it runs."""
    with programs() as folder:
        yield folder


@pytest.fixture
def forked_commands(forked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fmwem` in the shell, and what `program` names, are such processes."""
    monkeypatch.setenv("PATH", f"{forked}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(commands, "FMWEM", forked / "fmwem")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a table `t.csv` and its domain beside it."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FMWEM_")]:
        monkeypatch.delenv(name)
    write_table(tmp_path / "t.csv")
    (tmp_path / "t.domain.json").write_text(json.dumps(DOMAIN))
    return tmp_path


# ---- ledgers, and how one measures


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where folders are kept that are made once and copied for every test."""
    return tmp_path_factory.mktemp("templates")


@pytest.fixture(scope="session", autouse=True)
def locks_tried_once() -> Iterator[None]:
    """A new ledger tries a lock against another process, which says the same in every folder of a disk."""
    honest, found = ledger_file.kept_out, dict[tuple[int, str], bool]()

    def tried(tries: str, path: Any) -> bool:
        disk = os.stat(path).st_dev
        if (disk, tries) not in found:
            found[disk, tries] = honest(tries, path)
        return found[disk, tries]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_file, "kept_out", tried)
        yield


@pytest.fixture
def command_books(here: Path, templates: Path, fmwem: Fmwem) -> Path:
    """A ledger made by commands, with dataset `adult`."""

    def make() -> None:
        cap = ("--dataset", "adult", "--epsilon", 1, "--delta", "1e-9")
        assert fmwem("ledger", "init", "books").code == 0
        assert fmwem("ledger", "add", "books", *cap).code == 0

    as_before(here, templates / "books", make)
    return here / "books"


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Path]:
    """A ledger with dataset `t`."""
    file = LedgerFile.create(tmp_path / "books")
    file.add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    yield file.path
    faults.hook = lambda _: None


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL, where one is installed."""
    made = started()
    yield made
    made.remove()


@pytest.fixture(
    params=["file", *(pytest.param(kind, marks=pytest.mark.system) for kind in ("database", "folder"))]
)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where there is an empty ledger: a file; a database; a database whose journals are in a folder."""
    if request.param == "file":
        place = Place(tmp_path / "books")
    else:
        server = request.getfixturevalue("server")
        folder = tmp_path / "journals" if request.param == "folder" else None
        place = Place(server.fresh(), server, folder)
    if place.server is not None and place.folder is not None:
        place.folder.mkdir()
    create_ledger(str(place), place.folder if place.server is not None else None)
    yield place
    faults.hook = lambda _: None


@pytest.fixture
def anywhere(new_place: Place) -> Place:
    """A ledger of each kind with dataset `t`, as the file `books` has it."""
    open_ledger(str(new_place)).add("t", Cap.of(1.0, 1e-9), Neighbours.ADD_REMOVE, 1)
    return new_place


@pytest.fixture
def in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small domains are measured in rounds, too, as larger ones are."""
    monkeypatch.setattr(course, "one_shot_suits", lambda *_: False)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the noise, where a test is of what is learnt: at its own scale noise alone adds something
    to one domain in tens of thousands, for what stands out does so by about five deviations.
    """

    def quarter(honest: Any) -> Any:
        return lambda *given, scale, **more: honest(*given, scale=scale / 4, **more)

    for name in ("add", "select", "threshold"):
        monkeypatch.setattr(OpenDPNoise, name, quarter(getattr(OpenDPNoise, name)))


@pytest.fixture
def without_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small tables each column follows from each: here they are all modelled."""
    for name, none in {"relations_in": [], "orders_in": [], "maps_in": ([], [])}.items():
        monkeypatch.setattr(f"factored_mwem.mechanisms.learn.{name}", lambda *_, none=none: none)
