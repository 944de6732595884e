"""What the distribution promises: its metadata, its folders, its commands, its plugin."""

import ast
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = ("algorithms", "envs", "notebooks", "plugins", "rewards", "tests")
PACKAGES = {
    "rlcore": ROOT / "rlcore",
    "rlcore_algorithms": ROOT / "algorithms/rlcore_algorithms",
    "rlcore_rewards": ROOT / "rewards/rlcore_rewards",
    "rlcore_answers": ROOT / "rewards/rlcore_answers",
    "rlcore_sandbox": ROOT / "rewards/rlcore_sandbox",
    "rlcore_workers": ROOT / "rewards/rlcore_workers",
    "rlcore_envs": ROOT / "envs/rlcore_envs",
}
TEST_COMMAND = 'pip install -e ".[test]" && pytest'


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_top_level_folders_are_no_packages():
    assert [folder for folder in FOLDERS if (ROOT / folder / "__init__.py").exists()] == []


def test_generic_names_cannot_be_imported_from_elsewhere(tmp_path):
    code = "import importlib.util as u; print([n for n in %r if u.find_spec(n)])" % (FOLDERS,)  # noqa: UP031
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", code]
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_is_typed_has_one_place_and_is_in_the_wheel(name):
    assert (PACKAGES[name] / "py.typed").exists()
    assert Path(importlib.util.find_spec(name).origin) == PACKAGES[name] / "__init__.py"
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert str(PACKAGES[name].relative_to(ROOT)) in wheel["packages"]
    assert wheel["dev-mode-exact"] is True


def test_built_ins_use_the_entry_points_that_strangers_use():
    assert PROJECT["project"]["entry-points"]["rlcore"] == {
        "core": "rlcore.builtin",
        "algorithms": "rlcore_algorithms",
        "rewards": "rlcore_rewards",
        "answers": "rlcore_answers",
        "sandbox": "rlcore_sandbox",
        "envs": "rlcore_envs",
    }


def test_the_readme_and_the_checks_run_the_same_test_command():
    found = re.search(
        r"^command=\$\((sed .*README\.md).*\)$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE
    )
    shown = subprocess.run(["bash", "-c", found.group(1)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == [TEST_COMMAND]


def test_the_installed_distribution_is_this_one():
    distribution = importlib.metadata.distribution("rlcore")
    assert distribution.version == PROJECT["project"]["version"]
    assert [point.value for point in distribution.entry_points if point.group == "console_scripts"] == [
        "rlcore.cli:main"
    ]
    assert SpecifierSet(distribution.metadata["Requires-Python"]) == SpecifierSet(">=3.11,<3.14")
    assert distribution.metadata["License-Expression"] == "Apache-2.0"
    assert set(distribution.metadata.get_all("Provides-Extra")) >= {"test", "notebooks", "sweeps", "trackers"}


def test_no_requirement_pins_what_torch_or_an_engine_must_choose():
    required = "\n".join(PROJECT["project"]["dependencies"])
    assert not re.search(r"triton|vllm|sglang|==", required)


DISTRIBUTIONS = {"hydra": "hydra-core", "yaml": "pyyaml", "pydantic_core": "pydantic"}
"""Packages whose distribution has another name than with - for _."""
COMES_WITH = {"jsonschema_specifications": "jsonschema", "referencing": "jsonschema"}
"""Packages that a named distribution itself is made of."""


def imported_packages():
    """The roots of all imports of the product, also those by name (`require("wandb", ...)`)."""
    found = set()
    for folder in PACKAGES.values():
        for path in folder.rglob("*.py"):
            if "inside" in path.parts:
                continue  # runs in the sandbox, on the standard library alone
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    found.add(node.module)
                elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    found |= {node.args[0].value} if name in ("require", "import_module", "_package") else set()
    roots = {str(name).partition(".")[0] for name in found} - set(sys.stdlib_module_names) - set(PACKAGES)
    return {COMES_WITH.get(root, DISTRIBUTIONS.get(root, root.replace("_", "-"))) for root in roots}


def names_of(requirements):
    return {re.match(r"[A-Za-z0-9-]+", requirement).group() for requirement in requirements}


def test_whatever_is_imported_is_a_dependency_or_an_extra_and_the_other_way_round():
    needed, extras = names_of(PROJECT["project"]["dependencies"]), PROJECT["project"]["optional-dependencies"]
    optional = {name for extra in extras.values() for name in names_of(extra)}
    imported = imported_packages()
    assert sorted(imported - needed - optional) == []
    assert sorted(needed - imported) == []


@pytest.mark.parametrize("extra", ["trackers", "ray", "sweeps", "judge", "hub", "modelscope", "reasoning-gym"])
def test_what_only_some_runs_need_is_an_extra_and_no_dependency(extra):
    needed = names_of(PROJECT["project"]["dependencies"])
    optional = names_of(PROJECT["project"]["optional-dependencies"][extra])
    assert optional
    assert not needed & optional - {"tokenizers"}


def test_torch_is_capped_where_the_supported_engine_pins_it_and_the_reason_is_written_down():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"torch>=2.11,<2.14"' in text
    assert "vLLM 0.32" in text.partition("dependencies = [")[0]
    assert "vLLM 0.32" in (ROOT / "docs/decisions/0021-dependencies-and-extras.md").read_text(encoding="utf-8")


def test_the_import_order_lists_every_module_of_the_core():
    layers = next(c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers")["layers"]
    listed = {name.strip(" ()") for layer in layers for name in layer.split(":")}
    found = {
        path.stem for path in (ROOT / "rlcore").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - {"__init__"} <= listed


@pytest.mark.parametrize("script", ["run", "slow"])
def test_the_checks_are_valid_bash_and_stop_at_the_first_failure(script):
    path = ROOT / ".ci" / script
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert "set -euo pipefail" in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o111


def test_the_wheel_check_finds_what_is_missing_and_what_has_crept_in(tmp_path):
    check = load(ROOT / ".ci/wheel_contents.py")
    wheel = tmp_path / "rlcore-0.1.0-py3-none-any.whl"
    expected = sorted(check.expected())
    assert "rlcore/metrics.py" in expected
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*expected, "rlcore-0.1.0.dist-info/licenses/LICENSE"]:
            archive.writestr(name, "")
    assert check.faults(wheel) == []
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*expected[1:], "tests/test_x.py"]:
            archive.writestr(name, "")
    assert check.faults(wheel) == [
        f"missing from the wheel: {expected[0]}",
        "in the wheel, but in no package: tests/test_x.py",
        "a test: tests/test_x.py",
        "no LICENSE",
    ]


def test_the_example_needs_nothing_but_rlcore():
    example = tomllib.loads((ROOT / "plugins/example/pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert example["dependencies"] == ["rlcore"]
    assert example["entry-points"]["rlcore"] == {"example": "rlcore_example"}
