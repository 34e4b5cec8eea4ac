"""Wraps libraries installed by the operating system under their upstream repository names.

Each repository gets BUILD files whose labels are those of the upstream project, so that a workspace that
builds the libraries from source can take their place without a change to our BUILD files.
"""

def _all_of(ctx, pattern):
    """Linker flags for every shared library that matches a shell pattern."""
    result = ctx.execute(["sh", "-c", "cd /usr/lib/$(gcc -print-multiarch) 2>/dev/null && ls " + pattern])
    if result.return_code != 0:
        fail("no %s under the system's library folder: run tools/setup" % pattern)
    return ["-l" + name[len("lib"):-len(".so")] for name in result.stdout.split("\n") if name]

def _write_aliases(ctx, actual, labels):
    """One BUILD file a package, with an alias to `actual` for each 'package:target'."""
    packages = {}
    for label in labels:
        package, target = label.split(":")
        packages.setdefault(package, []).append(target)
    for package, targets in packages.items():
        if package == "":
            continue
        ctx.file(package + "/BUILD.bazel", "\n".join([
            'alias(name = "%s", actual = "%s", visibility = ["//visibility:public"])' % (t, actual)
            for t in targets
        ]) + "\n")

def _system_library_impl(ctx):
    for header in ctx.attr.probe_headers:
        if not ctx.path("/usr/include/" + header).exists:
            fail("missing /usr/include/%s: run tools/setup" % header)
    linkopts = list(ctx.attr.linkopts)
    if ctx.attr.link_pattern:
        linkopts = linkopts + ["-Wl,--as-needed"] + _all_of(ctx, ctx.attr.link_pattern)
    for link, target in ctx.attr.symlinks.items():
        ctx.symlink(target, link)
    build = [
        "cc_library(",
        '    name = "system",',
        "    defines = %r," % ctx.attr.defines,
        "    linkopts = %r," % linkopts,
        "    deps = %r," % ctx.attr.library_deps,
        '    visibility = ["//visibility:public"],',
        ")",
    ]
    for label in ctx.attr.labels:
        package, target = label.split(":")
        if package == "":
            build.append('alias(name = "%s", actual = ":system", visibility = ["//visibility:public"])' % target)
    ctx.file("BUILD.bazel", "\n".join(build) + "\n" + ctx.attr.extra_build)
    _write_aliases(ctx, "//:system", ctx.attr.labels)
    ctx.file("WORKSPACE", 'workspace(name = "%s")\n' % ctx.name)

_system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    attrs = {
        "labels": attr.string_list(doc = "'package:target' of the upstream project; an empty package is the root"),
        "linkopts": attr.string_list(),
        "link_pattern": attr.string(doc = "shell pattern of shared libraries to link as needed"),
        "library_deps": attr.string_list(),
        "defines": attr.string_list(),
        "probe_headers": attr.string_list(doc = "under /usr/include; their absence stops the build with a hint"),
        "symlinks": attr.string_dict(doc = "path in the repository → absolute path"),
        "extra_build": attr.string(),
    },
)

_WELL_KNOWN = [
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
]

_WELL_KNOWN_DEPS = {
    "api": ["source_context", "type"],
    "type": ["any", "source_context"],
}

def _protobuf_build():
    lines = ["""
exports_files(["protoc"])
proto_lang_toolchain(
    name = "cc_toolchain",
    command_line = "--cpp_out=$(OUT)",
    runtime = ":system",
    blacklisted_protos = [%s],
    visibility = ["//visibility:public"],
)
""" % ", ".join(['":%s_proto"' % p for p in _WELL_KNOWN])]
    for p in _WELL_KNOWN:
        lines.append("""
proto_library(
    name = "%s_proto",
    srcs = ["src/google/protobuf/%s.proto"],
    strip_import_prefix = "src",
    deps = %r,
    visibility = ["//visibility:public"],
)
""" % (p, p, [":%s_proto" % d for d in _WELL_KNOWN_DEPS.get(p, [])]))
    return "".join(lines)

_GOOGLEAPIS = "/usr/share/gocode/src/github.com/gogo/googleapis/google/"

