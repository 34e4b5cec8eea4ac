#!/usr/bin/env python3
"""Checks the mechanical rules of plain English in comments, documents and test names.

Prints each breach as `file:line: [rule] text`. Exits 1 if there is any, and 2 if it could not check.
The rules; each ignores text in `backticks` and "quotes":

  opening    a sentence must not open with "Of", "What", "Whoever" and the like: say who acts
  word       obscure words, where the field has a term
  length     a sentence has at most 40 words (aim at 25)
  date       comments speak of the present: no "until 23 November" outside calendars, ADRs and docs/history.md
  trailing   a comment behind code is a whole phrase
  test_name  a test's name has at most 60 characters and opens as a sentence does

Checked are the comments of C++ (//), protos (//), Python, shell and BUILD files (#), README.md in every folder, and docs/.
In Markdown, headings, code blocks and indented code are skipped, and a question may open with "What".
"""
import argparse
import io
import os
import re
import subprocess
import sys
import tokenize
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

WORDS_MAX = 40
TEST_NAME_MAX = 60
RULES = ("opening", "word", "length", "date", "trailing", "test_name")

OPENINGS = re.compile(
    r"(Of|What|Whatever|Whoever|Who|Whom|Those (of whom|who|that|which)|Such|But for|Is (it|there)|Has (it|one)|Were|Had|"
    r"Nothing but|None but|Nobody)\b")
WORDS = re.compile(
    r"\b(lets? go of|letting go of|the word of|(is|are|was|were) told|heard of|anew|meanwhile|brought up|(is|are) owed|looked at|"
    r"minds|nobody has|whom|none but|nothing but|but for)\b", re.IGNORECASE)
MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
DAY_OF_MONTH = rf"\d{{1,2}} {MONTH}\b"
# A full timestamp (2026-11-25T10:00:00Z) is an example, not a date.
SINCE_DATE = re.compile(
    rf"\b(?:since|until|as of|on|before|after) (?:the )?"
    rf"(?:{DAY_OF_MONTH}|{MONTH} \d{{1,2}}\b|{MONTH} \d{{4}}\b|\d{{4}}-\d\d-\d\d(?!T?\d))", re.IGNORECASE)
CODE_DATE = re.compile(rf"\b{DAY_OF_MONTH}")
DATES_ALLOWED = re.compile(r"(common/(cron|tzdata)|tests|docs/adr)/|docs/(history|cron\w*)\.md$")
# A sentence with one of these is about clocks and calendars, or says when a figure was measured.
DATED = re.compile(
    r"\b([Mm]easured on|time zones?|zones?|tzdata|DST|(summer|winter|standard|local|civil) time|UTC|calendars?|leap|"
    r"[A-Z][a-z]+/[A-Z][A-Za-z_]+)\b|\d in [A-Z][a-z]+")
TRAILING = re.compile(r"(of|by whom|whose|what)\b")
NOT_PROSE = re.compile(r"NOLINT|clang-format|IWYU|shellcheck|!/")

CPP_TOKEN = re.compile(
    r'(?P<raw>\b(?:u8|u|U|L)?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)")'
    r'|(?P<text>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r"|(?P<word>[A-Za-z0-9_](?:[A-Za-z0-9_]|'(?=[A-Za-z0-9_]))*)"  # 1'000 is a number
    r"|(?P<block>/\*.*?\*/)"
    r"|//(?P<comment>[^\n]*)", re.DOTALL)
TEST_OPENINGS = re.compile(r"(Of|What|Whatever|Who|Whoever|Whom|Those|Such|But)[A-Z]")
TEST = re.compile(r"\b(?:TEST|TEST_F|TEST_P)\(\s*\w+,\s*(\w+)\s*\)")

