"""Long runs in the background, with real processes: short shell loops in place of trainings."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

TICKS = "while [ ! -e $OUT/{name}.end ]; do echo . >>$OUT/{name}; sleep 0.02; done; echo {name} has ended"


class Bench:
    """A queue of two runs that tick until they are told to end, in a folder of its own."""

    def __init__(self, folder: Path, first: str = TICKS.format(name="first")):
        self.folder, self.out = folder, folder / "runs" / "out"
        self.data = folder / "data"
        (self.data / "train").mkdir(parents=True)
        repository = folder / "repository"
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(repository)]
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "empty"], check=True)
        commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        runs = [("first", first), ("second", TICKS.format(name="second"))]
        lines = [f'commit = "{commit}"', f'repository = "{repository}"']
        lines += [f"[[runs]]\nname = \"{name}\"\ncommand = '{command}'" for name, command in runs]
        (folder / "queue.toml").write_text("\n".join(lines))

    def popen(self, *words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "research.runs", "--queue", str(self.folder / "queue.toml"), *words]
        env = {**os.environ, "RUNS": str(self.folder / "runs")}
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __call__(self, *words: str, code: int = 0) -> str:
        process = self.popen(*words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, err
        return out + err

    def stands(self) -> dict[str, str]:
        return {line.split()[0]: line.split()[1] for line in self("list").splitlines()}

    def ticks(self, name: str = "first") -> int:
        file = self.out / name
        return file.stat().st_size if file.exists() else 0

    def rests(self) -> bool:
        before = self.ticks()
        time.sleep(0.3)
        return self.ticks() == before

    def wait_for_a_tick(self) -> None:
        before = self.ticks()
        wait(lambda: self.ticks() > before)

    def group(self) -> int:
        return int((self.folder / "runs" / "group.lock").read_text())


def wait(until) -> None:
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made("stop")


def test_runs_go_in_their_order_one_at_a_time_and_the_list_follows(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    assert bench.stands() == {"first": "runs", "second": "waits"}
    assert not bench.ticks("second")
    (bench.out / "first.end").touch()
    wait(lambda: bench.ticks("second"))
    assert bench.stands() == {"first": "done", "second": "runs"}
    (bench.out / "second.end").touch()
    wait(lambda: bench.stands()["second"] == "done")
    assert "all runs are done" in bench("start", str(bench.data))
    assert "second has ended" in bench("list")


def test_pause_stops_every_process_and_go_lets_them_go_on(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    bench("pause")
    assert bench.rests()
    assert bench.stands()["first"] == "paused"
    bench("go")
    bench.wait_for_a_tick()


def test_pause_outlives_the_processes(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    bench("pause")
    bench("stop")
    assert "paused" in bench("start", str(bench.data))
    assert bench.rests()


def test_nothing_runs_while_a_command_is_quiet_and_its_exit_code_comes_back(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    counted = f"before=$(wc -c <{bench.out}/first); sleep 0.3; test $(wc -c <{bench.out}/first) = $before && exit 7"
    bench("quiet", "bash", "-c", counted, code=7)
    bench.wait_for_a_tick()


def test_runs_go_on_only_when_the_last_of_several_quiet_commands_ends(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    long = bench.popen("quiet", "sleep", "60")
    wait(bench.rests)
    bench("quiet", "true")
    assert bench.rests()
    long.kill()  # cannot tidy up
    long.wait()
    wait(lambda: bench.stands()["first"] == "runs")  # looking is enough
    bench.wait_for_a_tick()


def test_pause_by_hand_is_not_ended_by_a_quiet_command(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    bench("pause")
    bench("quiet", "true")
    assert bench.rests()


def test_second_start_changes_nothing(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    group = bench.group()
    assert f"runs already, as group {group}" in bench("start", str(bench.data))
    assert bench.group() == group
    bench.wait_for_a_tick()


def test_start_goes_on_after_everything_was_killed_with_a_stale_group_left_behind(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    group = bench.group()
    os.killpg(group, signal.SIGKILL)
    wait(lambda: bench.stands()["first"] == "interrupted")
    assert bench.group() == group  # still in the file, and believed by nobody
    assert "started" in bench("start", str(bench.data))
    bench.wait_for_a_tick()


def test_run_that_outlives_its_loop_is_paused_and_not_started_twice(bench):
    bench("start", str(bench.data))
    wait(bench.ticks)
    os.kill(bench.group(), signal.SIGKILL)  # the loop alone
    time.sleep(0.1)
    bench.wait_for_a_tick()
    assert "runs already" in bench("start", str(bench.data))
    bench("pause")
    assert bench.rests()
    bench("stop")
    bench("go")
    assert bench.rests()


def test_failed_run_holds_up_nobody_and_is_tried_again(tmp_path):
    bench = Bench(tmp_path, first="echo no luck; exit 3")
    (tmp_path / "runs" / "out").mkdir(parents=True)
    (tmp_path / "runs" / "out" / "second.end").touch()
    bench("start", str(bench.data))
    wait(lambda: bench.stands() == {"first": "failed", "second": "done"})
    assert "no luck" in bench("list")
    wait(lambda: "started" in bench("start", str(bench.data)))


def test_page_has_what_is_needed_to_go_on_elsewhere_and_skipped_runs_count_as_done(bench):
    bench("skip", "first")
    bench("write")
    page = (bench.folder / "runs.md").read_text()
    assert "| first | done |" in page
    assert "| second | waits |" in page
    assert TICKS.format(name="second") in page
    bench("start", str(bench.data))
    wait(lambda: bench.ticks("second"))
    assert not bench.ticks("first")


def test_mistakes_get_one_sentence(bench):
    assert "has no run third" in bench("skip", "third", code=2)
    assert "needs the folder of the photos" in bench("start", code=2)
    assert "has no folder train/" in bench("start", str(bench.folder), code=2)
    assert bench.stands() == {"first": "waits", "second": "waits"}
    assert "nothing runs" in bench("go")
