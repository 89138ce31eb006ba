from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from duplex_sdk.scaffold import (
    Kind,
    ProjectName,
    ProjectWriteError,
    render_project,
    write_project,
)

FILES = {PurePosixPath("a.txt"): b"a", PurePosixPath("deep/er/b.txt"): b"b"}


class InterruptedFiles(dict[PurePosixPath, bytes]):
    """The user presses Ctrl-C when one of two files is written."""

    def items(self) -> Iterator[tuple[PurePosixPath, bytes]]:  # type: ignore[override]
        yield PurePosixPath("a.txt"), b"a"
        raise KeyboardInterrupt


def test_all_files_are_written_as_they_are(tmp_path: Path) -> None:
    write_project(FILES, tmp_path / "new")
    assert (tmp_path / "new/a.txt").read_bytes() == b"a"
    assert (tmp_path / "new/deep/er/b.txt").read_bytes() == b"b"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_others_may_look_into_the_folder_as_into_any_other(tmp_path: Path) -> None:
    write_project(FILES, tmp_path / "new")
    (tmp_path / "usual").mkdir()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("there", ["full", "empty", "file", "link", "dead link"])
def test_nothing_that_exists_is_touched(tmp_path: Path, there: str) -> None:
    folder, elsewhere = tmp_path / "new", tmp_path / "elsewhere"
    elsewhere.mkdir()
    match there:
        case "full":
            folder.mkdir()
            (folder / "a.txt").write_text("mine")
        case "empty":
            folder.mkdir()
        case "file":
            folder.write_text("mine")
        case "link":
            folder.symlink_to(elsewhere)
        case _:
            folder.symlink_to(tmp_path / "nowhere")
    before = {path: path.lstat() for path in tmp_path.rglob("*")}
    with pytest.raises(ProjectWriteError, match="already there"):
        write_project(FILES, folder)
    after = {path: path.lstat() for path in tmp_path.rglob("*")}
    assert after.keys() == before.keys()
    assert [s.st_mtime_ns for s in after.values()] == [s.st_mtime_ns for s in before.values()]


def test_an_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_project(InterruptedFiles(), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    collide = {PurePosixPath("a"): b"file", PurePosixPath("a/b"): b"in a file"}
    with pytest.raises(ProjectWriteError, match="cannot write the folder new"):
        write_project(collide, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    class Meanwhile(dict[PurePosixPath, bytes]):
        def items(self) -> Iterator[tuple[PurePosixPath, bytes]]:  # type: ignore[override]
            (tmp_path / "new").mkdir()
            (tmp_path / "new/theirs.txt").write_text("theirs")
            yield PurePosixPath("a.txt"), b"a"

    with pytest.raises(ProjectWriteError):
        write_project(Meanwhile(), tmp_path / "new")
    assert [p.name for p in tmp_path.rglob("*")] == ["new", "theirs.txt"]


def test_without_permission_nothing_is_left_behind(locked: Path) -> None:
    with pytest.raises(ProjectWriteError, match="Permission denied"):
        write_project(FILES, locked / "new")
    assert os.listdir(locked) == []


@pytest.mark.parametrize("kind", list(Kind))
def test_rendering_twice_gives_the_same_files(kind: Kind) -> None:
    first = render_project(ProjectName("foo-bar"), kind)
    assert first == render_project(ProjectName("foo-bar"), kind)
    assert list(first) == sorted(first)
    assert not any(path.is_absolute() or ".." in path.parts for path in first)
