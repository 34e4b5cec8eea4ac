// Both stores as the differential fuzz uses them: with one clock, small bounds, and answers as text
// that can be compared. Sessions are named by their index, since each store has its own numbers.
//
// Threads: one at a time; the clock may be read from any.

#ifndef TESTS_CONFORMANCE_KV_FUZZ_SIDE_H_
#define TESTS_CONFORMANCE_KV_FUZZ_SIDE_H_

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "tests/conformance/rigs/kv_rig.h"

namespace escapement::kv {

inline constexpr absl::string_view kUnavailable = "UNAVAILABLE";

// The time of the simulation's clock, readable by all threads.
class SharedClock final : public Clock {
 public:
  absl::Duration Elapsed() const override { return absl::Microseconds(elapsed_.load()); }
  absl::Time WallNow() const override { return absl::FromUnixMicros(wall_.load()); }
  void Follow(const Clock& clock) {
    elapsed_ = absl::ToInt64Microseconds(clock.Elapsed());
    wall_ = absl::ToUnixMicros(clock.WallNow());
  }

 private:
  std::atomic<int64_t> elapsed_{0};
  std::atomic<int64_t> wall_{0};
};

// Leaves messages out, because they name sessions.
std::string Tell(const absl::Status& status);
std::string Tell(const absl::StatusOr<CommitResult>& result);
std::string Tell(const absl::StatusOr<ScanResult>& result);
std::string Tell(const absl::StatusOr<GetResult>& result);
std::vector<std::string> Tell(WatchLog& log);

// One store with its sessions and watches.
class Side {
 public:
  virtual ~Side() = default;
  virtual KvStore& store() = 0;
  // Runs until all calls have been answered, if the store needs a push for that.
  virtual void Settle() {}
  virtual void Restart() = 0;

  SessionInfo OpenSession() {
    std::promise<SessionInfo> info;
    store().OpenSession(
        0, 0, [&](absl::StatusOr<SessionInfo> opened) { info.set_value(opened.value()); });
    Settle();
    const SessionInfo opened = info.get_future().get();
    sessions.push_back(opened.session);
    return opened;
  }
  template <typename T, typename Call>
  std::string Ask(Call call) {
    std::promise<std::string> told;
    call([&](absl::StatusOr<T> result) { told.set_value(Tell(result)); });
    Settle();
    return told.get_future().get();
  }
  std::string Scan(const ScanRequest& request) {
    return Ask<ScanResult>([&](auto done) { store().Scan(request, done); });
  }
  std::string Get(const std::vector<Key>& keys) {
    return Ask<GetResult>([&](auto done) { store().MultiGet(keys, done); });
  }
  void Watch(WatchRequest request, size_t excluded) {
    if (excluded < sessions.size()) request.excluded_session = sessions[excluded];
    logs.emplace_back();
    watches.push_back(store().OpenWatch(std::move(request), logs.back().observer()));
    Settle();
  }

  std::vector<uint64_t> sessions;
  std::vector<WatchLog> logs;
  std::vector<std::unique_ptr<kv::Watch>> watches;
};

// A commit of the session with this index.
struct Sent {
  size_t session = 0;
  CommitRequest request;
};

using Answers = std::vector<std::future<std::string>>;

// Sends all commits at once. The answers are in the order of the calls.
Answers Send(Side& side, const std::vector<Sent>& sent, size_t from, size_t to);
std::vector<std::string> Collect(Side& side, Answers answers);

class MemSide final : public Side {
 public:
  explicit MemSide(uint64_t seed) : runtime_(seed), store_(runtime_, StoreOptions()) {}
  KvStore& store() override { return store_; }
  void Settle() override { runtime_.RunUntilIdle(); }
  void Restart() override {
    Crash(MemKvStore::Unsynced::kLost);
    Settle();
    store_.Restart();
    Settle();
  }
  void Crash(MemKvStore::Unsynced unsynced) { store_.Crash(unsynced); }
  sim::SimRuntime& runtime() { return runtime_; }

 private:
  static MemKvStore::Options StoreOptions();
  sim::SimRuntime runtime_;
  MemKvStore store_;
};

class RocksSide final : public Side {
 public:
  explicit RocksSide(Clock& clock);
  ~RocksSide() override;
  KvStore& store() override { return *store_; }
  void Restart() override {
    Close();
    Open();
  }
  // Ends after the batch that is being written.
  void Close() { store_.reset(); }
  void Open();

 private:
  Clock& clock_;
  std::string folder_;
  std::unique_ptr<RocksKvStore> store_;
};

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_KV_FUZZ_SIDE_H_
