"""cc_protos: the C++ of a folder's protos, made with the system's protoc and gRPC's plugin."""

load(":join.bzl", "join")

def _import_path(source):
    """The path by which other protos import `source` (strip_import_prefix makes a virtual tree)."""
    return source.path[source.path.find("_virtual_imports/") + len("_virtual_imports/"):].split("/", 1)[1]

def _codegen_impl(ctx):
    info = ctx.attr.proto[ProtoInfo]
    imports = [_import_path(source) for source in info.direct_sources]
    groups = {}
    for suffix in [".pb.h", ".pb.cc", ".grpc.pb.h", ".grpc.pb.cc"]:
        if ctx.attr.services or not suffix.startswith(".grpc"):
            groups[suffix[1:].replace(".", "_")] = depset([
                ctx.actions.declare_file(path.rpartition("/")[2][:-len(".proto")] + suffix)
                for path in imports
            ])
    outs = [file for group in groups.values() for file in group.to_list()]

    # protoc writes to <out>/<import path>; the package's own folder must come out of it.
    folder = outs[0].dirname[:-len(imports[0].rpartition("/")[0]) - 1]
    args = ctx.actions.args()
    args.add("--cpp_out=" + folder)
    if ctx.attr.services:
        args.add("--plugin=protoc-gen-grpc=" + ctx.executable._plugin.path)
        args.add("--grpc_out=" + folder)
    args.add_joined(info.transitive_descriptor_sets, join_with = ":", format_joined = "--descriptor_set_in=%s")
    args.add_all(imports)
    ctx.actions.run(
        executable = ctx.executable._protoc,
        arguments = [args],
        inputs = info.transitive_descriptor_sets,
        tools = [ctx.executable._plugin],
        outputs = outs,
        mnemonic = "ProtoCodegen",
    )
    return [DefaultInfo(files = depset(outs)), OutputGroupInfo(**groups)]

_codegen = rule(
    implementation = _codegen_impl,
    attrs = {
        "proto": attr.label(mandatory = True, providers = [ProtoInfo]),
        "services": attr.bool(),
        "_protoc": attr.label(
            default = "@com_google_protobuf//:protoc",
            executable = True,
            cfg = "host",
            allow_single_file = True,
        ),
        "_plugin": attr.label(
            default = "@com_github_grpc_grpc//:grpc_cpp_plugin",
            executable = True,
            cfg = "host",
            allow_single_file = True,
        ),
    },
)

def cc_protos(proto_deps = [], deps = [], services = False):
    """The folder's protos as `proto`, their classes as the folder's label, and gRPC's stubs as `grpc`.

    Args:
      proto_deps: proto_library targets that they import.
      deps: the C++ of the same.
      services: true if they have services; `grpc` exists only then.
    """
    name = native.package_name().split("/")[-1]
    native.proto_library(
        name = "proto",
        srcs = native.glob(["*.proto"]),
        strip_import_prefix = "/proto",
        deps = proto_deps,
    )
    _codegen(name = "codegen", proto = ":proto", services = services)
    for group in ["pb_h", "pb_cc"] + (["grpc_pb_h", "grpc_pb_cc"] if services else []):
        native.filegroup(name = group, srcs = [":codegen"], output_group = group)
    options = {"copts": ["-w"], "strip_include_prefix": "/proto"}
    native.cc_library(
        name = name,
        # protoc gives these names to tables of each file.
        srcs = join(name, [":pb_cc"], 1, repeated = ["file_default_instances", "schemas"]),
        hdrs = [":pb_h"],
        deps = deps + ["@com_google_protobuf//:protobuf"],
        **options
    )
    if services:
        native.cc_library(
            name = "grpc",
            srcs = join("grpc", [":grpc_pb_cc"], 1),
            hdrs = [":grpc_pb_h"],
            deps = [":" + name, "@com_github_grpc_grpc//:grpc++"],
            **options
        )
