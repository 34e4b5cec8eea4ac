#include "common/kv/replica/file_hashes.h"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace escapement::kv {

absl::StatusOr<std::string> HashFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::InternalError(absl::StrCat("cannot read ", path));
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.Add({buffer.data(), static_cast<size_t>(file.gcount())});
  }
  if (file.bad()) return absl::InternalError(absl::StrCat("cannot read ", path));
  return hash.Finish();
}

absl::StatusOr<std::string> FileHashes::HashOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0)
    return absl::InternalError(absl::StrCat("cannot read ", path, ": error ", errno));
  const Id id(info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  if (const auto known = known_.find(id); known != known_.end()) return known->second;
  auto hash = HashFile(path);
  if (!hash.ok()) return hash;
  if (known_.size() >= kKnownMax) known_.clear();
  known_.emplace(id, *hash);
  return hash;
}

}  // namespace escapement::kv
