"""The master key comes from the setting or from a private file that is made once."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from pydantic import SecretStr

from billhook.errors import Refusal
from billhook.settings import Settings
from billhook.storage.master_key import SHORTEST, create_master_key, find_master_key

GIVEN = "k" * SHORTEST
RACERS = 16


def settings_with(folder: Path, *, key: str = "") -> Settings:
    return Settings(data_dir=folder, master_key=SecretStr(key))


def test_the_setting_wins_over_the_file(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    assert find_master_key(settings_with(tmp_path, key=f" {GIVEN}\n")) == GIVEN


def test_the_file_is_read_when_nothing_is_set(tmp_path: Path) -> None:
    made = create_master_key(tmp_path / "master.key")
    assert find_master_key(settings_with(tmp_path)) == made


def test_with_neither_there_is_none(tmp_path: Path) -> None:
    assert find_master_key(settings_with(tmp_path)) is None


def test_the_file_is_private_and_so_is_a_folder_made_for_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "master.key"
    create_master_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_key_that_was_made_is_long_enough(tmp_path: Path) -> None:
    assert len(create_master_key(tmp_path / "master.key")) >= SHORTEST


def test_a_key_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    first = create_master_key(tmp_path / "master.key")
    assert create_master_key(tmp_path / "master.key") == first


def test_all_who_race_to_make_it_get_the_same_key_and_leave_nothing_behind(tmp_path: Path) -> None:
    start = Barrier(RACERS)

    def race(_racer: int) -> str:
        start.wait()
        return create_master_key(tmp_path / "master.key")

    with ThreadPoolExecutor(RACERS) as threads:
        keys = set(threads.map(race, range(RACERS)))
    assert len(keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["master.key"]


@pytest.mark.parametrize("short", ["hunter2", "hunter2".ljust(SHORTEST - 1, "k")])
def test_a_short_setting_is_refused_by_its_name_and_not_shown(tmp_path: Path, short: str) -> None:
    with pytest.raises(Refusal, match="BILLHOOK_MASTER_KEY: .* at least 32 characters") as refused:
        find_master_key(settings_with(tmp_path, key=short))
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("content", ["", "\n", "too short\n"])
def test_a_file_with_a_short_key_is_refused_by_its_path(tmp_path: Path, content: str) -> None:
    (tmp_path / "master.key").write_text(content)
    with pytest.raises(Refusal, match=f"{tmp_path}/master.key: .* at least 32 characters"):
        find_master_key(settings_with(tmp_path))


def test_a_file_that_is_not_text_is_refused_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "master.key").write_bytes(b"\xff" * 40)
    with pytest.raises(Refusal, match=f"cannot read the master key in {tmp_path}/master.key"):
        find_master_key(settings_with(tmp_path))


def test_a_folder_in_its_place_is_refused_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "master.key").mkdir()
    with pytest.raises(Refusal, match=f"cannot read the master key in {tmp_path}/master.key"):
        find_master_key(settings_with(tmp_path))


def test_a_folder_that_cannot_be_written_is_refused_in_one_line() -> None:
    with pytest.raises(Refusal, match="/proc/billhook"):
        create_master_key(Path("/proc/billhook/master.key"))
