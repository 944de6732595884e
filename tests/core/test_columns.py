import pytest

from rlcore.columns import COLUMNS, Column
from rlcore.errors import RegistryError, UnknownNameError


def test_every_column_says_what_it_means_and_who_writes_it():
    for column in COLUMNS.values():
        assert column.meaning and column.writer, column.name


def test_any_column_of_the_data_and_any_role_is_known():
    assert COLUMNS["data.anything"].dtype == "object" and COLUMNS["data.anything"].dims == ("B",)
    assert COLUMNS["weights.teacher"].dims == () and "weights.teacher" in COLUMNS and "data.x" in COLUMNS
    assert "teacher" not in COLUMNS and 3 not in COLUMNS


def test_an_unknown_column_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="unknown column 'advantages'.*Did you mean 'advantage'"):
        COLUMNS["advantages"]


def test_declaring_gives_a_new_table_and_a_second_meaning_is_refused():
    column = Column(name="surprise", dims=("B",), dtype="float", meaning="how unexpected", writer="acme")
    table = COLUMNS.declare(column)
    assert table["surprise"] == column and "surprise" not in COLUMNS
    assert table.declare(column)["surprise"] == column
    with pytest.raises(RegistryError, match="'surprise' is already declared.*plugin b"):
        table.declare(
            Column(name="surprise", dims=("B", "T"), dtype="float", meaning="another thing", writer="b"),
            owner="plugin b",
        )
    with pytest.raises(RegistryError, match="'reward'"):
        COLUMNS.declare(Column(name="reward", dims=("B",), dtype="int", meaning="mine", writer="me"))


def test_a_renamed_column_inherits_dims_and_meaning_and_can_be_read_by_nodes():
    table = COLUMNS.rename("teacher_logprob", "logprob")
    renamed = table["teacher_logprob"]
    assert (renamed.dims, renamed.meaning, renamed.readout) == (("B", "T"), "current weights", "logprob")
    assert not renamed.current
    assert table.rename("reward", "score")["reward"] == COLUMNS["reward"]


def test_a_column_of_unknown_shape_or_type_is_refused():
    with pytest.raises(RegistryError, match="dims"):
        Column(name="x", dims=("T",), dtype="float", meaning="m", writer="w")
    with pytest.raises(RegistryError, match="dtype"):
        Column(name="x", dims=("B",), dtype="double", meaning="m", writer="w")
