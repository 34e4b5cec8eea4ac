// StoreHistory knows what a store must hold after each commit.
//
// StoreEnd: knows whether a store has ended its process. In a test the process goes on: the calls
// of the store and its callers hang for ever, on threads that never stop.
//
// Threads: all methods may be called from any.

#ifndef TESTS_CRASH_STORE_HISTORY_H_
#define TESTS_CRASH_STORE_HISTORY_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"

namespace escapement::crash {

class StoreEnd {
 public:
  // The RocksKvStore::Options::on_fatal of a store that ends here.
  static std::function<void(const absl::Status&)> OnFatal(std::shared_ptr<StoreEnd> end);

  // Runs `call` on a thread of its own. Returns when the call returns, or at once when the store
  // ends, with the reason. In the second case the thread stays behind; it owns all that `call`
  // holds. Data that the caller reads after that must have been written within UnlessEnded.
  static absl::Status Run(const std::shared_ptr<StoreEnd>& end, std::function<void()> call);

  // Runs `write` if the store has not ended; never returns if it has.
  void UnlessEnded(const std::function<void()>& write) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  [[noreturn]] void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  absl::Status fatal_ ABSL_GUARDED_BY(mu_);
  bool returned_ ABSL_GUARDED_BY(mu_) = false;
};

// StoreHistory: the commits that were sent to a store, in order, with their effects by the contract
// (common/kv/kv_store.h). It decides each commit when it is sent, by a plain reading of the
// contract over maps. So it knows the state after each commit, answered or not.
//
// Threads: one at a time.

// Shared values, so that copies of a state are cheap.
using Family = std::map<std::string, std::shared_ptr<const std::string>>;
using State = std::array<Family, kv::kColumnFamilyCount>;

// Conditions on `since`, kUnchangedSince and kStampPassed are not supported.
class StoreHistory {
 public:
  struct Entry {
    std::shared_ptr<const kv::CommitRequest> request;  // null for the opening of a session
    uint64_t session = 0;                              // the session it opened, once answered
    kv::CommitSeq seq = 0;                             // sequence after it
    bool applied = false;                              // whether it made that sequence
    bool fenced = false;                               // its fence did not hold
    std::vector<kv::Verdict> verdicts = {};
    absl::Time store_time = {};
  };

  const std::vector<Entry>& entries() const { return entries_; }
  const State& state() const { return state_; }
  kv::CommitSeq seq() const { return entries_.empty() ? 0 : entries_.back().seq; }

  // Adds an entry with the answer that the store must give.
  const Entry& Commit(std::shared_ptr<const kv::CommitRequest> request, absl::Time store_time);
  void OpenSession(absl::Time store_time);
  // The store has answered an entry that opens a session.
  void Opened(size_t entry, uint64_t session) { entries_[entry].session = session; }

  // The state after the commit `seq`.
  State StateAt(kv::CommitSeq seq) const;
  // The sequence after the first `count` entries.
  kv::CommitSeq SeqAfter(uint64_t count) const { return count == 0 ? 0 : entries_[count - 1].seq; }
  // Forgets the entries that a crash has taken: all after commit `seq`, except the first `count`.
  void Truncate(kv::CommitSeq seq, uint64_t count);

 private:
  static bool Holds(const State& state, const kv::Condition& condition);
  static void Apply(const kv::Mutation& mutation, absl::Time store_time, State* state);

  std::vector<Entry> entries_;
  State state_;
};

// "" if `found` equals `expected`; otherwise the first difference.
std::string Difference(const State& found, const State& expected);

}  // namespace escapement::crash

#endif  // TESTS_CRASH_STORE_HISTORY_H_
