#!/usr/bin/env python3
"""Tests of english.py. Run by //tools/lib:english_test, or directly."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # the folder is the source tree's
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import english


def rules_of(text: str, name: str = "services/thing.h") -> list[str]:
    """The rules that `text`, as the file `name`, breaks."""
    return [finding.rule for finding in english.check_text(name, text)]


def lines_of(text: str, name: str = "services/thing.h") -> list[int]:
    return [finding.line for finding in english.check_text(name, text)]


# Examples of the guide to plain English, with the rules that a machine can see they break.
BEFORE = (
    ("Of all that wait for their targets, for each shard: beyond, those of slow targets are let go of, and of those of whom most "
     "waits.", {"opening", "word"}),
    ("Of a grant of which nobody has said a word so long after its last attempt must have been answered the holders are silent.",
     {"opening", "word"}),
    ("Is it before what the child owes otherwise, for a change of rules has put it there, and nobody has emitted by the present "
     "rules yet?", {"opening", "word"}),
    ("The state that is known may be older than the row: a change writes both, and its news of the two are told apart.", {"word"}),
    ("Has it gone meanwhile, or is it another one, each further commit has a summary of its own.", {"opening", "word"}),
    ("What falls due is claimed before.", {"opening"}),
    ("It took 250 µs until 23 November.", {"date"}),
)
AFTER = (
    "Set by the server. Send it in an Update or Delete to apply the change only if the schedule still has this etag.",
    "Bytes of rows each shard may keep in memory while their target has no room. Above this, rows of slow targets are evicted "
    "first, then rows of the targets with most waiting bytes; they are re-read later.",
    "A grant with no report this long after its last possible answer counts as silent.",
    "True if a time-zone rule change moved this occurrence before the child's normal range and nothing has been emitted under the "
    "new rules yet.",
    "The cached state may be older than the row: one commit writes both, but two watches deliver them separately. If the row is "
    "newer, re-read the state.",
    "If that record has been deleted or replaced, later commits each write a new summary.",
    "After each step the handler pauses for four times the step's duration, between 50 and 500 µs. Work that arrives during the "
    "pause is handled together.",
    "an occurrence whose civil time matches one of these expressions does not fire",
    "We ran 7,900 simulated hours over several versions. Each version fixed what the previous run had found.",
    "The handler claims rows 20 ms before they are due.",
)


class GuideTest(unittest.TestCase):
    def test_before(self) -> None:
        for text, rules in BEFORE:
            self.assertEqual(set(rules_of(f"// {text}\n")), rules, text)

    def test_after(self) -> None:
        for text in AFTER:
            self.assertEqual(rules_of(f"// {text}\n"), [], text)
            self.assertEqual(rules_of(text + "\n", "README.md"), [], text)


class OpeningTest(unittest.TestCase):
    def test_each_opening(self) -> None:
        for opening in ("Of rows", "What is", "Whatever", "Whoever", "Who asks", "Those that", "Those who", "Such rows", "Is it due",
                        "Has it gone", "Has one", "Were it", "Had it", "Nobody"):
            self.assertEqual(rules_of(f"// {opening} goes first.\n"), ["opening"], opening)
        for opening in ("Whom", "Those of whom", "But for", "Nothing but", "None but"):  # each is an obscure word, too
            self.assertEqual(rules_of(f"// {opening} it goes first.\n"), ["opening", "word"], opening)

    def test_words_that_only_begin_so(self) -> None:
        for text in ("Offers a row.", "Whatsoever.", "Whole rows.", "Wholly new.", "Issues a grant.", "Those rows wait.", "Hadoop."):
            self.assertEqual(rules_of(f"// {text}\n"), [], text)

    def test_where_sentences_begin(self) -> None:
        for text in ("Claims a row. Of rows, the first.", "Due? What is next.", "Due! Such rows wait.", "Rule: What is due goes.",
                     "Reads `row`. What is due goes.", "(Of rows, the first.)", "Takes \"a.\" Such rows wait."):
            self.assertEqual(rules_of(f"// {text}\n"), ["opening"], text)
        for text in ("Takes a word, e.g. What.", "One, i.e. Such.", "Rows vs. Such.", "Reads 1.5 of it: of rows.", "of rows"):
            self.assertEqual(rules_of(f"// {text}\n"), [], text)

    def test_line_of_the_sentence(self) -> None:
        self.assertEqual(lines_of("// Claims a row.\n// It is due. What\n// goes first.\n"), [2])

    def test_questions(self) -> None:
        self.assertEqual(rules_of("// Is it due?\n"), ["opening"])
        self.assertEqual(rules_of("# What is it?\n\nWhat if the store dies? It restarts.\n", "README.md"), [])
        self.assertEqual(rules_of("What is due goes first.\n", "README.md"), ["opening"])


class WordTest(unittest.TestCase):
    def test_each_word(self) -> None:
        for words in ("let go of", "the word of", "is told", "was told", "heard of", "anew", "meanwhile", "brought up", "is owed",
                      "are owed", "looked at", "minds", "nobody has said", "whom", "but for", "none but", "nothing but"):
            self.assertEqual(rules_of(f"// The row {words} it.\n"), ["word"], words)

    def test_parts_of_words(self) -> None:
        self.assertEqual(rules_of("// It reminds the password of a renewal.\n"), [])

    def test_across_lines(self) -> None:
        self.assertEqual(lines_of("// The row is let\n// go of.\n"), [1])

    def test_each_in_one_sentence(self) -> None:
        self.assertEqual(rules_of("// It is read anew, meanwhile.\n"), ["word", "word"])

    def test_quoted_text(self) -> None:
        self.assertEqual(rules_of("// Prints `anew` and \"Of course, meanwhile\" and\n// `a let\n// go of`.\n"), [])


class LengthTest(unittest.TestCase):
    def test_limit(self) -> None:
        self.assertEqual(rules_of("// " + "word " * 39 + "word.\n"), [])
        self.assertEqual(rules_of("// " + "word " * 40 + "word.\n"), ["length"])

    def test_max_words(self) -> None:
        found = english.check_text("a.h", "// One two three.\n", words_max=2)
        self.assertEqual([finding.rule for finding in found], ["length"])

    def test_sentences_count_apart(self) -> None:
        self.assertEqual(rules_of("// " + "word " * 30 + "`end`. " + "Word " * 30 + ".\n"), [])

    def test_quoted_text_counts_once(self) -> None:
        self.assertEqual(rules_of("// " + "word " * 39 + "`" + "word " * 9 + "`.\n"), [])


class DateTest(unittest.TestCase):
    def test_history(self) -> None:
        for text in ("since 2026-11-25", "until 23 November", "as of November 2026", "before November 23", "on the 3 May",
                     "measured 23 November"):
            self.assertEqual(rules_of(f"// Took 250 µs {text}.\n"), ["date"], text)

    def test_calendar(self) -> None:
        for text in ("Clocks went forward in 1916.", "No such hour on 2025-03-30 in Berlin.", "Example: 2026-11-25T10:00:00Z.",
                     "Valid until 2026-11-25T10:00:00Z.", "Prints `until 23 November`.", "DST ends on 26 October."):
            self.assertEqual(rules_of(f"// {text}\n"), [], text)

    def test_exempt_files(self) -> None:
        for name in ("common/cron/a.h", "common/tzdata/a.h", "tests/a.cc", "docs/adr/0001.md", "docs/history.md"):
            self.assertEqual(rules_of("// Since 23 November.\n", name), [], name)

    def test_documents(self) -> None:
        self.assertEqual(rules_of("Slow until 23 November.\n", "docs/a.md"), ["date"])
        self.assertEqual(rules_of("Measured on 25 November 2026.\n", "docs/a.md"), [])


class TrailingTest(unittest.TestCase):
    def test_fragments(self) -> None:
        for text in ("of kSkip", "by whom it is held", "what is due"):
            self.assertIn("trailing", rules_of(f"int bytes;  // {text}\n"), text)

    def test_phrases(self) -> None:
        for line in ("int bytes;  // bytes; only for kSkip", 'auto url = "http://of.example";  // offset', "// of kSkip",
                     "int n = 1'000;  // often"):
            self.assertEqual(rules_of(line + "\n"), [], line)

    def test_continuation_in_the_same_column(self) -> None:
        self.assertEqual(lines_of("int a;  // bytes\n        // anew\n"), [2])
        self.assertEqual(rules_of("int a;  // " + "word " * 30 + "\n        // " + "word " * 20 + "\n"), ["length"])

    def test_neighbours_are_apart(self) -> None:
        self.assertEqual(rules_of("int a;  // " + "word " * 30 + "\nint b;  // " + "word " * 30 + "\n"), [])
        self.assertEqual(rules_of("int a;  // " + "word " * 30 + "\n// " + "word " * 30 + "\n"), [])


class TestNameTest(unittest.TestCase):
    def test_limit(self) -> None:
        for macro in ("TEST", "TEST_F", "TEST_P"):
            self.assertEqual(rules_of(f"{macro}(A, {'B' * 61}) {{\n", "a_test.cc"), ["test_name"], macro)
            self.assertEqual(rules_of(f"{macro}(A, {'B' * 60}) {{\n", "a_test.cc"), [], macro)

    def test_name_opens_as_a_sentence(self) -> None:
        for name, rules in (("WhatIsLateIsDropped", ["test_name"]), ("OfTwoOneWins", ["test_name"]), ("WholeFileIsRead", [])):
            self.assertEqual(rules_of(f"TEST(A, {name}) {{\n", "a_test.cc"), rules, name)

    def test_name_on_the_next_line(self) -> None:
        self.assertEqual(lines_of(f"TEST(A,\n     {'B' * 61}) {{\n", "a_test.cc"), [2])


class CppTest(unittest.TestCase):
    def test_strings_are_no_comments(self) -> None:
        for text in ('auto a = "// Of rows";', 'auto a = R"(\n// Of rows\n)";', 'auto a = R"x(\n)"\n// Of rows\n)x";',
                     "char c = '\"'; auto b = \"// Of\";", 'auto a = "\\"// Of rows";', "/* // Of rows */"):
            self.assertEqual(rules_of(text + "\n"), [], text)

    def test_comment_behind_a_string(self) -> None:
        self.assertEqual(rules_of("char c = '\"';  // Of rows\n"), ["opening"])

    def test_where_paragraphs_end(self) -> None:
        for text in ("// a row\n//\n// Of rows\n", "// a row\n\n// Of rows\n", "// a row\nint a;\n// Of rows\n",
                     "// rules:\n// - Of rows\n", "// rules:\n// 1. Of rows\n"):
            self.assertEqual(rules_of(text), ["opening"], text)
        self.assertEqual(rules_of("// a row\n// Of rows\n"), [])

    def test_list_items_go_on_in_their_indentation(self) -> None:
        self.assertEqual(rules_of("// - " + "word " * 30 + "\n//   " + "word " * 20 + "\n"), ["length"])
        self.assertEqual(rules_of("// - a row\n//   Of rows\n"), [])
        self.assertEqual(rules_of("// - a row\n// Of rows\n"), ["opening"])

    def test_indented_text_is_apart(self) -> None:
        self.assertEqual(rules_of("// a row\n//     Of rows\n"), ["opening"])

    def test_rows_of_columns_are_apart(self) -> None:
        self.assertEqual(rules_of("// a    " + "word " * 30 + "\n// b    " + "word " * 30 + "\n"), [])

    def test_protos(self) -> None:
        self.assertEqual(rules_of("string a = 1;  // of rows\n// What is due.\n", "a.proto"), ["trailing", "opening"])

    def test_markers_of_tools(self) -> None:
        self.assertEqual(rules_of("// NOLINTNEXTLINE(a-b): what is due anew\n"), [])


class ScriptTest(unittest.TestCase):
    def test_shell(self) -> None:
        for text in ("# What it does.\n", "true  # What it does.\n", "a='\n' # What it does.\n", "cat <<END\nx\nEND\n# What it does.\n"):
            self.assertEqual(rules_of("#!/usr/bin/env bash\n" + text, "tools/run"), ["opening"], text)
            self.assertEqual(rules_of(text, "run.sh"), ["opening"], text)
        for text in ("echo '# Of rows'\n", "cat <<'END'\n# Of rows\nEND\n", "echo ${a# Of} $#\n", "a='\n# Of rows'\n"):
            self.assertEqual(rules_of(text, "run.sh"), [], text)

    def test_python_and_build_files(self) -> None:
        for name in ("a.py", "a.bzl", "BUILD.bazel", "x/BUILD"):
            self.assertEqual(rules_of("a = 1  # Of rows\n", name), ["opening"], name)
            self.assertEqual(rules_of("a = '# Of rows'\n", name), [], name)

    def test_other_files(self) -> None:
        self.assertEqual(rules_of("# Of rows\n", "rows.txt"), [])
        self.assertEqual(rules_of("Of rows.\n", "tests/rows.md"), [])


class MarkdownTest(unittest.TestCase):
    def test_prose(self) -> None:
        for name in ("README.md", "common/kv/README.md", "docs/design/store.md"):
            self.assertEqual(rules_of("A row is\nread. Of rows, one.\n", name), ["opening"], name)

    def test_skipped(self) -> None:
        for text in ("# Of rows\n", "```\nOf rows\n```\n", "```sh\n# Of rows\n```\n", "~~~\n```\nOf rows\n~~~\n", "A:\n\n    Of rows\n",
                     "A [row](http://a/Of) is read.\n"):
            self.assertEqual(rules_of(text, "README.md"), [], text)

    def test_text_after_a_code_block(self) -> None:
        self.assertEqual(lines_of("```\nOf rows\n```\nOf rows\n", "README.md"), [4])

    def test_table_cells(self) -> None:
        self.assertEqual(rules_of("| row | Of a key. |\n", "README.md"), ["opening"])
        self.assertEqual(rules_of("| a x \\| Of y | b |\n", "README.md"), [])
        self.assertEqual(rules_of("| a `x | Of y` | b |\n|---|---|\n", "README.md"), [])
        self.assertEqual(rules_of("| " + "word " * 30 + "| " + "word " * 30 + "|\n", "README.md"), [])

    def test_list_items(self) -> None:
        self.assertEqual(lines_of("- a row\n- Of rows\n  - Of keys\n", "README.md"), [2, 3])
        self.assertEqual(rules_of("- a row\nOf rows\n", "README.md"), [])
        self.assertEqual(rules_of("- " + "word " * 30 + "\n  " + "word " * 20 + "\n", "README.md"), ["length"])


class ProgramTest(unittest.TestCase):
    """The program, in a folder that stands for the repository."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, text in (("services/a.h", "// Of rows, read anew.\n"), ("common/b.h", "// One two three.\n")):
            path = os.path.join(self.folder.name, name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        listing = "services/a.h\0common/b.h\0"

        def git(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            out = self.folder.name + "\n" if "rev-parse" in command else listing
            return subprocess.CompletedProcess(command, 0, out, "")

        patch = mock.patch.object(english.subprocess, "run", git)
        patch.start()
        self.addCleanup(patch.stop)

    def run_with(self, *arguments: str) -> tuple[int, str]:
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["english.py", *arguments]), contextlib.redirect_stdout(out):
            return english.main(), out.getvalue()

    def test_findings(self) -> None:
        self.assertEqual(self.run_with(), (1, "services/a.h:1: [opening] Of rows, read anew.\n"
                                              "services/a.h:1: [word] 'anew' in: Of rows, read anew.\n"))

    def test_rule(self) -> None:
        self.assertEqual(self.run_with("--rule=opening"), (1, "services/a.h:1: [opening] Of rows, read anew.\n"))
        self.assertEqual(self.run_with("--rule=length,date"), (0, ""))

    def test_max_words(self) -> None:
        self.assertEqual(self.run_with("--rule=length", "--max_words=2")[1].count("[length]"), 2)

    def test_summary(self) -> None:
        status, out = self.run_with("--summary")
        self.assertEqual(status, 1)
        self.assertIn("    1 opening    services\n", out)
        self.assertTrue(out.endswith("    2 in all\n"), out)

    def test_wrong_arguments(self) -> None:
        for argument in ("--rule=spelling", "no/such/folder"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                self.run_with(argument)


if __name__ == "__main__":
    unittest.main()
