"""A libFuzzer target, and a test that replays its corpus without libFuzzer."""

def fuzz_target(name, deps):
    """Makes NAME_fuzz (tools/dev fuzz NAME) and NAME_fuzz_test from NAME_fuzz.cc and corpus/NAME."""
    native.cc_library(
        name = name + "_properties",
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        deps = deps + [
            "//tests/fuzz",
        ],
        alwayslink = True,
    )

    # Only with --config=fuzz.
    native.cc_binary(
        name = name + "_fuzz",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_properties"],
    )
    native.cc_test(
        name = name + "_fuzz_test",
        size = "small",
        data = ["corpus/" + name],
        env = {"CORPUS": name},
        deps = [
            ":" + name + "_properties",
            "//tests/fuzz:replay",
            "@com_google_googletest//:main",
        ],
    )
