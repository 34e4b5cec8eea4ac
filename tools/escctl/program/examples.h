// Examples of each command: one to three, at the beginning of its --help and in the manual. Pure.

#ifndef TOOLS_ESCCTL_PROGRAM_EXAMPLES_H_
#define TOOLS_ESCCTL_PROGRAM_EXAMPLES_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"

namespace escapement::escctl {

// `path` is "schedule create", or "" for the program. Empty for unknown commands.
std::vector<std::string> ExamplesOf(absl::string_view path);

// Help that begins with the examples.
std::shared_ptr<CLI::FormatterBase> NewHelpFormatter();

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_PROGRAM_EXAMPLES_H_
