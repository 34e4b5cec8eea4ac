// Files that hold one API key. No error text contains a key.

#ifndef TOOLS_ESCCTL_BASE_KEY_FILE_H_
#define TOOLS_ESCCTL_BASE_KEY_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::escctl {

// The key in the file, without the white space around it. INVALID_ARGUMENT if the file cannot be
// read or holds anything else than one key.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path);

// INVALID_ARGUMENT unless the text is one word of visible ASCII characters, so that it can be sent
// as a credential. The server decides whether it is one.
absl::Status CheckKeyText(absl::string_view text);

// INVALID_ARGUMENT if the user gave a key instead of a file's path.
absl::Status CheckKeyPath(absl::string_view path);

// The text with the secret of each API key in it replaced by "...".
std::string WithoutKeys(absl::string_view text);

// A file that is made before its key exists, so that no key is made in vain. Without a Write that
// succeeds the destructor removes the file.
class NewKeyFile {
 public:
  // Makes the file, with mode 0600. INVALID_ARGUMENT if anything has that path already, or if the
  // file cannot be made.
  static absl::StatusOr<NewKeyFile> Create(const std::string& path);
  ~NewKeyFile();
  NewKeyFile(NewKeyFile&& other) noexcept;
  NewKeyFile& operator=(NewKeyFile&&) = delete;

  // Writes the key and a newline to the disk. Call it once.
  absl::Status Write(absl::string_view key);

 private:
  NewKeyFile(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;  // -1: closed, and the file stays
};

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_KEY_FILE_H_
