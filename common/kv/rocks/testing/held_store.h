// HeldStoreTest: tests of a RocksKvStore whose BatchLog acknowledges each row when the test says
// so.
//
// Threads: a test's thread calls everything. Callbacks run on the store's threads.

#ifndef COMMON_KV_ROCKS_TESTING_HELD_STORE_H_
#define COMMON_KV_ROCKS_TESTING_HELD_STORE_H_

#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/kv/engine/store_kernel.h"
#include "common/kv/group_parts.h"
#include "common/kv/rocks/batch_log.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/runtime.h"
#include "gtest/gtest.h"

namespace escapement::kv {

// A clock that stands still until the test moves it.
class HandClock final : public Clock {
 public:
  absl::Duration Elapsed() const override { return absl::Nanoseconds(elapsed_.load()); }
  absl::Time WallNow() const override {
    return absl::FromUnixSeconds(1'700'000'000) + absl::Nanoseconds(elapsed_ + stepped_);
  }
  std::string BootId() const override { return "boot"; }
  void Advance(absl::Duration by) { elapsed_ += absl::ToInt64Nanoseconds(by); }
  void StepWall(absl::Duration by) { stepped_ += absl::ToInt64Nanoseconds(by); }

 private:
  std::atomic<int64_t> elapsed_{absl::ToInt64Nanoseconds(absl::Hours(1))};
  std::atomic<int64_t> stepped_{0};
};

// A log in memory. It acknowledges rows at once or, after Hold, when the test says so.
class HeldLog final : public BatchLog {
 public:
  explicit HeldLog(std::function<void()> on_last) : on_last_(std::move(on_last)) {}

  WriteSink& Begin(WriteSink& local, Last last) override {
    if (last == Last::kYes) on_last_();
    return local;
  }
  void Send(absl::Duration began, Done done) override {
    {
      absl::MutexLock lock(&mu_);
      if (held_) {
        rows_.push_back({began, std::move(done)});
        return;
      }
    }
    done(std::string("place"));
  }
  absl::Status MayAnswer() const override { return absl::OkStatus(); }
  absl::Status WhyEnded() const override { return absl::UnavailableError("the log has ended"); }

  void Hold() {
    absl::MutexLock lock(&mu_);
    held_ = true;
  }
  // Acknowledges the held rows, and later ones at once.
  void Go() {
    std::vector<Row> held;
    {
      absl::MutexLock lock(&mu_);
      held_ = false;
      held.swap(rows_);
    }
    for (Row& row : held) {
      if (row.done) row.done(std::string("place"));
    }
  }
  // Rows are counted from Hold. Waits until there are `count`.
  void AwaitRows(size_t count) {
    absl::MutexLock lock(&mu_);
    auto here = [this, count]()
                    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return rows_.size() >= count; };
    mu_.Await(absl::Condition(&here));
  }
  size_t rows() {
    absl::MutexLock lock(&mu_);
    return rows_.size();
  }
  absl::Duration began(size_t row) {
    absl::MutexLock lock(&mu_);
    return rows_[row].began;
  }
  void Acknowledge(size_t row) { DoneOf(row)(std::string("place")); }
  void Refuse(size_t row) { DoneOf(row)(absl::AbortedError("another store leads")); }

 private:
  struct Row {
    absl::Duration began;
    Done done;
  };
  Done DoneOf(size_t row) {
    absl::MutexLock lock(&mu_);
    return std::exchange(rows_[row].done, nullptr);
  }

  const std::function<void()> on_last_;
  absl::Mutex mu_;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Row> rows_ ABSL_GUARDED_BY(mu_);
};

// One answer for which a test waits.
template <typename T>
class Answer {
 public:
  KvStore::Callback<T> callback() {
    return [state = state_](absl::StatusOr<T> value) {
      state->value = std::move(value);
      state->here.Notify();
    };
  }
  bool here() const { return state_->here.HasBeenNotified(); }
  const absl::StatusOr<T>& Wait() const {
    state_->here.WaitForNotification();
    return state_->value;
  }

 private:
  struct State {
    absl::Notification here;
    absl::StatusOr<T> value;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A store over such a log, in a folder of its own.
class HeldStoreTest : public testing::Test {
 protected:
  HeldStoreTest() {
    std::string path = absl::StrCat(getenv("TEST_TMPDIR"), "/rocks-XXXXXX");
    folder_ = mkdtemp(path.data());
    options_.data_dir = folder_;
    options_.lease_ttl = absl::ZeroDuration();
    options_.beat_interval = absl::InfiniteDuration();
    options_.block_cache_bytes = options_.write_buffer_bytes = 1 << 20;
    options_.free_bytes_min = 1000;
    options_.free_bytes = [this](const std::string&) { return free_bytes_.load(); };
    options_.on_fatal = [](const absl::Status&) { std::abort(); };
    RocksDatabase::Options database;
    database.block_cache_bytes = database.write_buffer_bytes = 1 << 20;
    database.on_fatal = options_.on_fatal;
    database_ = RocksDatabase::Open(folder_ + "/db", database).value();
    StoreKernel::Create(database_->batch(), 1, Layout());
    database_->WriteUnsynced();
    store_ = RocksKvStore::OpenReplica(options_, clock_, {std::move(database_), log_, {}}).value();
    Answer<SessionInfo> opened;
    store_->OpenSession(0, 0, opened.callback());
    session_ = opened.Wait().value().session;
  }
  ~HeldStoreTest() override {
    log_.Go();
    store_.reset();
    database_.reset();
    std::filesystem::remove_all(folder_);
  }

  Answer<CommitResult> Commit(uint64_t number, std::vector<Group> groups) {
    CommitRequest request{.session = session_, .number = number};
    request.groups = std::move(groups);
    Answer<CommitResult> answer;
    store_->Commit(std::move(request), answer.callback());
    return answer;
  }
  Answer<CommitResult> CommitPut(uint64_t number, std::string key) {
    return Commit(number, {{{}, {Put(ColumnFamily::kEvents, std::move(key), "v")}}});
  }
  // Returns once the writer has seen everything that the log has answered before.
  void AwaitWriter() {
    absl::Notification seen;
    // Two ranges that begin at the same key are refused when the writer takes the watch.
    auto watch = store_->OpenWatch(
        {.then = {KeyRange()}},
        {.on_batch = nullptr, .on_lagged = [&seen](const absl::Status&) { seen.Notify(); }});
    seen.WaitForNotification();
  }
  ScanResult Scan() {
    Answer<ScanResult> answer;
    store_->Scan({.cf = ColumnFamily::kEvents}, answer.callback());
    return answer.Wait().value();
  }
  std::string Keys() {
    std::string keys;
    for (const Entry& entry : Scan().entries) keys += entry.key + " ";
    return keys;
  }
  // Ends the store, and takes its copy.
  void Release(bool hand_over = false) {
    log_.Go();
    database_ = store_->Release(hand_over);
  }
  bool InCopy(const std::string& key) {
    std::string value;
    return database_->Get(ColumnFamily::kEvents, key, value);
  }

  HandClock clock_;
  std::function<void()> on_last_ = [] {};
  HeldLog log_{[this] { on_last_(); }};
  RocksKvStore::Options options_;
  std::string folder_;
  std::atomic<uint64_t> free_bytes_{1'000'000};
  std::unique_ptr<RocksDatabase> database_;
  std::unique_ptr<RocksKvStore> store_;
  uint64_t session_ = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_TESTING_HELD_STORE_H_
