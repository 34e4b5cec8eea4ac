"""cc_grpc_library: gRPC C++ stubs of proto_library targets, made with the system's protoc and plugin."""

def _import_path(source):
    """The path by which other protos import `source` (strip_import_prefix makes a virtual tree)."""
    marker = "_virtual_imports/"
    at = source.path.find(marker)
    if at < 0:
        return source.short_path
    return source.path[at + len(marker):].split("/", 1)[1]

def _grpc_codegen_impl(ctx):
    outs = []
    imports = []
    descriptors = []
    for dep in ctx.attr.protos:
        info = dep[ProtoInfo]
        descriptors.append(info.transitive_descriptor_sets)
        for source in info.direct_sources:
            path = _import_path(source)
            imports.append(path)
            stem = path.rpartition("/")[2][:-len(".proto")]
            for suffix in [".grpc.pb.h", ".grpc.pb.cc"]:
                outs.append(ctx.actions.declare_file(stem + suffix))
    descriptor_sets = depset(transitive = descriptors)
    args = ctx.actions.args()
    args.add("--plugin=protoc-gen-grpc=" + ctx.executable._plugin.path)

    # protoc writes to <out>/<import path>; the package's own folder must come out of it.
    folder = imports[0].rpartition("/")[0]
    args.add("--grpc_out=" + outs[0].dirname[:-len(folder) - 1])
    args.add_joined(descriptor_sets, join_with = ":", format_joined = "--descriptor_set_in=%s")
    args.add_all(imports)
    ctx.actions.run(
        executable = ctx.executable._protoc,
        arguments = [args],
        inputs = descriptor_sets,
        tools = [ctx.executable._plugin],
        outputs = outs,
        mnemonic = "GrpcCodegen",
    )
    return [DefaultInfo(files = depset(outs))]

_grpc_codegen = rule(
    implementation = _grpc_codegen_impl,
    attrs = {
        "protos": attr.label_list(providers = [ProtoInfo]),
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

def cc_grpc_library(name, protos, deps, **kwargs):
    """A cc_library with the gRPC stubs of `protos`.

    Args:
      name: of the library.
      protos: proto_library targets of this package, with strip_import_prefix = "/proto".
      deps: the cc_proto_library targets of the same protos and of what their services use.
      **kwargs: as for cc_library.
    """
    _grpc_codegen(
        name = name + "_codegen",
        protos = protos,
    )

    native.cc_library(
        name = name,
        srcs = [name + "_codegen"],
        hdrs = [name + "_codegen"],
        strip_include_prefix = "/proto",
        deps = deps + ["@com_github_grpc_grpc//:grpc++"],
        copts = ["-w"],
        **kwargs
    )
