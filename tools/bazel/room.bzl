"""room: a folder is a library, a test program and a compilation.

A source of ours has 200 lines and includes 150,000 of headers, so sources that are compiled together cost a third of what
they cost apart. Each folder's sources become one translation unit, and so do its tests. Between folders Bazel refuses circles.
Inside a folder all names of anonymous namespaces share one scope and must differ.
"""

load("//tools/codegen:join.bzl", "join")

# Almost every source includes these. A program is linked only with the parts that it uses.
COMMON = ["@com_google_protobuf//:protobuf"] + ["@com_google_absl//absl/" + label for label in [
    "algorithm:container",
    "base:core_headers",
    "cleanup",
    "container:btree",
    "container:flat_hash_map",
    "container:flat_hash_set",
    "container:inlined_vector",
    "container:node_hash_map",
    "flags:flag",
    "functional:any_invocable",
    "functional:function_ref",
    "status",
    "status:statusor",
    "strings",
    "strings:cord",
    "strings:str_format",
    "synchronization",
    "time",
    "types:span",
]]

# The compiler's options of sources that are compiled with the precompiled header of the same name (BUILD.bazel).
OPTIONS = {
    # gcc inlines less in units of more than 10,000 instructions: an emission or a delivery took a tenth more instructions. The
    # precompiled header must have the parameter, too. The warning is false for lists of strings (GCC 105329).
    "optimised": ["--param=large-unit-insns=100000", "-Wno-stringop-overread"],
    "quickly_compiled": ["-Og"],
    "tests": ["-Og"],
}

def _seen_by(package):
    """Folders of a service are for that service and the tests; its api and its top are for all."""
    parts = package.split("/")
    if parts[0] != "services" or parts[-1] in ["api", "service"]:
        return ["//visibility:public"]
    return ["//%s/%s:__subpackages__" % (parts[0], parts[1]), "//docs:__subpackages__", "//services/standalone:__subpackages__", "//tests:__subpackages__"]

def _testonly(package):
    return package.startswith("tests/") or "/testing" in package or package == "common/sim"

def _headers(package):
    """The precompiled header of a folder, and so its options (OPTIONS). Services are optimised, and what benchmarks and the simulation run; the rest has half the time of compilation instead."""
    hot = ["common", "services", "tests/bench", "tests/budget", "tests/fixtures", "tests/simulation"]
    if "/testing" not in package and [folder for folder in hot if (package + "/").startswith(folder + "/")]:
        return "optimised"
    return "quickly_compiled"

def _first(headers):
    return ["tools/bazel/%s.h" % headers, "tools/bazel/%s_digest.h" % headers]

def room(deps = [], apart = [], generated = [], data = [], units = 1):
    """The library of a folder: its sources but those of tests. Its label is the folder's path.

    Args:
      deps: labels of other folders, and of libraries that not every source includes.
      apart: sources that belong to other rules, such as those of programs.
      generated: sources made by other rules; each is compiled by itself.
      data: files that users of the library read at run time.
      units: translation units; more than one only if one needs more than 40 s or 2 GB.
    """
    package = native.package_name()
    name = package.split("/")[-1]
    srcs = native.glob(["*.cc"], exclude = ["*_test.cc"] + apart)
    headers = _headers(package)
    native.cc_library(
        name = name,
        testonly = _testonly(package),
        srcs = (join(name, srcs, units, _first(headers)) if srcs else []) + generated,
        hdrs = native.glob(["*.h"]),
        data = data,
        copts = OPTIONS[headers],
        visibility = _seen_by(package),
        deps = deps + COMMON + ["//tools/bazel:" + headers],
    )

def room_test(deps = [], name = None, srcs = None, apart = [], units = 1, size = "medium", **kwargs):
    """The test program of a folder: its sources *_test.cc. It comes after the folder's room(), if it has one.

    Each source has a namespace of its own, called as the file. `tools/test //the/folder --test_filter=Suite.Case` runs one case.

    Args:
      deps: what only the tests include; the folder's own library is added.
      name: the folder's with _test, if not given.
      srcs: its sources, if the folder has several test programs.
      apart: sources *_test.cc that belong to other programs.
      units: as in room().
      size: limit of time for each shard, as in Bazel: small 60 s, medium 300 s, large 900 s.
      **kwargs: as in cc_test: data, env, malloc, shard_count, tags. Tests that wait for deadlines with both cores busy have the tag cpu:2.
    """
    room = native.package_name().split("/")[-1]
    name = name or room + "_test"
    native.cc_test(
        name = name,
        size = size,
        srcs = join(name, srcs or native.glob(["*_test.cc"], exclude = apart), units, _first("tests")),
        copts = OPTIONS["tests"],
        deps = deps + ([":" + room] if native.existing_rule(room) else []) + COMMON + [
            "//tools/bazel:tests",
            "@com_google_googletest//:gtest",
            "@com_google_googletest//:main",
        ],
        **kwargs
    )
