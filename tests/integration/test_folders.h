// Folders of a test: what Bazel built for it, and new ones to write to.

#ifndef TESTS_INTEGRATION_TEST_FOLDERS_H_
#define TESTS_INTEGRATION_TEST_FOLDERS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement::integration {

// Holds the test's `data` at their paths in the repository: services/store/store, tools/…
std::string BuiltFolder();

// A new folder below the test's temporary one. Ends the test's process if there can be none.
std::string NewFolder(absl::string_view name);

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_TEST_FOLDERS_H_
