"""`.ci/subjects` keeps the subjects of new commits short."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[1] / ".ci" / "subjects"


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "x" * 100)  # from before the rule
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path, subject: str) -> str:
    git(folder, "commit", "--quiet", "--allow-empty", "--message", subject)
    return git(folder, "rev-parse", "HEAD").strip()


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CHECK, *arguments], cwd=folder, capture_output=True, text=True)


def test_a_new_subject_may_have_72_characters_but_not_73(repository):
    base = git(repository, "rev-parse", "HEAD").strip()
    commit(repository, "ü" * 72)
    assert check(repository, base).returncode == 0
    commit(repository, "y" * 73)
    refused = check(repository, base)
    assert refused.returncode == 1
    assert "73 characters" in refused.stderr


def test_without_the_base_in_a_shallow_clone_every_commit_is_checked(repository):
    assert check(repository, "0" * 40).returncode == 1


def test_a_folder_that_is_no_repository_passes(tmp_path):
    assert check(tmp_path).returncode == 0
