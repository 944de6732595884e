"""`rlcore new plugin`: what it writes works at once, for every kind; a bad name is refused with a better one."""

import ast
import shlex
import tomllib

import pytest

from rlcore.cli import main
from rlcore.cli.new import names_of, write_plugin
from rlcore.errors import ConfigError
from rlcore.kinds import KINDS
from tests.strangers import installed


def plugin(kind, parent):
    """Write the package of a kind under a name that no other kind has; return its folder."""
    names = names_of(f"rlcore-own-{kind.replace('_', '-')}", kind)
    write_plugin(names, [kind], parent)
    return parent / names.distribution


def test_the_tests_of_a_new_package_of_every_kind_pass(tmp_path):
    folders = [plugin(kind, tmp_path) for kind in KINDS]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", str(tmp_path / "pytest.ini")]
    with installed(*folders):
        assert pytest.main([*options, *(str(folder / "tests") for folder in folders)]) == 0


def test_the_tests_of_a_new_package_of_several_kinds_pass(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    kinds = [kind for kind in KINDS if kind != "weight_transfer"]  # that one comes with the sampler
    assert main(["new", "plugin", "rlcore-all-of-it", "--kind", kinds[0], "--kind", ",".join(kinds[1:])]) == 0
    shown, folder = capsys.readouterr().out, tmp_path / "rlcore-all-of-it"
    for use in ("loss=all_of_it steps=2", "reward=all_of_it steps=2"):
        assert f"  rlcore train {use}\n" in shown
        assert f"rlcore train {use}\n" in (folder / "README.md").read_text()
    assert len(list((folder / "tests").iterdir())) == len(kinds)
    with installed(folder):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", str(tmp_path / "pytest.ini")]
        assert pytest.main([*options, str(folder / "tests")]) == 0
    assert not any("$" in path.read_text() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


def test_a_weight_transfer_beside_the_one_that_comes_with_a_sampler_is_refused():
    with pytest.raises(ConfigError, match=r"has its weight transfer already.* Type: .* rlcore-my-mine --kind sampler$"):
        names_of("rlcore-mine", "sampler", "weight_transfer")


def test_underscores_in_a_name_are_answered_with_the_name_that_pip_will_use(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, says in (("rlcore_brief", True), ("rlcore-brevity", False)):
        assert main(["new", "plugin", name, "--kind", "reward"]) == 0
        assert ("pip and the folder call it rlcore-brief" in capsys.readouterr().out) is says
    assert (tmp_path / "rlcore-brief/rlcore_brief/__init__.py").is_file()


def test_help_speaks_of_values_only_where_a_command_takes_them(capsys):
    for command, takes in (("train", True), ("check", True), ("new", False), ("plugins", False), ("diff", False)):
        main([command, "--help"])
        assert ("key=value" in capsys.readouterr().out) is takes, command


def test_what_it_says_to_type_next_is_what_a_user_can_type(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "plugin", "rlcore-brief", "--kind", "reward"]) == 0
    shown = capsys.readouterr().out
    assert "wrote 5 files" in shown
    assert "rlcore-brief/rlcore_brief/__init__.py" in shown
    assert "cd rlcore-brief" in shown
    assert 'pip install -e ".[test]" && pytest' in shown
    assert "rlcore train reward=brief steps=2" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_every_package_has_its_entry_point_and_nothing_left_to_fill_in(kind, tmp_path):
    folder = plugin(kind, tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    name = f"rlcore_own_{kind}"
    assert project["entry-points"]["rlcore"] == {name: name}
    assert project["dependencies"] == ["rlcore"]
    for path in folder.rglob("*"):
        if path.is_file():
            assert "$" not in path.read_text(), path
        if path.suffix == ".py":
            assert ast.get_docstring(ast.parse(path.read_text())) or path.parent.name == "tests"


@pytest.mark.parametrize(
    ("name", "kind", "found", "typed"),
    [
        ("Brief Reward", "reward", "cannot be the name", "rlcore new plugin rlcore-brief-reward --kind reward"),
        ("3d", "reward", "cannot be the name", "rlcore new plugin rlcore-my-3d --kind reward"),
        ("../up", "reward", "cannot be the name", "rlcore new plugin rlcore-my-up --kind reward"),
        ("lambda", "loss", "word of the Python language", "rlcore new plugin rlcore-my-lambda --kind loss"),
        ("json", "loss", "can be imported already", "rlcore new plugin rlcore-my-json --kind loss"),
        ("rlcore", "loss", "can be imported already", "rlcore new plugin rlcore-my-package --kind loss"),
        ("rlcore-gae", "advantage", "already an advantage called 'gae'", "rlcore-my-gae --kind advantage"),
    ],
)
def test_a_bad_name_is_refused_with_what_to_type(name, kind, found, typed):
    with pytest.raises(ConfigError) as error:
        names_of(name, kind)
    assert found in str(error.value)
    assert str(error.value).endswith(typed)
    names_of(typed.split()[-3] if "new plugin" in typed else typed.split()[0], kind)


def test_an_unknown_kind_is_refused_with_the_nearest(capsys):
    assert main(["new", "plugin", "rlcore-brief", "--kind", "rewrad"]) == 1
    assert "Did you mean 'reward'" in capsys.readouterr().err
    assert main(["new", "plugin", "rlcore-brief", "--kind", "loss,rewrad"]) == 1
    assert "Did you mean 'reward'" in capsys.readouterr().err


def test_nothing_is_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rlcore-brief").mkdir()
    assert main(["new", "plugin", "rlcore-brief", "--kind", "reward"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert list((tmp_path / "rlcore-brief").iterdir()) == []


@pytest.mark.slow
def test_a_package_of_every_kind_works_where_a_command_line_chooses_it(tmp_path, capsys):
    folders = {kind: plugin(kind, tmp_path) for kind in KINDS}
    with installed(*folders.values()):
        for kind, folder in folders.items():
            use = (folder / "README.md").read_text().partition("rlcore info ")[2].splitlines()[1]
            words = shlex.split(use)[1:]
            if words[0] == "train":
                words += ["prompts=4", "eval.limit=4", "data.rows=32", f"run.folder={tmp_path}/runs"]
            assert main(words) == 0, f"{kind}: {use}\n{capsys.readouterr().err}"
