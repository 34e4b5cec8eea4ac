"""Runs "A first trigger in ten minutes" of README.md against a standalone platform: the receiver, the commands of
escctl, and the same with curl. Only the addresses are replaced."""
import os
import pathlib
import re
import subprocess
import tempfile

from processes import DEADLINE, Child, Standalone, await_true

ROOT = pathlib.Path(__file__).absolute().parents[2]  # of the runfiles
SERVE = "http.server.HTTPServer(('127.0.0.1', 8080), Receiver).serve_forever()"
SERVE_ANYWHERE = (
    "server = http.server.HTTPServer(('127.0.0.1', 0), Receiver); print('listening', server.server_port, flush=True); "
    "server.serve_forever()")
CURL_MAX = 5


def section():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split("## A first trigger in ten minutes\n", 1)[1].split("\n## ", 1)[0]


def code(text):
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def receiver_program(commands):
    program = re.search(r'^python3 -u -c "[^\n]*\n(.*?)" &$', commands, re.MULTILINE | re.DOTALL).group(1)
    assert SERVE in program, program
    return program.replace(SERVE, SERVE_ANYWHERE)


def run(command, platform):
    print("$", command, flush=True)
    done = subprocess.run(
        ["bash", "-c", command], env=platform.environment, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE)
    print(done.stdout, flush=True)
    return done.stdout


def main():
    commands = code(section())
    escctl = re.findall(r"^\$escctl (.*)$", commands, re.MULTILINE)
    curl = re.findall(r"^curl .*$", commands, re.MULTILINE)
    api = re.search(r"^api=(.*)$", commands, re.MULTILINE).group(0)
    assert escctl, commands
    assert 3 <= len(curl) <= CURL_MAX, curl

    folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    running = [platform := Standalone(ROOT / "services/standalone/standalone", folder)]
    try:
        running.append(receiver := Child("receiver", ["/usr/bin/python3", "-u", "-c", receiver_program(commands)], cwd=folder))
        port = receiver.await_line("listening ")

        def call(command):
            command = command.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("127.0.0.1:7411", platform.http)
            return run(command, platform)

        # Each way creates first, then shows and deletes what has been delivered.
        for prefix, lines in ((f"{ROOT}/tools/escctl/escctl ", escctl), ("", curl)):
            arrived = len(receiver.lines)
            for line in lines:
                command = f"{api}\n{line}" if line.startswith("curl") else prefix + line
                if "runs" not in line:
                    assert '"error"' not in call(command)
                    continue
                # Both the schedule's events and, with curl, the event that is due at once.
                for body in (['{"hi":1}'] if line in escctl else ['{"hi":1}', '{"hi":2}']):
                    while body not in " ".join(receiver.lines[arrived:]):
                        assert receiver.next_line() is not None, "the receiver ended"
                # The run completes when the receiver has answered, a moment after its line.
                await_true("a completed run", lambda shown=command: "COMPLETED" in call(shown))
            assert platform.status("/v1/tenants/default/schedules/hello") == 404, "the schedule must be deleted"
    finally:
        for child in reversed(running):
            child.end()


if __name__ == "__main__":
    main()
