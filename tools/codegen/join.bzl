"""join: few sources of many, so that headers are parsed once for all of them."""

def _units_impl(ctx):
    outs = ctx.outputs.outs
    sources = ctx.files.srcs
    first = "#include \\\"%s\\\"" % ctx.attr.first if ctx.attr.first else ""
    for i, out in enumerate(outs):
        part = sources[i * len(sources) // len(outs):(i + 1) * len(sources) // len(outs)]
        ctx.actions.run_shell(
            command = "{ echo \"" + first + "\"; for f in \"$@\"; do echo \"#line 1 \\\"$f\\\"\"; cat \"$f\"; echo; done; } > " + out.path,
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
        "first": attr.string(doc = "a header to include before all else"),
    },
)

def join(name, srcs, count, first = ""):
    """Joins `srcs` to `count` sources of about as many files each, in order; returns their names. `first` is included before them."""
    outs = ["%s_unit%s.cc" % (name, "" if count == 1 else str(i + 1)) for i in range(count)]
    _units(name = name + "_units", srcs = srcs, outs = outs, first = first)
    return outs
