#include "common/process/instance_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace escapement {
namespace {

constexpr char kFormat[] = "escapement instances 1";
constexpr size_t kDeadMax = 16;
constexpr size_t kFileBytesMax = 16 << 10;

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", strerror(errno)));
}

// The lines of the file before its instances.
std::string HeadOf(absl::string_view boot_id, const struct stat& info) {
  return absl::StrCat(kFormat, "\nboot ", boot_id, "\ninode ", info.st_dev, ":", info.st_ino, "\n");
}

std::string ReadAll(int file) {
  std::string text(kFileBytesMax, '\0');
  const ssize_t bytes = pread(file, text.data(), text.size(), 0);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return text;
}

// The instances of a whole file with this head; none of any other.
std::vector<std::string> InstancesOf(absl::string_view text, absl::string_view head) {
  if (text.substr(0, head.size()) != head || text.back() != '\n') return {};
  text.remove_prefix(head.size());
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// True if `path` still names the open file. Otherwise somebody has replaced it.
bool IsNamed(const std::string& path, const struct stat& info) {
  struct stat named = {};
  return stat(path.c_str(), &named) == 0 && named.st_dev == info.st_dev &&
         named.st_ino == info.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InstanceFile>> InstanceFile::Lock(const std::string& path,
                                                                 absl::string_view instance,
                                                                 absl::string_view boot_id) {
  std::error_code ignored;  // then open fails
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return Failed("open", path);
  std::unique_ptr<InstanceFile> locked(new InstanceFile(file));  // closes it on errors
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed("lock", path);
    return absl::FailedPreconditionError(absl::StrCat(
        "a living process has ", path, ": each process needs an instance file of its own"));
  }
  struct stat info = {};
  if (fstat(file, &info) != 0) return Failed("read", path);
  if (!IsNamed(path, info))
    return absl::UnavailableError(absl::StrCat(path, " was replaced while it was locked"));
  const std::string head = HeadOf(boot_id, info);
  std::vector<std::string>& dead = locked->dead_;
  if (!boot_id.empty()) {
    for (std::string& former : InstancesOf(ReadAll(file), head)) {
      if (former != instance && dead.size() < kDeadMax) dead.push_back(std::move(former));
    }
  }
  // Written at once: if this process dies in between, a torn file proves nothing.
  const std::string text =
      absl::StrCat(head, instance, "\n", absl::StrJoin(dead, "\n"), dead.empty() ? "" : "\n");
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return Failed("write", path);
  return locked;
}

InstanceFile::~InstanceFile() { close(file_); }

}  // namespace escapement
