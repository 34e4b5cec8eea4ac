#include "tests/bench/beds/store_rows.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/rpc/channel.h"
#include "tests/bench/figures/process_stats.h"

namespace escapement::bench {
namespace {

constexpr kv::ColumnFamily kOfWork[] = {
    kv::ColumnFamily::kRuns,     kv::ColumnFamily::kRunParts, kv::ColumnFamily::kEvents,
    kv::ColumnFamily::kInflight, kv::ColumnFamily::kWaiting,  kv::ColumnFamily::kGrants,
    kv::ColumnFamily::kParked,   kv::ColumnFamily::kDone,     kv::ColumnFamily::kDeadLetters};

absl::StatusOr<kv::ScanResult> ScanOnce(kv::KvStore& store, const kv::ScanRequest& request) {
  struct Answer {
    absl::Notification given;
    absl::StatusOr<kv::ScanResult> result = absl::UnknownError("");
  };
  const auto answer = std::make_shared<Answer>();
  store.Scan(request, [answer](absl::StatusOr<kv::ScanResult> result) {
    answer->result = std::move(result);
    answer->given.Notify();
  });
  if (!answer->given.WaitForNotificationWithTimeout(absl::Seconds(30)))
    return absl::DeadlineExceededError("the store did not answer a scan");
  return std::move(answer->result);
}

}  // namespace

absl::StatusOr<std::map<std::string, uint64_t>> CountRows(const std::string& address) {
  kv::GrpcKvStore store(NewChannel(address));
  std::map<std::string, uint64_t> rows;
  for (const kv::ColumnFamily cf : kOfWork) {
    kv::ScanRequest request = {.cf = cf, .limit = 10'000, .keys_only = true};
    for (bool more = true; more;) {
      auto result = ScanOnce(store, request);
      if (!result.ok()) return result.status();
      rows[std::string(kv::Name(cf))] += result->entries.size();
      more = result->more && !result->entries.empty();
      if (more) request.begin = KeyAfter(result->entries.back().key);
    }
  }
  return rows;
}

absl::StatusOr<uint64_t> ResidentBytes(const std::string& program) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string folder = entry.path().string();
    if (ProcValue(folder + "/status", "PPid") != static_cast<uint64_t>(getpid())) continue;
    const std::filesystem::path executable =
        std::filesystem::read_symlink(folder + "/exe", ignored);
    if (executable.filename() != program) continue;
    return ProcValue(folder + "/status", "VmRSS") * 1024;
  }
  return absl::NotFoundError(absl::StrCat("no process ", program));
}

}  // namespace escapement::bench
