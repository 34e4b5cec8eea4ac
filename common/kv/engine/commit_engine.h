// CommitEngine: decides commits, the same way in every store. Pure: it reads a BaseState, writes to
// a WriteSink and is told the time.
//
// A store calls BeginBatch, Decide for each commit of its queue in order, EndBatch, makes what the
// sink received durable as one write, and only then gives out the answers and publishes the
// records. If the write cannot be made the engine's state is ahead of the disk: the engine and with
// it the store's process must end.
//
// Threads: one at a time.

#ifndef COMMON_KV_ENGINE_COMMIT_ENGINE_H_
#define COMMON_KV_ENGINE_COMMIT_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/engine/recent_writes.h"
#include "common/kv/engine/session_table.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

// A commit of which something applied: what watches are told.
struct CommitRecord {
  std::shared_ptr<const CommitRequest> request;
  CommitSeq seq = 0;
  absl::Time store_time;
  std::vector<Verdict> verdicts;
  std::vector<std::string> stamped;  // the values of applied kPutStamped mutations, in order
  size_t bytes = 0;                  // of keys and values, for bounds
};

class CommitEngine {
 public:
  struct Options {
    int recent_slots_log2 = 20;  // see RecentWrites
    size_t sessions_max = 4096;
    uint64_t first_session = 1;  // see SessionTable; not 0
  };

  // `seq` is that of the last commit in `base`, which outlives the engine.
  CommitEngine(Options options, BaseState& base, CommitSeq seq);

  // `sink` and everything given to Decide must live until EndBatch. `stamps_may_pass` is false in
  // the first lease TTL of the process: kStampPassed does not hold then.
  void BeginBatch(WriteSink& sink, absl::Time store_time, bool stamps_may_pass);

  struct Decision {
    absl::StatusOr<CommitResult> answer;
    std::shared_ptr<const CommitRecord> record;  // null if nothing applied
  };
  Decision Decide(std::shared_ptr<const CommitRequest> request);
  // A commit of the store itself: no session, no validation.
  Decision DecideOwn(std::shared_ptr<const CommitRequest> request);
  // Answers a commit without deciding it (no room). `why` is remembered as its answer, unless an
  // earlier copy of it has been answered: then that answer is given.
  absl::StatusOr<CommitResult> Refuse(const CommitRequest& request, absl::Status why);

  uint64_t OpenSession();

  // As after a start: no key is known to be unchanged since an earlier commit.
  void ForgetRecent() { recent_.Forget(seq_); }

  // Writes the sequence if it has moved. True if the sink has received anything in this batch.
  bool EndBatch();

  // Of the last commit decided.
  CommitSeq seq() const { return seq_; }

 private:
  Decision Apply(std::shared_ptr<const CommitRequest> request);
  bool Holds(const Condition& condition);
  bool StampPassed(const Condition& condition);
  bool RangeCountIs(const Condition& condition);
  void ApplyMutation(const Mutation& mutation, CommitRecord& record);
  void ApplyDeleteRange(const Mutation& mutation);
  absl::string_view Keep(std::string bytes);

  BaseState& base_;
  Overlay overlay_;
  RecentWrites recent_;
  SessionTable sessions_;
  CommitSeq seq_;

  // Of the batch.
  WriteSink* sink_ = nullptr;
  absl::Time store_time_;
  bool stamps_may_pass_ = false;
  CommitSeq batch_begin_seq_ = 0;
  bool wrote_ = false;
  // What the overlay points to beside requests.
  std::vector<std::unique_ptr<std::string>> kept_;
  std::vector<std::shared_ptr<const CommitRecord>> records_;  // kept alive for the overlay's views
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_COMMIT_ENGINE_H_
