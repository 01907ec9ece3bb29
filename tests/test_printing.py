"""What crawled text can do to a terminal: nothing."""

import contextlib
import io
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.cli import main
from gristmill.commands.printing import Printable, printable, sentence

HOSTILE = "http://a.example/\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202egpj.exe\ud800"


def test_escape_sequences_are_written_out_and_words_stay():
    shown = printable(HOSTILE)
    assert shown == "http://a.example/\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\x0d\\u202egpj.exe\\ud800"
    assert printable("日本語\té é\n👩‍👩‍👧") == "日本語\té é\n👩‍👩‍👧"


@given(st.text(st.characters(), max_size=50))
def test_whatever_is_printed_no_control_reaches_the_terminal(text):
    stream = io.StringIO()
    assert Printable(stream).write(text) == len(text)
    out = stream.getvalue()
    assert not any((ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) < 0xA0 for c in out)
    assert out.count("\n") == text.count("\n")
    out.encode("utf-8")


@pytest.mark.parametrize("command", [["explain", "nothing \x1b[2J"], ["land", "\x1b[2J.warc.gz", "--as", "X"],
                                     ["manifest", "verify", "v\x1b[2J"], ["\x1b[2J"]])
def test_no_command_prints_an_escape_that_it_was_given(tmp_path, capfd, command):
    (tmp_path / "pipeline.yaml").write_text("site: {store: store, landing: landing}\n")
    extra = ["--pipeline", str(tmp_path / "pipeline.yaml")] if len(command) > 1 else []
    with contextlib.suppress(SystemExit):
        assert main([*command, *extra]) != 0
    out, err = capfd.readouterr()
    assert "\x1b" not in out + err
    assert "\\x1b[2J" in out + err


def test_the_systems_errors_are_sentences(tmp_path):
    for failing in ((tmp_path / "none").read_bytes, lambda: os.rename(tmp_path / "a", tmp_path / "b")):
        with pytest.raises(FileNotFoundError) as told:
            failing()
        assert "Errno" not in sentence(told.value)
        assert str(tmp_path) in sentence(told.value)
        assert sentence(told.value).endswith("no such file or directory")
    assert sentence(OSError("a sentence of our own")) == "a sentence of our own"


def test_a_reader_that_has_seen_enough_is_no_error():
    code = "import sys; from gristmill.cli import main; sys.exit(main(['scurve']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
