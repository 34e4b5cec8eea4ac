// LogActor: a replica in a simulation that does with a SharedLog what a store does. It follows the
// log, takes over when the leader is silent, appends rows, settles unknown results, and keeps a
// lease for reads. Its claims go to a LogJudge.
//
// Threads: the simulation's.

#ifndef TESTS_CONFORMANCE_LOG_LOG_ACTOR_H_
#define TESTS_CONFORMANCE_LOG_LOG_ACTOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/log/shared_log.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class LogActor {
 public:
  // Mistakes for tests of the judge.
  enum class Mistake : uint8_t {
    kNone,
    kTrustsPresent,      // answers clients when its row is there, before one is acknowledged
    kTrustsShown,        // counts rows as lasting because it has read them
    kLeadsOnFreshState,  // takes over from a leader that has just shown a sign of life
  };
  struct Options {
    std::string owner;
    Mistake mistake = Mistake::kNone;
    // Claims that this row lasts.
    std::function<void(const LogRow&)> on_lasting;
    // Claims that it leads now and may answer reads.
    std::function<void(const LogTerm&)> on_lease;
  };

  LogActor(Runtime& runtime, std::unique_ptr<SharedLog> log, Options options);
  ~LogActor();

  uint64_t rows_lasting() const { return lasting_; }
  uint64_t terms_led() const { return terms_led_; }

 private:
  struct Pending {
    LogRow row;
    absl::Duration began;  // when it was last sent
  };

  void Tick();
  void Observe();
  void Follow(bool for_lead);
  void TakeOver(const LogState& seen);
  void Write();
  void Send(size_t index);
  void Answered(const LogRow& row, const AppendResult& result);
  void Settle();
  void Resend();
  void StepDown();
  void Lasts(const LogRow& row, absl::Duration began);
  LogPosition End() const { return history_.empty() ? first_ : history_.back().position; }
  absl::Duration Now() { return runtime_.clock().Elapsed(); }
  // A callback that does nothing once the actor has moved on to another term.
  template <typename F>
  auto InTerm(F f) {
    return [this, alive = std::weak_ptr<bool>(alive_), number = term_number_,
            f = std::move(f)](auto&& answer) mutable {
      if (alive.lock() != nullptr && number == term_number_) f(answer);
    };
  }

  Runtime& runtime_;
  const Options options_;
  const std::shared_ptr<Executor> executor_;
  const std::unique_ptr<SharedLog> log_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  LogPosition first_;
  std::vector<LogRow> history_;  // rows after first_, as this replica has applied them
  bool busy_ = false;            // a call of the follower is under way

  LogState seen_;
  absl::Duration seen_since_;

  enum class Role : uint8_t { kFollower, kElected, kLeader } role_ = Role::kFollower;
  uint64_t term_number_ = 0;  // changes with each role
  LogTerm term_;
  std::deque<Pending> pending_;  // own rows that are not known to last, in order
  size_t in_flight_ = 0;
  bool failed_ = false;    // one of those in flight has failed: send no more
  bool conflict_ = false;  // one of those did not meet the log's end
  absl::Duration lease_end_;
  uint64_t written_ = 0;
  uint64_t lasting_ = 0;
  uint64_t terms_led_ = 0;
};

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_LOG_LOG_ACTOR_H_