# A sentence ends here, except after an abbreviation or an initial.
SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\betc)(?<!\bcf)(?<!\bNo)(?<!\b[A-Z])[.?!][)\"'*_]*\s+(?=[A-Z(\"`*_])")
AFTER_COLON = re.compile(r":\s+(?=[A-Z])")
TABLE_ROW = re.compile(r"\S {3,}\S")  # text in columns
LIST_ITEM = re.compile(r"(?:[-*•+]|\d{1,2}[.)]|\([a-z0-9]\))\s+")
MASKED = re.compile(r"``.*?``|`[^`]*`|\"[^\"]*\"|“[^”]*”|\bhttps?://[^\s)]*[^\s).,;]", re.DOTALL)


class Finding(NamedTuple):
    file: str
    line: int
    rule: str
    text: str


class Comment(NamedTuple):
    line: int
    column: int
    behind_code: bool
    text: str  # without its marker


class Line(NamedTuple):
    """One line of prose. `starts` separates it from the prose above."""
    number: int
    text: str
    starts: bool = False


class Paragraph(NamedTuple):
    text: str
    numbers: list[int]  # line numbers, one for each offset
    offsets: list[int]  # where each line begins in text

    def line_at(self, offset: int) -> int:
        return self.numbers[bisect_right(self.offsets, offset) - 1]


def mask(text: str) -> str:
    """Replaces quoted text by one word of the same length, which keeps a final full stop."""
    def word(match: re.Match[str]) -> str:
        size = len(match.group(0))
        if size > 3 and match.group(0)[-2] in ".?!":
            return "X" + "x" * (size - 2) + match.group(0)[-2]
        return "X" + "x" * (size - 1)
    return MASKED.sub(word, text)


def pieces(text: str, end: re.Pattern[str], offset: int = 0) -> Iterator[tuple[int, str]]:
    """The parts of `text` between matches of `end`, each with its offset and its final punctuation."""
    start = 0
    for match in end.finditer(text):
        yield offset + start, text[start:match.end()].rstrip()
        start = match.end()
    if text[start:].strip():
        yield offset + start, text[start:].rstrip()


def words_in(sentence: str) -> int:
    return sum(1 for word in sentence.split() if any(c.isalnum() for c in word))


def check_paragraph(path: str, paragraph: Paragraph, words_max: int) -> Iterator[Finding]:
    """The rules about prose."""
    markdown = path.endswith(".md")

    def finding(rule: str, offset: int, start: int, prefix: str = "") -> Finding:
        return Finding(path, paragraph.line_at(offset), rule, prefix + paragraph.text[start:start + 90])

    for start, sentence in pieces(mask(paragraph.text), SENTENCE_END):
        for clause_start, clause in pieces(sentence, AFTER_COLON, start):
            bare = clause.lstrip("(*_")
            if OPENINGS.match(bare) and not (markdown and bare.rstrip(")*_").endswith("?")):
                yield finding("opening", clause_start, clause_start)
        for word in WORDS.finditer(sentence):
            yield finding("word", start + word.start(), start, f"'{word.group(0)}' in: ")
        count = words_in(sentence)
        if count > words_max:
            yield finding("length", start, start, f"{count} words: ")
        if not DATES_ALLOWED.match(path) and not DATED.search(sentence):
            date = SINCE_DATE.search(sentence) or (None if markdown else CODE_DATE.search(sentence))
            if date:
                yield finding("date", start + date.start(), start, f"'{date.group(0)}' in: ")


def paragraphs(lines: list[Line]) -> Iterator[Paragraph]:
    """Joins lines of prose. An empty line, a gap, a list item and a row of columns each end a paragraph, and so does
    other indentation outside a list item."""
    text, numbers, offsets = "", [], []
    last, indent, in_item = -1, 0, False
    for line in lines:
        body = line.text.strip()
        item = LIST_ITEM.match(body)
        depth = len(line.text) - len(line.text.lstrip())
        apart = not body or line.starts or line.number != last + 1 or TABLE_ROW.search(body)
        moved = depth <= indent if in_item else abs(depth - indent) >= 2
        if text and (apart or item or moved):
            yield Paragraph(text, numbers, offsets)
            text, numbers, offsets = "", [], []
        last = line.number
        if not text:
            indent, in_item = depth, item is not None
            body = body[item.end():] if item else body
        if not body:
            continue
        text += " " if text else ""
        numbers.append(line.number)
        offsets.append(len(text))
        text += body
    if text:
        yield Paragraph(text, numbers, offsets)


