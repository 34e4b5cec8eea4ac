"""commented_descriptors: a FileDescriptorSet with comments, which the descriptors that programs link do not have."""

def _commented_descriptors_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".bin")
    infos = [proto[ProtoInfo] for proto in ctx.attr.protos]
    args = ctx.actions.args()
    args.add("--include_source_info")
    args.add("--include_imports")
    args.add(out, format = "--descriptor_set_out=%s")
    args.add_all(
        depset(transitive = [info.transitive_proto_path for info in infos]),
        format_each = "--proto_path=%s",
    )
    for info in infos:
        args.add_all(info.direct_sources)
    ctx.actions.run(
        executable = ctx.executable._protoc,
        arguments = [args],
        inputs = depset(transitive = [info.transitive_sources for info in infos]),
        outputs = [out],
        mnemonic = "CommentedDescriptors",
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

commented_descriptors = rule(
    implementation = _commented_descriptors_impl,
    doc = "Writes <name>.bin: the files of `protos` and all that they import, each after its imports.",
    attrs = {
        "protos": attr.label_list(providers = [ProtoInfo]),
        "_protoc": attr.label(
            default = "@com_google_protobuf//:protoc",
            executable = True,
            cfg = "host",
            allow_single_file = True,
        ),
    },
)
