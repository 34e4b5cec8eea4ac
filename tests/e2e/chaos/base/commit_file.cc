#include "tests/e2e/chaos/base/commit_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/kv/wire/kv_wire.h"
#include "common/runtime/system_runtime.h"
#include "escapement/internal/v1/store.pb.h"

namespace escapement::chaos {

namespace {

constexpr uint32_t kPageRows = 10'000;
constexpr uint32_t kPageBytes = 8 << 20;

absl::StatusOr<kv::ScanResult> ScanAndWait(kv::KvStore& store, kv::ScanRequest request) {
  absl::StatusOr<kv::ScanResult> result;
  absl::Notification done;
  store.Scan(std::move(request), [&](absl::StatusOr<kv::ScanResult> answer) {
    result = std::move(answer);
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

}  // namespace

absl::Status ReadFamily(kv::KvStore& store, kv::ColumnFamily cf, kv::MemDisk* disk) {
  auto& rows = disk->families[static_cast<size_t>(cf)];
  rows.clear();
  kv::ScanRequest request{.cf = cf, .limit = kPageRows, .bytes_max = kPageBytes};
  while (true) {
    ASSIGN_OR_RETURN(auto page, ScanAndWait(store, request));
    for (kv::Entry& entry : page.entries) rows[entry.key] = std::move(entry.value);
    if (!page.more || page.entries.empty()) return absl::OkStatus();
    request.begin = KeyAfter(page.entries.back().key);
  }
}

absl::StatusOr<EndState> ReadEndState(const std::string& data_dir) {
  SystemRuntime runtime;
  absl::Mutex mutex;
  kv::CommitSeq own = 0;  // the first commit of this opening itself: the clock's hold
  kv::RocksKvStore::Options options;
  options.data_dir = data_dir;
  options.free_bytes_min = 0;
  options.block_cache_bytes = 8 << 20;
  options.on_decided = [&](const auto& records) {
    absl::MutexLock lock(&mutex);
    if (own == 0 && !records.empty()) own = records.front()->seq;
  };
  ASSIGN_OR_RETURN(auto store, kv::RocksKvStore::Open(std::move(options), runtime.clock()));
  EndState state;
  for (size_t i = 0; i < kv::kColumnFamilyCount; ++i) {
    RETURN_IF_ERROR(ReadFamily(*store, static_cast<kv::ColumnFamily>(i), &state.disk));
  }
  absl::MutexLock lock(&mutex);
  state.seq = own == 0 ? store->info().seq : own - 1;
  return state;
}

namespace {

std::string PathOf(const std::string& folder, int life) {
  return absl::StrCat(folder, "/", absl::StrFormat("%06d", life), ".commits");
}

constexpr absl::string_view kTermSuffix = ".term";

std::string PathOfTerm(const std::string& folder, uint64_t epoch) {
  return absl::StrCat(folder, "/", epoch, kTermSuffix);
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream content;
  content << in.rdbuf();
  return content.str();
}

void AppendBytes(absl::string_view bytes, std::string* out) {
  AppendBigEndian<uint64_t>(out, bytes.size());
  out->append(bytes.data(), bytes.size());
}

// Takes numbers and strings off the front of a buffer. Returns nothing once the buffer is used up.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}
  std::optional<uint64_t> Number() {
    if (rest_.size() < 8) return std::nullopt;
    const uint64_t number = ReadBigEndian<uint64_t>(rest_);
    rest_.remove_prefix(8);
    return number;
  }
  std::optional<absl::string_view> Bytes() {
    const auto size = Number();
    if (!size.has_value() || *size > rest_.size()) return std::nullopt;
    const absl::string_view bytes = rest_.substr(0, *size);
    rest_.remove_prefix(*size);
    return bytes;
  }
  bool empty() const { return rest_.empty(); }

 private:
  absl::string_view rest_;
};

std::string Encode(const kv::CommitRecord& record, absl::Time now) {
  std::string out;
  AppendBigEndian<uint64_t>(&out, record.seq);
  AppendBigEndian<uint64_t>(&out, static_cast<uint64_t>(ToMicros(record.store_time)));
  AppendBigEndian<uint64_t>(&out, static_cast<uint64_t>(ToMicros(now)));
  std::string applied;
  for (const kv::Verdict& verdict : record.verdicts) applied.push_back(verdict.applied ? '1' : '0');
  AppendBytes(applied, &out);
  AppendBigEndian<uint64_t>(&out, record.stamped.size());
  for (const std::string& value : record.stamped) AppendBytes(value, &out);
  kv::wire::CommitCall call;
  kv::ToWire(*record.request, call);
  AppendBytes(call.SerializeAsString(), &out);
  return out;
}

std::optional<LoggedCommit> Decode(absl::string_view bytes) {
  Reader reader(bytes);
  LoggedCommit commit;
  const auto seq = reader.Number();
  const auto store_time = reader.Number();
  const auto now = reader.Number();
  const auto applied = reader.Bytes();
  const auto stamped = reader.Number();
  if (!stamped.has_value() || !applied.has_value()) return std::nullopt;
  for (uint64_t i = 0; i < *stamped; ++i) {
    const auto value = reader.Bytes();
    if (!value.has_value()) return std::nullopt;
    commit.record.stamped.emplace_back(*value);
  }
  const auto request = reader.Bytes();
  kv::wire::CommitCall call;
  if (!request.has_value() || !call.ParseFromString(std::string(*request))) return std::nullopt;
  commit.record.seq = *seq;
  commit.record.store_time = FromMicros(static_cast<int64_t>(*store_time));
  commit.time = FromMicros(static_cast<int64_t>(*now));
  for (char c : *applied) commit.record.verdicts.push_back({.applied = c == '1'});
  commit.record.request = std::make_shared<const kv::CommitRequest>(kv::FromWire(call));
  return commit;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommitFile>> CommitFile::Begin(const std::string& folder,
                                                              kv::CommitSeq found) {
  int life = 0;
  while (std::filesystem::exists(PathOf(folder, life))) ++life;
  return Make(PathOf(folder, life), found);
}

absl::StatusOr<std::unique_ptr<CommitFile>> CommitFile::BeginTerm(const std::string& folder,
                                                                  uint64_t epoch) {
  return Make(PathOfTerm(folder, epoch), epoch);
}

absl::StatusOr<std::unique_ptr<CommitFile>> CommitFile::Make(const std::string& path,
                                                             uint64_t number) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  auto file = std::unique_ptr<CommitFile>(new CommitFile(fd));
  std::string begin;
  AppendBigEndian<uint64_t>(&begin, number);
  if (write(fd, begin.data(), begin.size()) != static_cast<ssize_t>(begin.size()))
    return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  return file;
}

CommitFile::~CommitFile() { close(fd_); }

void CommitFile::Write(const std::vector<std::shared_ptr<const kv::CommitRecord>>& records,
                       absl::Time now) {
  std::string bytes;
  for (const auto& record : records) AppendBytes(Encode(*record, now), &bytes);
  if (bytes.empty()) return;
  if (write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) return;
  std::fprintf(stderr, "the commits cannot be written down: %s\n", strerror(errno));
  std::abort();
}

absl::StatusOr<CommitFiles> ReadCommitFiles(const std::string& folder, kv::CommitSeq found) {
  CommitFiles files;
  const auto end_at = [&files](kv::CommitSeq seq) -> absl::Status {
    if (files.commits.size() < seq)
      return absl::DataLossError(absl::StrCat("the store holds commit ", seq,
                                              ", and its files end at ", files.commits.size()));
    files.undone += files.commits.size() - seq;
    files.commits.resize(seq);
    return absl::OkStatus();
  };
  for (; std::filesystem::exists(PathOf(folder, files.lives)); ++files.lives) {
    const std::string bytes = ReadAll(PathOf(folder, files.lives));
    Reader reader(bytes);
    // A life that was killed at once may have written nothing.
    const auto begins_at = reader.Number();
    if (!begins_at.has_value()) continue;
    RETURN_IF_ERROR(end_at(*begins_at));
    while (!reader.empty()) {
      const auto one = reader.Bytes();
      if (!one.has_value()) break;  // torn record: its commit never reached the store
      auto commit = Decode(*one);
      if (!commit.has_value() || commit->record.seq != files.commits.size() + 1) {
        return absl::DataLossError(absl::StrCat("life ", files.lives, " has a broken record after ",
                                                files.commits.size()));
      }
      files.commits.push_back(*std::move(commit));
    }
  }
  RETURN_IF_ERROR(end_at(found));
  return files;
}

std::vector<uint64_t> TermsIn(const std::string& folder) {
  std::vector<uint64_t> epochs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    uint64_t epoch = 0;
    if (entry.path().extension().string() == kTermSuffix &&
        absl::SimpleAtoi(entry.path().stem().string(), &epoch))
      epochs.push_back(epoch);
  }
  std::sort(epochs.begin(), epochs.end());
  return epochs;
}

absl::StatusOr<std::vector<LoggedCommit>> ReadTermFile(const std::string& folder, uint64_t epoch) {
  std::vector<LoggedCommit> commits;
  const std::string bytes = ReadAll(PathOfTerm(folder, epoch));
  Reader reader(bytes);
  if (!reader.Number().has_value()) return commits;
  while (!reader.empty()) {
    const auto one = reader.Bytes();
    if (!one.has_value()) break;  // torn record: its commit never reached the log
    auto commit = Decode(*one);
    const bool follows = commit.has_value() &&
                         (commits.empty() || commit->record.seq == commits.back().record.seq + 1);
    if (!follows) {
      return absl::DataLossError(
          absl::StrCat("term ", epoch, " has a broken record after ", commits.size()));
    }
    commits.push_back(*std::move(commit));
  }
  return commits;
}

}  // namespace escapement::chaos
