// When its disk has failed, a store in production ends the process. If the disk is only full, it
// waits.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "gtest/gtest.h"
#include "tests/crash/crash_life.h"
#include "tests/crash/disk_record.h"
#include "tests/crash/recording_file_system.h"
#include "tests/crash/store_history.h"

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

class FullDiskTest : public testing::Test {
 protected:
  FullDiskTest() {
    options_ = StoreOptions(scratch_.path());
    options_.file_system = std::make_shared<RecordingFileSystem>(
        scratch_.path(), record_, [this](DiskCall call, absl::string_view) {
          if (!full_ || call != DiskCall::kWrite) return DiskFault::kNone;
          // Two threads write: the third refusal is that of a write that has waited.
          if (++refused_ == 3) waits_.Notify();
          return DiskFault::kFillsUp;
        });
    Open();
  }

  void Open() {
    store_ = kv::RocksKvStore::Open(options_, clock_).value();
    std::promise<uint64_t> session;
    store_->OpenSession(0, 0, [&](absl::StatusOr<kv::SessionInfo> info) {
      session.set_value(info.value().session);
    });
    session_ = session.get_future().get();
    number_ = 0;
  }

  std::future<absl::Status> Put(const std::string& key) {
    kv::CommitRequest request;
    request.session = session_;
    request.number = ++number_;
    request.groups.resize(1);
    request.groups[0].mutations.push_back(
        {.cf = kv::ColumnFamily::kEvents, .key = key, .value = std::string(5000, 'v')});
    auto answer = std::make_shared<std::promise<absl::Status>>();
    store_->Commit(std::move(request), [answer](absl::StatusOr<kv::CommitResult> result) {
      answer->set_value(result.status());
    });
    return answer->get_future();
  }

  Scratch scratch_;
  DiskRecord record_{{}};
  ManualClock clock_;
  std::atomic<bool> full_{false};
  std::atomic<int> refused_{0};
  absl::Notification waits_;
  kv::RocksKvStore::Options options_;
  std::unique_ptr<kv::RocksKvStore> store_;
  uint64_t session_ = 0;
  uint64_t number_ = 0;
};

TEST_F(FullDiskTest, WriteWaitsForRoomAndNothingIsLost) {
  ASSERT_TRUE(Put("before").get().ok());
  EXPECT_TRUE(store_->info().accepting);
  full_ = true;
  std::future<absl::Status> answer = Put("during");
  waits_.WaitForNotification();
  EXPECT_FALSE(store_->info().accepting);
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  full_ = false;
  EXPECT_TRUE(answer.get().ok());
  EXPECT_TRUE(Put("after").get().ok());
  // The parts that were written while the disk was full must not stay in the log.
  store_.reset();
  options_.file_system = nullptr;
  Open();
  const State state = ReadState(*store_).value();
  for (const char* key : {"before", "during", "after"})
    EXPECT_TRUE(state[static_cast<size_t>(kv::ColumnFamily::kEvents)].contains(key)) << key;
  EXPECT_TRUE(store_->info().accepting);
}

using FullDiskDeathTest = FullDiskTest;

TEST_F(FullDiskDeathTest, StopEndsTheProcessWhileAWriteWaits) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto stop_while_full = [this] {
    full_ = true;
    const std::future<absl::Status> answer = Put("during");
    waits_.WaitForNotification();
    store_.reset();
  };
  EXPECT_EXIT(stop_while_full(), testing::ExitedWithCode(70), "");
}

}  // namespace store_exit_test
}  // namespace escapement::crash
