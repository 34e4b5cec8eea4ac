"""version_setting and version_stamp: build settings that become constants of the programs.

A release passes --//common/version:version=1.2.3 --//common/version:commit=abcdef. Bazel's own --stamp is not used: it
would make the result of every link depend on the state of the working tree.
"""

_ALLOWED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-"

VersionInfo = provider(doc = "The value of a setting.", fields = ["text"])

def _version_setting_impl(ctx):
    text = ctx.build_setting_value
    for i in range(len(text)):
        if text[i] not in _ALLOWED:
            fail("%s: '%s' has a character that no version has" % (ctx.label, text))
    if not text:
        fail("%s is empty" % ctx.label)
    return VersionInfo(text = text)

version_setting = rule(
    implementation = _version_setting_impl,
    build_setting = config.string(flag = True),
    doc = "A text that may be set on the command line.",
)

def _version_stamp_impl(ctx):
    ctx.actions.write(ctx.outputs.out, """#include "common/version/version.h"

namespace escapement {

absl::string_view Version() { return "%s"; }
absl::string_view Commit() { return "%s"; }

}  // namespace escapement
""" % (ctx.attr.version[VersionInfo].text, ctx.attr.commit[VersionInfo].text))

version_stamp = rule(
    implementation = _version_stamp_impl,
    attrs = {
        "version": attr.label(mandatory = True, providers = [VersionInfo]),
        "commit": attr.label(mandatory = True, providers = [VersionInfo]),
        "out": attr.output(mandatory = True),
    },
    doc = "Writes the source that defines Version() and Commit().",
)
