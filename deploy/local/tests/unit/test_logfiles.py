from pathlib import Path

import pytest

from tablebell_local import logfiles


def test_only_lines_written_since_the_start_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "relay.log"
    log.write_text("before\n")
    begin = logfiles.begin(log)
    with log.open("a") as file:
        file.write("one\ntwo\nthree\n")

    assert logfiles.last_lines(log, 2, begin) == ["two", "three"]
    assert logfiles.last_lines(log, 9, begin) == ["one", "two", "three"]


def test_a_big_log_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfiles, "MAX_BYTES", 3)
    log = tmp_path / "relay.log"
    log.write_text("long\n")

    assert logfiles.begin(log) == 0
    assert not log.exists()
    assert (tmp_path / "relay.log.1").read_text() == "long\n"
