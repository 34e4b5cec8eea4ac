// Flags that take one of several words: "carry-over" for CARRY_OVER.

#ifndef TOOLS_ESCCTL_BASE_ENUM_FLAG_H_
#define TOOLS_ESCCTL_BASE_ENUM_FLAG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace escapement::escctl {

// The enum value's name for the word.
inline std::string EnumName(absl::string_view text) {
  return absl::StrReplaceAll(absl::AsciiStrToUpper(text), {{"-", "_"}});
}

inline absl::Status NoSuchValue(absl::string_view flag, absl::string_view text,
                                absl::string_view values) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": '", text, "' is not one of ", values));
}

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_ENUM_FLAG_H_
