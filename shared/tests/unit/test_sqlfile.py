import pytest

from tablebell.sqlfile import parse_queries


def test_blocks_are_found_by_name_with_their_comments() -> None:
    text = "-- what this is\n\n-- name: one\n-- $1 id\nSELECT 1\n\n-- name: two\nSELECT 2;\n"
    assert parse_queries(text, "x.sql") == {"one": "-- $1 id\nSELECT 1", "two": "SELECT 2;"}


def test_two_blocks_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"x\.sql has two queries named one"):
        parse_queries("-- name: one\nSELECT 1\n-- name: one\nSELECT 2\n", "x.sql")
