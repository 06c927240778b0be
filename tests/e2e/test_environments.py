"""The commands in the environments of others: another user, no home, no locale, ASCII output, no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import crowdprism

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs users and permissions of POSIX")
NOBODY = 65534
NO_HOME = "/dev/null/home"  # nobody can make this folder, not even root
NAMES = ("zoë", "日本", "bob")
COMMANDS = (
    ("aggregate", "labels.csv", "-o", "run"),
    ("diagnose", "labels.csv"),
    ("train", "labels.csv", "-x", "features.csv", "--epochs", "1", "-o", "model", "--no-report"),
)
NO_SOCKETS = """
import socket
def refuse(*_):
    raise AssertionError("the network was used")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rows = [f"{item},{who},{'jané' if item % 2 else 'nein'}" for item in range(20) for who in NAMES]
    (tmp_path / "labels.csv").write_text("\n".join(["item,annotator,label", *rows, ""]), encoding="utf-8")
    cells = [f"{item},{item % 2},{item % 3}" for item in range(20)]
    (tmp_path / "features.csv").write_text("\n".join(["item,x,y", *cells, ""]))
    return tmp_path


def run_all(place: Path, *commands: tuple[str, ...], user: int | None = None, **changes: str) -> list[bytes]:
    """Run commands in a folder with a changed environment; each must succeed. What they print."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **changes}
    outputs = []
    for words in commands or COMMANDS:
        command = [sys.executable, "-m", "crowdprism", *words]
        done = subprocess.run(
            command, cwd=place, env=environment, user=user, group=user, capture_output=True, timeout=180, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout.decode()} {done.stderr.decode()}"
        outputs.append(done.stdout + done.stderr)
    return outputs


def readable_by_others(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents) if folder.is_dir())


def test_another_user_without_a_home_works_with_a_read_only_install(place: Path) -> None:
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        needed = (Path(crowdprism.__file__), Path(sys.executable), Path(os.path.realpath(sys.executable)))
        if not all(map(readable_by_others, needed)):
            pytest.skip("other users cannot read this installation")
        shutil.chown(place, NOBODY, NOBODY)
        for folder in place.parents:
            if folder.stat().st_mode & 0o001 == 0:
                folder.chmod(folder.stat().st_mode | 0o001)  # pytest's own folders are for their owner alone
    run_all(place, user=user, HOME=NO_HOME, XDG_CACHE_HOME=NO_HOME, TMPDIR=str(place))
    assert (place / "run" / "labels.csv").stat().st_uid == (user or os.geteuid())


def test_without_locale_and_with_ascii_output_the_same_files_are_written(place: Path) -> None:
    plain = Path(shutil.copytree(place, place / "plain"))
    run_all(plain, COMMANDS[0])
    bare = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    (printed,) = run_all(place, COMMANDS[0], **bare)
    assert "日本" in printed.decode()
    for name in ("labels.csv", "annotators.csv", "arrays.npz"):
        assert (place / "run" / name).read_bytes() == (plain / "run" / name).read_bytes()


def test_no_command_needs_the_network(place: Path) -> None:
    blocked = place / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(NO_SOCKETS)
    run_all(place, PYTHONPATH=f"{blocked}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", HOME=str(place))