_GOOGLEAPIS_BUILD = """
proto_library(
    name = "http_proto",
    srcs = ["google/api/http.proto"],
    visibility = ["//visibility:public"],
)
proto_library(
    name = "annotations_proto",
    srcs = ["google/api/annotations.proto"],
    deps = [":http_proto", "@com_google_protobuf//:descriptor_proto"],
    visibility = ["//visibility:public"],
)
proto_library(
    name = "client_proto",
    srcs = ["google/api/client.proto"],
    deps = ["@com_google_protobuf//:descriptor_proto"],
    visibility = ["//visibility:public"],
)
proto_library(
    name = "status_proto",
    srcs = ["google/rpc/status.proto"],
    deps = ["@com_google_protobuf//:any_proto"],
    visibility = ["//visibility:public"],
)
proto_library(
    name = "code_proto",
    srcs = ["google/rpc/code.proto"],
    visibility = ["//visibility:public"],
)
proto_library(
    name = "error_details_proto",
    srcs = ["google/rpc/error_details.proto"],
    deps = ["@com_google_protobuf//:duration_proto"],
    visibility = ["//visibility:public"],
)
cc_proto_library(name = "annotations_cc_proto", deps = [":annotations_proto"], visibility = ["//visibility:public"])
cc_proto_library(name = "status_cc_proto", deps = [":status_proto"], visibility = ["//visibility:public"])
cc_proto_library(name = "error_details_cc_proto", deps = [":error_details_proto"], visibility = ["//visibility:public"])
"""

_ABSL = [
    "absl/algorithm:container",
    "absl/base:base",
    "absl/base:core_headers",
    "absl/cleanup:cleanup",
    "absl/container:btree",
    "absl/container:fixed_array",
    "absl/container:flat_hash_map",
    "absl/container:flat_hash_set",
    "absl/container:inlined_vector",
    "absl/container:node_hash_map",
    "absl/debugging:failure_signal_handler",
    "absl/debugging:symbolize",
    "absl/flags:flag",
    "absl/flags:parse",
    "absl/flags:reflection",
    "absl/flags:usage",
    "absl/functional:any_invocable",
    "absl/functional:bind_front",
    "absl/functional:function_ref",
    "absl/hash:hash",
    "absl/memory:memory",
    "absl/numeric:bits",
    "absl/numeric:int128",
    "absl/random:random",
    "absl/status:status",
    "absl/status:statusor",
    "absl/strings:cord",
    "absl/strings:str_format",
    "absl/strings:strings",
    "absl/synchronization:synchronization",
    "absl/time:time",
    "absl/types:optional",
    "absl/types:span",
    "absl/types:variant",
]

