"""python_test: a test in Debian's Python."""

def python_test(name, data = [], script = None, args = [], **kwargs):
    """A test that runs a program of its folder.

    Args:
      name: of the test.
      data: what the program reads, without itself.
      script: the program; by default the name with .py.
      args: its arguments.
      **kwargs: as for sh_test.
    """
    script = script or name + ".py"
    native.sh_test(
        name = name,
        srcs = ["//tests/clients:run_python.sh"],
        args = [script] + args,
        data = [script] + data,
        **kwargs
    )
