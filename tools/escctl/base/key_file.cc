#include "tools/escctl/base/key_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/auth/key_directory.h"
#include "common/base/status_macros.h"

namespace escapement::escctl {
namespace {

constexpr size_t kKeyBytesMax = 6000;  // metadata of a call have at most 8 KiB

}  // namespace

absl::StatusOr<std::string> ReadKeyFile(const std::string& path) {
  RETURN_IF_ERROR(CheckKeyPath(path));
  // The path may be a pipe: this waits for its writer, which ReadBoundedFile does not.
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kKeyBytesMax + 1, '\0');
  if (!file.is_open() || (!file.read(bytes.data(), bytes.size()) && !file.eof()))
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  bytes.resize(static_cast<size_t>(file.gcount()));
  std::string key(absl::StripAsciiWhitespace(bytes));
  if (auto status = CheckKeyText(key); !status.ok())
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message()));
  return key;
}

absl::Status CheckKeyText(absl::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("is empty, but must hold an API key");
  if (text.size() > kKeyBytesMax || !std::all_of(text.begin(), text.end(), absl::ascii_isgraph))
    return absl::InvalidArgumentError("must hold one API key and nothing else");
  return absl::OkStatus();
}

absl::Status CheckKeyPath(absl::string_view path) {
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  if (!auth::ParseApiKey(name).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError("give the path of a file that holds the key, not the key");
}

std::string WithoutKeys(absl::string_view text) {
  const size_t key_size =
      auth::ApiKeyParts{std::string(16, '0'), std::string(64, '0')}.ToString().size();
  std::string shown;
  while (!text.empty()) {
    const size_t begin = std::min(text.find(auth::kApiKeyPrefix), text.size());
    absl::StrAppend(&shown, text.substr(0, begin));
    text.remove_prefix(begin);
    const auto key = auth::ParseApiKey(text.substr(0, key_size));
    if (key.has_value()) {
      absl::StrAppend(&shown, auth::kApiKeyPrefix, key->id, "_...");
      text.remove_prefix(key_size);
    } else if (!text.empty()) {
      shown += text[0];
      text.remove_prefix(1);
    }
  }
  return shown;
}

absl::StatusOr<NewKeyFile> NewKeyFile::Create(const std::string& path) {
  RETURN_IF_ERROR(CheckKeyPath(path));
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) return NewKeyFile(path, file);
  if (errno == EEXIST) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": exists already; a new key needs a new file"));
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
}

NewKeyFile::NewKeyFile(NewKeyFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

NewKeyFile::~NewKeyFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(path_.c_str());
}

absl::Status NewKeyFile::Write(absl::string_view key) {
  const std::string line = absl::StrCat(key, "\n");
  if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      fsync(file_) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": cannot be written"));
  }
  close(std::exchange(file_, -1));
  return absl::OkStatus();
}

}  // namespace escapement::escctl
