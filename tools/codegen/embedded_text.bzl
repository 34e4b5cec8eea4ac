"""embedded_text: a file as a string of the program."""

def embedded_text(name, src, header, function):
    """Writes <name>.cc, which defines `function` with the bytes of a file.

    Args:
      name: of the target; use it in the `srcs` of the library that has `header`.
      src: the file; not empty.
      header: include path of the header that declares `absl::string_view function()`.
      function: its full name without leading colons, such as "escapement::rest::OpenApiJson".
    """
    namespace, _, short = function.rpartition("::")
    native.genrule(
        name = name,
        srcs = [src],
        outs = [name + ".cc"],
        cmd = " && ".join([
            "{ echo '#include \"%s\"'" % header,
            "echo 'namespace %s {'" % namespace,
            "echo 'namespace { constexpr unsigned char kBytes[] = {'",
            "od -An -v -tu1 -w32 $< | sed 's/  *\\([0-9]\\)/,\\1/g; 1s/^,//'",
            "echo '}; }'",
            "echo 'absl::string_view %s() {'" % short,
            "echo '  return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)};'",
            "echo '} }'; } > $@",
        ]),
    )
