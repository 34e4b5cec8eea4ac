"""join: few sources of many, so that headers are parsed once for all of them."""

def _units_impl(ctx):
    outs = ctx.outputs.outs
    sources = ctx.files.srcs
    for i, out in enumerate(outs):
        part = sources[i * len(sources) // len(outs):(i + 1) * len(sources) // len(outs)]
        commands = ["echo '#include \"%s\"'" % header for header in ctx.attr.first]
        for number, source in enumerate(part):
            commands += ["echo '#define %s %s_%d'" % (name, name, number) for name in ctx.attr.repeated]
            commands += ["echo '#line 1 \"%s\"'" % source.path, "cat " + source.path, "echo"]
            commands += ["echo '#undef %s'" % name for name in ctx.attr.repeated]
        ctx.actions.run_shell(
            command = "{ %s; } > %s" % ("; ".join(commands), out.path),
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
        "first": attr.string_list(doc = "headers to include before all else"),
        "repeated": attr.string_list(doc = "names that sources give to things of their own; they get the source's number"),
    },
)

def join(name, srcs, count, first = [], repeated = []):
    """Joins `srcs` to `count` sources of about as many files each, in order; returns their names. `first` are included before them; each source may define the names `repeated` for itself."""
    outs = ["%s_unit%s.cc" % (name, "" if count == 1 else str(i + 1)) for i in range(count)]
    _units(name = name + "_units", srcs = srcs, outs = outs, first = first, repeated = repeated)
    return outs
