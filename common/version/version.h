// The version of this build, for --version, logs and labels of images.
//
// A release sets both values with the build settings //common/version:version and :commit. Every
// other build has the defaults, so that its results stay the same from commit to commit and come
// from the cache.
//
// Threads: any.

#ifndef COMMON_VERSION_VERSION_H_
#define COMMON_VERSION_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement {

// A semantic version, such as "1.2.3"; "0.0.0-dev" if the build is no release.
absl::string_view Version();

// The commit that was built; "unknown" if the build is no release.
absl::string_view Commit();

// The line that --version prints: "escapement-master 1.2.3 (commit abcdef)".
std::string VersionLine(absl::string_view program);

// The name under which a service is installed: "token_manager" becomes "escapement-token-manager".
std::string InstalledName(absl::string_view service);

}  // namespace escapement

#endif  // COMMON_VERSION_VERSION_H_
