"""precompiled_header: headers that almost every source includes, parsed once."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    header = ctx.outputs.header
    includes = "".join(["#include \"%s\"\n" % path for path in ctx.attr.headers])
    ctx.actions.write(header, "#ifndef __clang__\n%s#endif\n" % includes)
    compiled = ctx.actions.declare_file(header.basename + ".gch", sibling = header)
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        # Clang's maps of modules need a library, and this is none.
        unsupported_features = ctx.disabled_features + ["layering_check", "module_maps"],
    )
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + ["-x", "c++-header"],
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
        source_file = header.path,
        output_file = compiled.path,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = ACTION_NAMES.cpp_compile),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
            variables = variables,
        ),
        inputs = depset([header], transitive = [context.headers, toolchain.all_files]),
        outputs = [compiled],
        mnemonic = "CppPrecompile",
    )
    # Bazel compiles a source again when a header changes that gcc has named. gcc names no header that it took from a
    # precompiled one, so each source also includes a file that changes with them.
    digest = ctx.outputs.digest
    paths = ctx.actions.args()
    paths.add_all(context.headers)
    paths.use_param_file("%s", use_always = True)
    paths.set_param_file_format("multiline")
    ctx.actions.run_shell(
        command = "xargs cat < \"$1\" | sha256sum | sed 's|^|// |' > " + digest.path,
        arguments = [paths],
        inputs = context.headers,
        outputs = [digest],
        mnemonic = "DigestHeaders",
    )
    headers = depset([header, compiled, digest], transitive = [context.headers])
    return [CcInfo(compilation_context = cc_common.create_compilation_context(headers = headers))]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = """Makes `header`, which includes `headers`, and HEADER.gch beside it, which gcc takes instead if it is the first that a
source includes and the source is compiled with the same options. For clang `header` is empty, so each source must include
itself what it uses. A cc_library makes it known.""",
    attrs = {
        "header": attr.output(mandatory = True),
        "digest": attr.output(mandatory = True, doc = "changes with the headers; each source includes it after `header`"),
        "headers": attr.string_list(mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
