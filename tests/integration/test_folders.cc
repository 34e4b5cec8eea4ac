#include "tests/integration/test_folders.h"

#include <stdlib.h>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "gtest/gtest.h"

namespace escapement::integration {

std::string BuiltFolder() {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"));
}

std::string NewFolder(absl::string_view name) {
  std::string folder = absl::StrCat(testing::TempDir(), "/", name, ".XXXXXX");
  CHECK(mkdtemp(folder.data()) != nullptr) << folder;
  return folder;
}

}  // namespace escapement::integration
