#include "common/version/version.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace escapement {

std::string VersionLine(absl::string_view program) {
  return absl::StrCat(program, " ", Version(), " (commit ", Commit(), ")");
}

std::string InstalledName(absl::string_view service) {
  return absl::StrCat("escapement-", absl::StrReplaceAll(service, {{"_", "-"}}));
}

}  // namespace escapement
