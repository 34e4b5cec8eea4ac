"""Each command of escctl in the documents exists, with its options and as many words as it takes. Nothing is called."""
import functools
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv[0]).absolute().parents[2]  # of the runfiles
DEADLINE = 60  # seconds for each call of escctl
BLOCK = re.compile(r"^ *```(?:sh|bash)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(escctl [a-z][^`]*)`")
OPTION = re.compile(r"^  (?:(-\w),)?(--[\w-]+)( (?!REQUIRED|Excludes|Needs)[A-Z]+)?", re.MULTILINE)
SHELL = {"|", "&&", "||", ";", "&"}


@functools.cache
def help_of(path):
    """The sections of a command's help: name → text."""
    said = subprocess.run([ROOT / "tools/escctl/escctl", *path, "--help"], stdout=subprocess.PIPE, text=True, check=True,
                          timeout=DEADLINE).stdout
    parts = re.split(r"^(Options|Positionals|Subcommands):\n", said, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def options_of(path):
    """Name → whether it takes a value. Options of a group hold for its commands, too."""
    options = {}
    for level in range(len(path) + 1):
        for short, name, value in OPTION.findall(help_of(path[:level]).get("Options", "")):
            options.update({each: bool(value) for each in (short, name) if each})
    return options


def names_in(section):
    return re.findall(r"^  ([\w-]+)(?: |$)", section, re.MULTILINE)


def fault_of(words):
    """Why the words after `escctl` are no command; None: they are one."""
    path, values = (), 0
    words = list(words)
    while words:
        word = words.pop(0)
        if word in ("…", "..."):
            return None
        name = word.partition("=")[0]
        if word.startswith("-") and word != "-":
            options = options_of(path)
            if name not in options:
                return f"escctl {' '.join(path)} has no option {name}"
            if options[name] and "=" not in word:
                if not words:
                    return f"{name} has no value"
                words.pop(0)
        elif word in names_in(help_of(path).get("Subcommands", "")):
            path += (word,)
        elif "Subcommands" in help_of(path):
            return f"escctl {' '.join(path)} has no command {word}"
        else:
            values += 1
    positionals = help_of(path).get("Positionals", "")
    if "..." not in positionals and values > len(names_in(positionals)):
        return f"escctl {' '.join(path)} takes fewer words"
    return None


def commands(text):
    """The words of each command after `escctl`."""
    lines = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()] + INLINE.findall(text)
    for line in lines:
        try:
            words = shlex.split(re.sub(r"\$\([^)]*\)", "VALUE", line), comments=True)
        except ValueError:  # a line of a longer text of another program
            continue
        while "escctl" in words:
            words = words[words.index("escctl") + 1:]
            end = next((at for at, word in enumerate(words) if word in SHELL or word.startswith(("<", ">"))), len(words))
            yield words[:end]
            words = words[end:]


class DocsCommandsTest(unittest.TestCase):
    def test_each_command_of_escctl_exists(self):
        pages = [*sorted(ROOT.glob("docs/*/*.md")), ROOT / "README.md"]
        found = 0
        for page in pages:
            for words in commands(page.read_text(encoding="utf-8")):
                found += 1
                with self.subTest(page.name, command=" ".join(words)):
                    self.assertIsNone(fault_of(words))
        self.assertGreater(found, 60)

    def test_wrong_commands_are_found(self):
        for words, fault in ((["store", "stats"], "no command stats"), (["store", "status", "--all"], "no option --all"),
                             (["schedule", "list", "--filter"], "has no value"), (["admin", "secret-key", "x"], "fewer words")):
            self.assertIn(fault, fault_of(words))


if __name__ == "__main__":
    unittest.main()
