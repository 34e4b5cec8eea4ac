#!/usr/bin/env python3
"""Tests of english.py. Run by //tools/lib:english_test, or directly."""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the folder is the source tree's
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import english


def rules_of(text: str, name: str = "thing.h") -> list[str]:
    """The rules that `text`, as a file called `name`, breaks."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return [finding.rule for finding in english.check_file(path)]


class EnglishTest(unittest.TestCase):
    def test_openings(self) -> None:
        for sentence in ("Of all that wait for their targets, for each shard.", "What falls due is claimed before.",
                         "Whoever asks gets an answer.", "Is it before the range, nothing happens.", "Such rows wait."):
            self.assertEqual(rules_of(f"// {sentence}\n"), ["opening"], sentence)
        for sentence in ("The handler claims rows 20 ms before they are due.", "Offers a row to the queue.",
                         "Whatsoever", "True if the row is due. Islands are rows apart."):
            self.assertEqual(rules_of(f"// {sentence}\n"), [], sentence)

    def test_second_sentence_of_a_paragraph(self) -> None:
        self.assertEqual(rules_of("// Claims a row.\n// What is due goes\n// first.\n"), ["opening"])

    def test_abbreviation_ends_no_sentence(self) -> None:
        self.assertEqual(rules_of("// Takes a word, e.g. What.\n"), [])

    def test_list_item_is_a_paragraph(self) -> None:
        self.assertEqual(rules_of("// Rules:\n// - Of a row, its key.\n"), ["opening"])

    def test_words(self) -> None:
        self.assertEqual(rules_of("// The row is read anew.\n"), ["word"])
        self.assertEqual(rules_of("// The row is read again. The reminds list.\n"), [])

    def test_quoted_text_is_not_checked(self) -> None:
        self.assertEqual(rules_of("// Prints `What is anew` and \"Of course\".\n"), [])

    def test_length(self) -> None:
        self.assertEqual(rules_of("// " + "word " * 40 + ".\n"), [])
        self.assertEqual(rules_of("// " + "word " * 41 + ".\n"), ["length"])

    def test_dates(self) -> None:
        self.assertEqual(rules_of("// Took 250 µs until 23 November.\n"), ["date"])
        self.assertEqual(rules_of("// The example is 2026-11-25T10:00:00Z.\n"), [])

    def test_trailing_comments(self) -> None:
        self.assertEqual(rules_of("int bytes;  // of kSkip only\n"), ["trailing"])
        self.assertEqual(rules_of("int bytes;  // bytes; only for kSkip\n"), [])
        self.assertEqual(rules_of('const char* url = "http://of.example";\n'), [])

    def test_test_names(self) -> None:
        self.assertEqual(rules_of(f"TEST(A, {'B' * 61}) {{\n", "thing_test.cc"), ["test_name"])
        self.assertEqual(rules_of(f"TEST_F(A, {'B' * 60}) {{\n", "thing_test.cc"), [])

    def test_markdown(self) -> None:
        self.assertEqual(rules_of("# What it is\n\nIt schedules.\n", "page.md"), [])
        self.assertEqual(rules_of("Of a row, its key.\n", "page.md"), ["opening"])
        self.assertEqual(rules_of("```\nOf a row\n```\n", "page.md"), [])
        self.assertEqual(rules_of("| row | Of a key. |\n", "page.md"), ["opening"])

    def test_scripts(self) -> None:
        self.assertEqual(rules_of("#!/usr/bin/env bash\n# What it does.\n", "tool.sh"), ["opening"])


if __name__ == "__main__":
    unittest.main()