def comment_lines(comments: list[Comment]) -> Iterator[Line]:
    """Comments as lines of prose. A comment behind code goes on in the comment lines
    below it that begin at the same column."""
    trailing_column = -1
    for number, column, behind_code, text in comments:
        goes_on = not behind_code and column == trailing_column
        starts = behind_code or (trailing_column >= 0 and not goes_on)
        if behind_code:
            trailing_column = column
        elif not goes_on:
            trailing_column = -1
        if not NOT_PROSE.match(text.strip()):
            yield Line(number, text[1:] if text.startswith(" ") else text, starts)


def cpp_comments(text: str) -> Iterator[Comment]:
    number, scanned = 1, 0
    for match in CPP_TOKEN.finditer(text):
        if match.group("comment") is None:
            continue
        number += text.count("\n", scanned, match.start())
        scanned = match.start()
        line_start = text.rfind("\n", 0, match.start()) + 1
        behind_code = bool(text[line_start:match.start()].strip())
        yield Comment(number, match.start() - line_start, behind_code, match.group("comment").lstrip("/"))


def python_comments(text: str) -> Iterator[Comment]:
    """Comments of Python and BUILD files."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            number, column = token.start
            yield Comment(number, column, bool(token.line[:column].strip()), token.string[1:])


def shell_comments(text: str) -> Iterator[Comment]:
    """Comments of a shell script: a # that begins a word, outside quotes and here-documents."""
    quote, here = "", ""
    for number, line in enumerate(text.split("\n"), 1):
        if here:
            here = "" if line.strip() == here else here
            continue
        i = 0
        while i < len(line):
            c = line[i]
            if c == "\\" and quote != "'":
                i += 1
            elif quote:
                quote = "" if c == quote else quote
            elif c in "\"'":
                quote = c
            elif c == "#" and (i == 0 or line[i - 1] in " \t;()"):
                yield Comment(number, i, bool(line[:i].strip()), line[i + 1:])
                line = line[:i]
            i += 1
        started = None if quote else re.search(r"(?<!<)<<-?\s*([\"']?)([A-Za-z_]\w*)\1", line)
        here = started.group(2) if started else ""


def check_code(path: str, text: str, words_max: int) -> Iterator[Finding]:
    cpp = path.endswith((".h", ".cc", ".proto"))
    if cpp:
        comments = list(cpp_comments(text))
    elif path.endswith((".py", ".bzl")) or is_build_file(path):
        comments = list(python_comments(text))
    else:
        comments = list(shell_comments(text))
    if cpp:
        for number, _, behind_code, comment in comments:
            if behind_code and TRAILING.match(comment.strip()):
                yield Finding(path, number, "trailing", comment.strip()[:90])
    if path.endswith((".h", ".cc")):
        for test in TEST.finditer(text):
            name = test.group(1)
            if len(name) > TEST_NAME_MAX or TEST_OPENINGS.match(name):
                line = text.count("\n", 0, test.start(1)) + 1
                yield Finding(path, line, "test_name", f"{len(name)} characters: {name}")
    for paragraph in paragraphs(list(comment_lines(comments))):
        yield from check_paragraph(path, paragraph, words_max)


def check_markdown(path: str, text: str, words_max: int) -> Iterator[Finding]:
    prose: list[Line] = []
    fence, listed, blank = "", False, True
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        opened = re.match(r"(```|~~~)", bare)
        if opened and fence in ("", opened.group(1)):
            fence = "" if fence else opened.group(1)
            continue
        if fence:
            continue
        code = line.startswith("    ") and blank and not listed
        blank = not bare
        if bare and not line.startswith(" "):
            listed = LIST_ITEM.match(bare) is not None
        if code or re.match(r"#{1,6} ", bare):
            blank = True
            continue
        # Links count by their text.
        line = re.sub(r"\]\([^)\s]*\)", "]", line)
        if bare.startswith("|"):
            row = re.sub(r"`[^`]*`", lambda code: code.group(0).replace("|", "¦"), line.strip().strip("|"))
            for cell in re.split(r"(?<!\\)\|", row):
                yield from check_paragraph(path, Paragraph(cell.strip(), [number], [0]), words_max)
            continue
        quoted = re.match(r"\s*(?:> ?)+", line)
        prose.append(Line(number, line[quoted.end():] if quoted else line))
    yield from (f for paragraph in paragraphs(flat(prose)) for f in check_paragraph(path, paragraph, words_max))