def system_libraries():
    """Declares every system library that this project links."""
    _system_library(
        name = "com_google_absl",
        labels = _ABSL,
        link_pattern = "libabsl_*.so",
        probe_headers = ["absl/status/statusor.h"],
    )
    _system_library(
        name = "com_google_protobuf",
        labels = [":protobuf", ":protobuf_headers"],
        linkopts = ["-lprotobuf", "-lpthread"],
        probe_headers = ["google/protobuf/message.h"],
        symlinks = {
            "protoc": "/usr/bin/protoc",
            "src/google": "/usr/include/google",
        },
        extra_build = _protobuf_build(),
    )
    _system_library(
        name = "com_google_googleapis",
        symlinks = {
            "google/api/http.proto": _GOOGLEAPIS + "api/http.proto",
            "google/api/annotations.proto": _GOOGLEAPIS + "api/annotations.proto",
            "google/api/client.proto": _GOOGLEAPIS + "api/client.proto",
            "google/rpc/status.proto": _GOOGLEAPIS + "rpc/status.proto",
            "google/rpc/code.proto": _GOOGLEAPIS + "rpc/code.proto",
            "google/rpc/error_details.proto": _GOOGLEAPIS + "rpc/error_details.proto",
        },
        extra_build = _GOOGLEAPIS_BUILD,
    )
    _system_library(
        name = "com_github_grpc_grpc",
        labels = [":grpc++"],
        linkopts = ["-lgrpc++", "-lgrpc", "-lgpr", "-laddress_sorting"],
        library_deps = ["@com_google_protobuf//:protobuf", "@com_google_absl//:system"],
        probe_headers = ["grpcpp/grpcpp.h"],
        symlinks = {"grpc_cpp_plugin": "/usr/bin/grpc_cpp_plugin"},
        extra_build = 'exports_files(["grpc_cpp_plugin"])\n',
    )
    _system_library(
        name = "com_github_grpc_grpc_proto",
        symlinks = {
            "grpc/health/v1/health.proto": "/usr/share/grpc-proto/grpc/health/v1/health.proto",
            "grpc/reflection/v1alpha/reflection.proto": "/usr/share/grpc-proto/grpc/reflection/v1alpha/reflection.proto",
        },
        extra_build = """
proto_library(name = "reflection_proto", srcs = ["grpc/reflection/v1alpha/reflection.proto"])
cc_proto_library(name = "reflection_cc_proto", deps = [":reflection_proto"], visibility = ["//visibility:public"])
proto_library(name = "health_proto", srcs = ["grpc/health/v1/health.proto"], visibility = ["//visibility:public"])
""",
    )
    _system_library(
        name = "com_github_facebook_rocksdb",
        labels = [":rocksdb"],
        # The archive, not the shared library. There every access to a thread-local and every
        # internal call goes through a table, and RocksDB counts each comparison of keys in a
        # thread-local. With RocksDB's own memtable that was a quarter of all instructions
        # (docs/adr/0008). The archive needs the other libraries listed here.
        linkopts = ["-l:librocksdb.a", "-lsnappy", "-lz", "-lbz2", "-llz4", "-lzstd", "-lgflags"],
        probe_headers = ["rocksdb/db.h"],
    )
    _system_library(
        name = "com_google_googletest",
        labels = [":gtest", ":gtest_main"],
        linkopts = ["-lgmock", "-lgtest", "-lpthread"],
        probe_headers = ["gtest/gtest.h", "gmock/gmock.h"],
        extra_build = """
cc_library(name = "main", linkopts = ["-lgmock_main"], deps = [":system"], visibility = ["//visibility:public"])
""",
    )
    _system_library(
        name = "com_github_google_benchmark",
        labels = [":benchmark"],
        linkopts = ["-lbenchmark", "-lpthread"],
        probe_headers = ["benchmark/benchmark.h"],
    )
    _system_library(
        name = "com_github_curl_curl",
        labels = [":curl"],
        linkopts = ["-lcurl"],
    )
    _system_library(
        name = "com_github_confluentinc_librdkafka",
        labels = [":rdkafka"],
        linkopts = ["-lrdkafka"],
        probe_headers = ["librdkafka/rdkafka.h"],
    )
    _system_library(
        name = "postgres",
        labels = [":libpq"],
        linkopts = ["-lpq"],
        probe_headers = ["postgresql/libpq-fe.h"],
    )
    _system_library(
        name = "boringssl",
        labels = [":crypto", ":ssl"],
        linkopts = ["-lssl", "-lcrypto"],
        probe_headers = ["openssl/evp.h"],
    )
    _system_library(
        name = "boost",
        labels = [":asio", ":beast"],
        linkopts = ["-lpthread"],
        probe_headers = ["boost/beast.hpp"],
    )
    _system_library(
        name = "com_github_jupp0r_prometheus_cpp",
        labels = ["core:core"],
        linkopts = ["-lprometheus-cpp-core"],
        probe_headers = ["prometheus/registry.h"],
    )
    _system_library(
        name = "com_github_gabime_spdlog",
        labels = [":spdlog"],
        linkopts = ["-lspdlog", "-lfmt", "-lpthread"],
        defines = ["SPDLOG_SHARED_LIB", "SPDLOG_COMPILED_LIB", "SPDLOG_FMT_EXTERNAL"],
        probe_headers = ["spdlog/spdlog.h"],
    )
    _system_library(
        name = "com_github_cliutils_cli11",
        labels = [":cli11"],
        probe_headers = ["CLI/CLI.hpp"],
    )
    _system_library(
        name = "com_github_nlohmann_json",
        labels = [":json"],
        probe_headers = ["nlohmann/json.hpp"],
    )
    _system_library(
        name = "com_github_jbeder_yaml_cpp",
        labels = [":yaml-cpp"],
        linkopts = ["-lyaml-cpp"],
        probe_headers = ["yaml-cpp/yaml.h"],
    )
    _system_library(
        name = "com_github_cyan4973_xxhash",
        labels = [":xxhash"],
        linkopts = ["-lxxhash"],
        probe_headers = ["xxhash.h"],
    )
    _system_library(
        name = "com_github_intel_isa_l",
        labels = [":isa_l"],
        linkopts = ["-lisal"],
        probe_headers = ["isa-l/crc.h"],
    )
    _system_library(
        name = "zlib",
        labels = [":zlib"],
        linkopts = ["-lz"],
        probe_headers = ["zlib.h"],
    )
    _system_library(
        name = "com_github_jemalloc_jemalloc",
        labels = [":jemalloc"],
        linkopts = ["-Wl,--no-as-needed", "-ljemalloc", "-Wl,--as-needed"],
    )
