// When its disk has failed, a store in production ends the process.

#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "gtest/gtest.h"
#include "tests/crash/crash_life.h"
#include "tests/crash/disk_record.h"
#include "tests/crash/recording_file_system.h"

namespace escapement::crash {
namespace store_exit_test {

constexpr int kAnswered = 3;

// Commits while `call` of the log fails. Ends the process: by the answer or by the failure,
// whichever comes first.
void CommitWhenTheLogFails(DiskCall call) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/store-exit-", getpid());
  DiskRecord record({});
  ManualClock clock;
  std::atomic<bool> fails{false};
  kv::RocksKvStore::Options options = StoreOptions(folder);
  options.file_system = std::make_shared<RecordingFileSystem>(
      folder, record, [&](DiskCall made, absl::string_view path) {
        return fails && made == call && absl::EndsWith(path, ".log") ? DiskFault::kIoError
                                                                     : DiskFault::kNone;
      });
  auto store = kv::RocksKvStore::Open(options, clock).value();
  std::promise<uint64_t> session;
  store->OpenSession(
      0, 0, [&](absl::StatusOr<kv::SessionInfo> info) { session.set_value(info.value().session); });
  kv::CommitRequest request;
  request.session = session.get_future().get();
  request.number = 1;
  request.groups.resize(1);
  request.groups[0].mutations.push_back(
      {.cf = kv::ColumnFamily::kEvents, .key = "k", .value = "v"});
  fails = true;
  store->Commit(request, [](absl::StatusOr<kv::CommitResult>) { _exit(kAnswered); });
  std::promise<void>().get_future().wait();
}

TEST(StoreExitTest, AnErrorOfTheLogEndsTheProcessWithoutAnAnswer) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(CommitWhenTheLogFails(DiskCall::kSync), testing::ExitedWithCode(70), "");
  EXPECT_EXIT(CommitWhenTheLogFails(DiskCall::kWrite), testing::ExitedWithCode(70), "");
}

}  // namespace store_exit_test
}  // namespace escapement::crash