def flat(lines: list[Line]) -> list[Line]:
    """Gives Markdown the indentation that paragraphs() expects: 3 for a line that continues a list item, otherwise 0."""
    in_item = False
    out: list[Line] = []
    for line in lines:
        body = line.text.strip()
        item = LIST_ITEM.match(body) is not None
        out.append(Line(line.number, body if item or not in_item else "   " + body))
        in_item = bool(body) and (item or in_item)
    return out


def is_build_file(path: str) -> bool:
    return os.path.basename(path) in ("BUILD", "BUILD.bazel", "WORKSPACE")


def is_prose(path: str) -> bool:
    return path.endswith(".md") and (os.path.basename(path) == "README.md" or path.startswith("docs/"))


def check_text(path: str, text: str, words_max: int = WORDS_MAX) -> list[Finding]:
    """Findings in `text`, the content of the file `path` (relative to the repository's root, which some rules look at)."""
    if is_prose(path):
        found = check_markdown(path, text, words_max)
    elif (path.endswith((".h", ".cc", ".proto", ".py", ".bzl", ".sh")) or is_build_file(path)
          or re.match(r"#!.*\b(ba)?sh\b", text)):
        found = check_code(path, text, words_max)
    else:
        return []
    return sorted(set(found), key=lambda finding: (finding.line, finding.rule, finding.text))


def files_below(root: str, paths: list[str]) -> list[str]:
    """The repository's files at or below `paths`, relative to its root."""
    relative = [os.path.relpath(os.path.abspath(path), root) for path in paths]
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *relative],
        check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({f for f in listed if f and os.path.isfile(os.path.join(root, f))})


def rule_names(text: str) -> set[str]:
    names = set(text.split(","))
    if not names <= set(RULES):
        raise argparse.ArgumentTypeError(f"rules are {', '.join(RULES)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files or folders (default: the whole repository)")
    parser.add_argument("--rule", type=rule_names, default=set(RULES), help="only these rules, separated by commas")
    parser.add_argument("--max_words", type=int, default=WORDS_MAX, help="words that a sentence may have")
    parser.add_argument("--summary", action="store_true", help="counts by folder and rule")
    arguments = parser.parse_args()
    for path in arguments.paths:
        if not os.path.exists(path):
            parser.error(f"no such file or folder: {path}")
    root = subprocess.run(["git", "rev-parse", "--show-toplevel"], check=True, capture_output=True, text=True).stdout.strip()
    findings: list[Finding] = []
    for path in files_below(root, arguments.paths or [root]):
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            found = check_text(path, file.read(), arguments.max_words)
        findings += [finding for finding in found if finding.rule in arguments.rule]
    if arguments.summary:
        counts = Counter((os.path.dirname(finding.file) or ".", finding.rule) for finding in findings)
        totals = Counter(finding.rule for finding in findings)
        for (folder, rule), count in sorted(counts.items()):
            print(f"{count:5} {rule:10} {folder}")
        for rule in RULES:
            print(f"{totals[rule]:5} {rule:10} in all")
        print(f"{len(findings):5} in all")
    else:
        for finding in findings:
            print(f"{finding.file}:{finding.line}: [{finding.rule}] {finding.text}")
    return 1 if findings else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.CalledProcessError, SyntaxError, tokenize.TokenError) as error:
        print(f"english.py: {error}", file=sys.stderr)
        sys.exit(2)
