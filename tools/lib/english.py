#!/usr/bin/env python3
"""Checks the mechanical rules of plain English in comments, documents and test names.

Prints each breach as `file:line: [rule] text` and exits 1 if there is any. Text in `backticks` or "quotes" is not checked.
docs/how_to.md says how we write; the rules:

  opening    a sentence must not open with "Of", "What", "Whoever" and the like: say who acts
  word       obscure words, where the field has a term
  length     a sentence has at most 40 words (aim at 25)
  date       comments speak of the present: no dates outside of calendars, ADRs and docs/history.md
  trailing   a comment behind code is a whole phrase
  test_name  a test's name has at most 60 characters
"""
import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from typing import Iterator, NamedTuple, Optional

WORDS_MAX = 40
TEST_NAME_MAX = 60
RULES = ("opening", "word", "length", "date", "trailing", "test_name")

OPENINGS = re.compile(
    r"(Of|What|Whatever|Whoever|Who|Whom|Those (of whom|who|that|which)|Such|But for|Is (it|there)|Has (it|one)|Were|Had|"
    r"Nothing but|None but|Nobody)\b")
WORDS = re.compile(
    r"\b(let go of|lets go of|the word of|(is|are|was|were) told\b|heard of|anew|meanwhile|brought up|(is|are) owed|looked at|minds|"
    r"nobody has|whom|none but|nothing but|but for)\b", re.IGNORECASE)
MONTH = "(January|February|March|April|May|June|July|August|September|October|November|December)"
DATE = re.compile(rf"\b(\d{{1,2}} {MONTH}|{MONTH} \d{{4}}|(since|until|as of|before|after) 20\d\d-\d\d-\d\d)\b")
DATES_ALLOWED = re.compile(r"^(common/(cron|tzdata|runtime)/|docs/(adr/|history|time|cron|design/cron)|tests/|services/emitter/|proto/)")
TRAILING = re.compile(r"(of|by whom|whose|what)\b")
TEST = re.compile(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\(\s*\w+,\s*(\w+)\s*\)")
# Ends a sentence, unless it stands behind an abbreviation or a single capital letter.
SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\betc)(?<!\bcf)(?<!\b[A-Z])[.?!][)\"']*\s+(?=[A-Z(\"`])")
LIST_ITEM = re.compile(r"^\s*([-*•]|\d+[.)]|\(\w\))\s+|^\s{2,}\S")
CODE_LIKE = re.compile(r"`[^`]*`|\"[^\"]*\"|\bhttps?://\S+")


class Finding(NamedTuple):
    file: str
    line: int
    rule: str
    text: str


class Paragraph(NamedTuple):
    line: int
    text: str


def sentences(text: str) -> list[str]:
    return [s.strip() for s in SENTENCE_END.split(text) if s.strip()]


def check_paragraph(path: str, paragraph: Paragraph, words_max: int) -> Iterator[Finding]:
    """All rules about prose, for one paragraph."""
    plain = CODE_LIKE.sub("X", paragraph.text)
    for sentence in sentences(plain):
        short = sentence[:90]
        if OPENINGS.match(sentence.lstrip("(*_")) and not sentence.endswith("?"):
            yield Finding(path, paragraph.line, "opening", short)
        found = WORDS.search(sentence)
        if found:
            yield Finding(path, paragraph.line, "word", f"'{found.group(0)}' in: {short}")
        if len(re.findall(r"[A-Za-z0-9'’-]+", sentence)) > words_max:
            yield Finding(path, paragraph.line, "length", short)
        if DATE.search(sentence) and not DATES_ALLOWED.match(path):
            yield Finding(path, paragraph.line, "date", short)


