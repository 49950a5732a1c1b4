"""A small share of `make fuzz`: every reader, some mutated inputs, the same in every run."""

from __future__ import annotations

import pytest

from research.campaign import cases, fuzz
from research.campaign.readers import READERS

for extra in ("torch", "pycolmap"):
    pytest.importorskip(extra)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    for name in ("HYNET_CAMPAIGN", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")  # the campaign sets them: they go back afterwards


def test_no_reader_is_broken_by_broken_inputs():
    report = fuzz.campaign(300, seed=7, jobs=1, names=list(READERS))
    failures = {name: row["failures"] for name, row in report["readers"].items() if row["failures"]}
    assert not failures
    classes = {name: set(row) - {"failures"} for name, row in report["readers"].items()}
    assert sum("refused" in some for some in classes.values()) > len(READERS) / 2  # the inputs are broken indeed


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ("def read(folder): raise KeyError('x')", "traceback"),
        ("def read(folder): return float('nan')", "believed"),
        ("def read(folder): import ctypes; ctypes.string_at(0)", "crash"),
        ("def read(folder): import signal, time; signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(30)", "hang"),
        ("def read(folder): return len(bytearray(8 << 30))", "memory"),
    ],
)
def test_the_campaign_notices_what_must_not_be(tmp_path, monkeypatch, read, found):
    (tmp_path / "spoilt.py").write_text(f"""
from dataclasses import replace
import research.campaign.cases as cases
from research.campaign.readers import READERS
{read}
sound = READERS["homographies"].read
spoilt = lambda folder: read(folder) if folder.name == "case" else sound(folder)  # the example itself is still read
READERS["homographies"] = replace(READERS["homographies"], read=spoilt)
run = cases.run
""")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(fuzz, "CASES", "spoilt:run")
    report = fuzz.campaign(2, seed=1, jobs=1, names=["homographies"])
    assert report["readers"]["homographies"][found] == 2
    assert set(report["readers"]["homographies"]) & {*cases.BAD} == {found}
