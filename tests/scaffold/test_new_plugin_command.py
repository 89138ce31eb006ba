from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from duplex_sdk.cli import main
from duplex_sdk.scaffold import Kind
from patience import PATIENCE_S

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def new_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `duplex new-plugin` in an empty folder: exit code, stdout, stderr."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["duplex", "new-plugin", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        code = end.value.code
        return (0 if code is None else int(code)), said.out, said.err

    return run


def everything_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_it_writes_the_project_and_says_what_is_next(new_plugin: Command) -> None:
    code, out, err = new_plugin("acme-voice")
    assert (code, err) == (0, "")
    files = [path for path in Path("acme-voice").rglob("*") if path.is_file()]
    assert out.splitlines() == [
        f"wrote acme-voice/ ({len(files)} files); next:",
        '  pip install -e "acme-voice[dev]"',
        "  pytest acme-voice",
        "  duplex serve --plugin acme-voice",
    ]
    assert everything_in(Path())[0] == "acme-voice"


@pytest.mark.parametrize("kind", list(Kind))
def test_the_project_has_all_its_parts_and_no_template_in_them(
    new_plugin: Command, kind: str
) -> None:
    assert new_plugin("acme-voice", "--kind", kind)[0] == 0
    project = Path("acme-voice")
    parts = {
        ".github/workflows/ci.yml",
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "src/duplex_plugin_acme_voice/__init__.py",
        "src/duplex_plugin_acme_voice/model.py",
        "src/duplex_plugin_acme_voice/py.typed",
        "tests/test_conformance.py",
        "tests/test_conversation.py",
    }
    assert parts <= set(everything_in(project))
    for path in project.rglob("*"):
        assert "{" not in path.name
        assert not path.name.endswith(".jinja")
        if path.is_file() and path.name != "ci.yml":
            assert "{{" not in path.read_text(encoding="utf-8")
            assert "{%" not in path.read_text(encoding="utf-8")
    # A workflow has signs of its own that look like ours.
    assert "${{ matrix.python }}" in (project / ".github/workflows/ci.yml").read_text()


def test_a_dry_run_shows_the_tree_and_writes_nothing(new_plugin: Command) -> None:
    code, out, err = new_plugin("acme-voice", "--dry-run")
    assert (code, err) == (0, "")
    assert everything_in(Path()) == []
    lines = out.splitlines()
    assert lines[0] == "acme-voice/"
    shown = []
    folders: list[str] = []
    for line in lines[1:]:
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth - 1 :] = [line.strip().rstrip("/")]
        if not line.endswith("/"):
            shown.append("/".join(folders))
    new_plugin("acme-voice")
    written = [path for path in Path("acme-voice").rglob("*") if path.is_file()]
    assert sorted(shown) == sorted(p.relative_to("acme-voice").as_posix() for p in written)


@pytest.mark.parametrize(
    "name", ["Foo Bar", "1st", "class", "json", "duplex-sdk", "../x", "é", "", "x" * 200]
)
def test_b18_a_bad_name_is_wrong_usage_in_one_sentence_and_writes_nothing(
    new_plugin: Command, name: str
) -> None:
    code, out, err = new_plugin(name)
    assert code == 2
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("hint: ")
    assert everything_in(Path().resolve().parent) == ["here"]


def test_an_unknown_kind_is_wrong_usage(new_plugin: Command) -> None:
    code, _, err = new_plugin("acme-voice", "--kind", "nothing")
    assert code == 2
    assert "minimal" in err
    assert everything_in(Path()) == []


def test_the_name_of_an_installed_plugin_is_refused(new_plugin: Command) -> None:
    code, _, err = new_plugin("scripted")
    assert code == 1
    assert err.startswith("error: a plugin called 'scripted' is installed already, by duplex-sdk")
    assert everything_in(Path()) == []


def test_b18_a_folder_that_is_there_is_left_as_it_was(new_plugin: Command) -> None:
    Path("acme-voice").mkdir()
    Path("acme-voice/README.md").write_text("mine")
    code, _, err = new_plugin("acme-voice")
    assert code == 1
    assert "error: acme-voice is already there" in err
    assert everything_in(Path()) == ["acme-voice", "acme-voice/README.md"]
    assert Path("acme-voice/README.md").read_text() == "mine"


def test_b18_where_one_may_not_write_it_says_so_in_one_sentence(
    new_plugin: Command, locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(locked)
    code, out, err = new_plugin("acme-voice")
    assert code == 1
    assert out == ""
    first, second = err.splitlines()
    assert first == f"error: cannot write the folder acme-voice in {locked}: Permission denied"
    assert second.startswith("hint: ")
    assert everything_in(locked) == []


def test_it_imports_no_package_of_others() -> None:
    code = (
        "import sys; sys.argv = ['duplex', 'new-plugin', 'x-y', '--dry-run']\n"
        "from duplex_sdk.cli import main\n"
        "try: main()\n"
        "except SystemExit: print('|', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    loaded = set(done.stdout.partition("|")[2].split())
    assert "jinja2" in loaded
    assert not loaded & {"duplex_server", "duplex_plugin_local", "pluggy", "numpy"}


def test_its_help_tells_the_kinds(new_plugin: Command) -> None:
    code, out, _ = new_plugin("--help")
    assert code == 0
    assert all(kind in out for kind in Kind)
    assert "--dry-run" in out
