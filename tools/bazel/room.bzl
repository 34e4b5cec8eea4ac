"""room: a folder is a library, a test program and a compilation.

A source of ours has 150 lines and includes 150,000 of headers, so sources that are compiled together cost a third of what
they cost apart. Each folder's sources become one translation unit, and so do its tests. Between folders Bazel refuses circles.
Inside a folder all names of anonymous namespaces share one scope and must differ.
"""

# What almost every source includes. Programs are linked with what they use of it.
_COMMON = ["@com_google_protobuf//:protobuf"] + ["@com_google_absl//absl/" + label for label in [
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

def _units_impl(ctx):
    outs = ctx.outputs.outs
    sources = ctx.files.srcs
    for i, out in enumerate(outs):
        part = sources[i * len(sources) // len(outs):(i + 1) * len(sources) // len(outs)]
        ctx.actions.run_shell(
            command = "for f in \"$@\"; do echo \"#line 1 \\\"$f\\\"\"; cat \"$f\"; echo; done > " + out.path,
            arguments = [source.path for source in part],
            inputs = part,
            outputs = [out],
            mnemonic = "JoinSources",
        )

_units = rule(
    implementation = _units_impl,
    doc = "Few sources of many: each has its part of `srcs`, one after the other. The compiler's messages name the original file and line.",
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc"]),
        "outs": attr.output_list(mandatory = True),
    },
)

def join(name, srcs, count):
    """Joins `srcs` to `count` sources of about as many files each, in order; returns their names."""
    outs = ["%s_unit%s.cc" % (name, "" if count == 1 else str(i + 1)) for i in range(count)]
    _units(name = name + "_units", srcs = srcs, outs = outs)
    return outs

def _seen_by(package):
    """Folders of a service are for that service and the tests; its api and its top are for all."""
    parts = package.split("/")
    if parts[0] != "services" or parts[-1] in ["api", "service"]:
        return ["//visibility:public"]
    return ["//%s/%s:__subpackages__" % (parts[0], parts[1]), "//docs:__subpackages__", "//services/standalone:__subpackages__", "//tests:__subpackages__"]

def room(
        deps = [],
        name = None,
        apart = [],
        generated = [],
        data = [],
        units = 1,
        tests = None,
        test_deps = [],
        test_data = [],
        test_env = {},
        test_malloc = None,
        test_shards = 1,
        test_size = "medium",
        test_units = 1):
    """The library of a folder and, if it has sources *_test.cc, its test program NAME_test.

    Args:
      deps: labels of other folders, and of libraries that not every source includes.
      name: of the library; the folder's, so that its label is the folder's path.
      apart: sources that belong to other rules, such as main.cc.
      generated: sources made by other rules; each is compiled by itself.
      data: files that users of the library read at run time.
      units: translation units of the library; more than one only if one needs more than 40 s or 2 GB.
      tests: the sources of the test program.
      test_deps: what only the tests include.
      test_data: files and programs that the tests use at run time.
      test_env: environment of the tests.
      test_malloc: allocator of the test program.
      test_shards: the test program runs as so many processes, each with a part of the cases.
      test_size: limit of time for each shard, as in Bazel: small 60 s, medium 300 s, large 900 s.
      test_units: translation units of the tests.
    """
    package = native.package_name()
    name = name or package.split("/")[-1]
    testonly = package.startswith("tests/") or "/testing" in package or package == "common/sim"
    srcs = native.glob(["*.cc"], exclude = ["*_test.cc"] + apart)
    hdrs = native.glob(["*.h"])
    if srcs or hdrs or generated:
        native.cc_library(
            name = name,
            testonly = testonly,
            srcs = (join(name, srcs, units) if srcs else []) + generated,
            hdrs = hdrs,
            data = data,
            visibility = _seen_by(package),
            deps = deps + _COMMON,
        )
        test_deps = [":" + name] + test_deps
    tests = native.glob(["*_test.cc"], exclude = apart) if tests == None else tests
    if tests:
        malloc = {"malloc": test_malloc} if test_malloc else {}
        native.cc_test(
            name = name + "_test",
            size = test_size,
            srcs = join(name + "_test", tests, test_units),
            # Half the time of compilation; what the tests call is optimised.
            copts = ["-O1"],
            data = test_data,
            env = test_env,
            shard_count = test_shards if test_shards > 1 else None,
            deps = test_deps + _COMMON + ["@com_google_googletest//:gtest", "@com_google_googletest//:main"],
            **malloc
        )
