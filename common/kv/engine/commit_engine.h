// CommitEngine decides commits: it refuses those whose fence or condition does not hold.

#ifndef COMMON_KV_ENGINE_COMMIT_ENGINE_H_
#define COMMON_KV_ENGINE_COMMIT_ENGINE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/engine/session_table.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

// The latest `now_low` of what waits for a batch; InfinitePast if none has one. Each of `works` has
// `request`, a pointer to a CommitRequest or null.
template <typename Works>
absl::Time LatestNowLow(const Works& works) {
  absl::Time latest = absl::InfinitePast();
  for (const auto& work : works) {
    if (work.request != nullptr) latest = std::max(latest, work.request->now_low);
  }
  return latest;
}

// CommitEngine: decides commits, the same way in every store. It is pure: it reads a BaseState,
// writes to a WriteSink and takes the time as an argument.
//
// For each batch a store calls BeginBatch, then Decide for each queued commit in order, then
// EndBatch. It writes and syncs what the sink received as one write. Only then may it send the
// answers and publish the records. If that write fails, the engine's state is ahead of the disk, so
// the store's process must end.
//
// A store may decide further batches while earlier ones are under way: decided, but not in the
// BaseState yet. A batch sees the effects of all earlier batches.
//
// Threads: one at a time.

// A commit that applied something, as watches receive it.
struct CommitRecord {
  std::shared_ptr<const CommitRequest> request;
  CommitSeq seq = 0;
  absl::Time store_time;
  std::vector<Verdict> verdicts;
  std::vector<std::string> stamped;  // the values of applied kPutStamped mutations, in order
  size_t bytes = 0;  // bytes of keys and values; history and watch buffers are bounded by it
};

class CommitEngine {
 public:
  struct Options {
    int recent_slots_log2 = 20;  // see RecentWrites
    size_t sessions_max = 4096;
    uint64_t first_session = 1;  // see SessionTable; not 0
  };

  // `seq` is the sequence of the last commit in `base`. `base` must outlive the engine.
  CommitEngine(Options options, BaseState& base, CommitSeq seq);

  // `sink` must live until EndBatch. `stamps_may_pass` is false in
  // the first lease TTL of the process: then kStampPassed does not hold.
  void BeginBatch(WriteSink& sink, absl::Time store_time, bool stamps_may_pass);

  struct Decision {
    absl::StatusOr<CommitResult> answer;
    std::shared_ptr<const CommitRecord> record;  // null if nothing applied
  };
  Decision Decide(std::shared_ptr<const CommitRequest> request);
  // Decides a commit of the store itself: it has no session and is not validated.
  Decision DecideOwn(std::shared_ptr<const CommitRequest> request);
  // Answers a commit without deciding it, because there is no room. The session keeps `why` as the
  // commit's answer. If an earlier copy of the commit was answered, returns that answer instead.
  absl::StatusOr<CommitResult> Refuse(const CommitRequest& request, absl::Status why);

  uint64_t OpenSession();

  // Forgets which keys are unchanged, as after a start.
  void ForgetRecent() { recent_.Forget(seq_); }

  // kUnderWay: the store writes the batch to the BaseState later, and calls SettleBatch then.
  enum class Ended : uint8_t { kWritten, kUnderWay };
  // Writes the sequence if it changed. Returns true if the sink received anything in this batch.
  // kWritten: the store writes the sink's content before it begins another batch.
  bool EndBatch(Ended ended = Ended::kWritten);
  // The oldest batch under way is in the BaseState now, or the sink received nothing from it. Not
  // between BeginBatch and EndBatch.
  void SettleBatch();

  // Sequence of the last decided commit.
  CommitSeq seq() const { return seq_; }

 private:
  Decision Apply(std::shared_ptr<const CommitRequest> request);
  bool Holds(const Condition& condition);
  // Reads the value with all effects so far; returns false if the key is absent. `value` stays
  // valid until the next call.
  bool Get(ColumnFamily cf, absl::string_view key, absl::string_view& value);
  bool StampPassed(const Condition& condition);
  bool RangeCountIs(const Condition& condition);
  void ApplyMutation(const Mutation& mutation, CommitRecord& record);
  void ApplyDeleteRange(const Mutation& mutation);
  absl::string_view Keep(std::string bytes);

  // One batch.
  struct Layer {
    explicit Layer(BaseState& base) : overlay(base) {}
    void Clear();
    CommitSeq begin_seq = 0;  // sequence of the last commit before the batch
    Overlay overlay;
    // Strings that the overlay points to, beside those of the requests.
    std::vector<std::unique_ptr<std::string>> kept;
    std::vector<std::shared_ptr<const CommitRecord>> records;  // kept alive for the overlay's views
  };

  BaseState& base_;
  std::unique_ptr<Layer> layer_;                  // the current batch
  std::deque<std::unique_ptr<Layer>> under_way_;  // oldest first; each is the next one's base
  std::vector<std::unique_ptr<Layer>> unused_;
  RecentWrites recent_;
  SessionTable sessions_;
  CommitSeq seq_;

  // Sink of the current batch.
  WriteSink* sink_ = nullptr;
  absl::Time store_time_;
  bool stamps_may_pass_ = false;
  bool wrote_ = false;
  std::string scratch_;  // the value that was read last
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_COMMIT_ENGINE_H_