def paragraphs(lines: list[tuple[int, str]]) -> Iterator[Paragraph]:
    """Joins lines of prose; an empty line or a list item begins a new paragraph."""
    start, words = 0, []
    last = -1
    for number, line in lines:
        stripped = line.strip()
        fresh = not stripped or number != last + 1 or LIST_ITEM.match(line)
        if fresh and words:
            yield Paragraph(start, " ".join(words))
            words = []
        last = number
        if not stripped:
            continue
        if not words:
            start = number
            stripped = re.sub(r"^([-*•]|\d+[.)])\s+", "", stripped)
        words.append(stripped)
    if words:
        yield Paragraph(start, " ".join(words))


def split_code(line: str) -> tuple[str, Optional[str]]:
    """A line of C++ as code and comment. Quotes hide `//`."""
    quote = None
    i = 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = None
        elif c in "\"'" and not (c == "'" and i > 0 and line[i - 1].isalnum()):
            quote = c
        elif line.startswith("//", i):
            return line[:i], line[i + 2:]
        i += 1
    return line, None


def check_code(path: str, lines: list[str], marker: str, words_max: int) -> Iterator[Finding]:
    """Comments of C++ and proto ("//"), or of scripts and BUILD files ("#")."""
    prose: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        if marker == "#":
            stripped = line.lstrip()
            if stripped.startswith("#") and not stripped.startswith("#!"):
                prose.append((number, stripped[1:]))
            continue
        test = TEST.match(line)
        if test and len(test.group(1)) > TEST_NAME_MAX:
            yield Finding(path, number, "test_name", test.group(1))
        code, comment = split_code(line)
        if comment is None:
            continue
        comment = comment[1:] if comment.startswith(" ") else comment
        if not code.strip():
            prose.append((number, comment))
            continue
        # A trailing comment that goes on below is one paragraph with what follows.
        if TRAILING.match(comment):
            yield Finding(path, number, "trailing", comment[:90])
        if not comment.startswith(("NOLINT", "clang-format")):
            prose.append((number, comment))
    for paragraph in paragraphs(prose):
        yield from check_paragraph(path, paragraph, words_max)


def check_markdown(path: str, lines: list[str], words_max: int) -> Iterator[Finding]:
    prose: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced or line.startswith("#"):
            continue
        line = re.sub(r"\]\([^)]*\)", "]", line)
        if line.startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield from check_paragraph(path, Paragraph(number, cell.strip()), words_max)
            continue
        prose.append((number, line if LIST_ITEM.match(line) and not line.startswith("  ") else line.strip()))
    for paragraph in paragraphs(prose):
        yield from check_paragraph(path, paragraph, words_max)


def check_file(path: str, words_max: int = WORDS_MAX) -> list[Finding]:
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")
    if path.endswith((".h", ".cc", ".proto")):
        return list(check_code(path, lines, "//", words_max))
    if path.endswith(".md"):
        return list(check_markdown(path, lines, words_max))
    if path.endswith((".py", ".sh", ".bzl", "BUILD.bazel")) or (lines and lines[0].startswith("#!") and "bash" in lines[0]):
        return list(check_code(path, lines, "#", words_max))
    return []


def files_below(paths: list[str]) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths],
        check=True, capture_output=True, text=True).stdout.split("\n")
    return [f for f in listed if f and os.path.isfile(f)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files or folders; all files of the repository without them")
    parser.add_argument("--rule", default=",".join(RULES), help="only these rules, separated by commas")
    parser.add_argument("--max_words", type=int, default=WORDS_MAX, help="words that a sentence may have")
    parser.add_argument("--summary", action="store_true", help="counts by folder and rule")
    arguments = parser.parse_args()
    rules = set(arguments.rule.split(","))
    findings = [f for path in files_below(arguments.paths) for f in check_file(path, arguments.max_words) if f.rule in rules]
    if arguments.summary:
        counts = Counter((os.path.dirname(f.file), f.rule) for f in findings)
        for (folder, rule), count in sorted(counts.items()):
            print(f"{count:5} {rule:10} {folder}")
        print(f"{len(findings):5} in all")
    else:
        for finding in findings:
            print(f"{finding.file}:{finding.line}: [{finding.rule}] {finding.text}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
