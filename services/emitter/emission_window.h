// EmissionWindow: emits one window [begin, end) of one partition: scan → evaluate → states →
// commit, in chunks.
//
// Each commit is fenced by the partition's lease and by emitted_to and cursor being as this emitter
// knows them: who comes later finds either all of a chunk or nothing of it, and goes on where it
// ended. Each child's rows are one group with the conditions that its record and its schedule's
// state are as they were read; one that fails was changed meanwhile, and the change has taken over
// what was owed (occurrence_rows.h). A window without rows commits nothing.
//
// Threads: one executor; all callbacks run there. Kept alive by its own callbacks; Cancel() makes
// them do nothing.

#ifndef SERVICES_EMITTER_EMISSION_WINDOW_H_
#define SERVICES_EMITTER_EMISSION_WINDOW_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/kv/kv_client.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"
#include "common/storage/occurrence_rows.h"
#include "services/emitter/emission_plan.h"
#include "services/emitter/metrics.h"

namespace escapement::emitter {

class EmissionWindow : public std::enable_shared_from_this<EmissionWindow> {
 public:
  struct Options {
    uint16_t partition = 0;
    kv::Condition lease;                   // the fence of the partition's epoch
    absl::Time emitted_to;                 // as stored
    std::optional<EmissionCursor> cursor;  // as stored
    absl::Time begin, end;                 // emitted_to <= begin
    std::vector<KeyRange> ranges;          // RangesToRead for the window
    kv::Layout layout;
  };
  // OK: everything in the window is emitted; `stored` tells whether emitted_to = end is (else
  // nothing was due). An error: nothing is known about the last commit but that no other one is
  // under way: read the checkpoints again.
  using Done = absl::AnyInvocable<void(absl::Status status, bool stored)>;

  // `client` and `metrics` outlive the window.
  EmissionWindow(kv::KvClient& client, std::shared_ptr<Executor> executor, EmitterMetrics& metrics,
                 Options options, Done done);

  void Start();
  void Cancel() { done_ = nullptr; }

 private:
  struct DueChild {
    std::string key, value;
    kv::CommitSeq seq = 0;  // at which it was read
    uint64_t version = 0;
    OccurrenceSource source;
    std::vector<EmittedOccurrence> occurrences;
  };

  void ScanOn();
  void OnChildren(absl::StatusOr<kv::ScanResult> result);
  // False if the chunk is full: the child is left for the next one.
  bool Take(const kv::Entry& entry, kv::CommitSeq seq);
  void Decide();
  void OnStates(absl::StatusOr<kv::GetResult> result);
  kv::Group GroupOf(const DueChild& child, const std::string& state, kv::CommitSeq state_seq,
                    absl::Time now);
  void CommitChunk(std::vector<kv::Group> groups);
  void OnCommitted(absl::StatusOr<kv::CommitResult> result);
  void Finish(absl::Status status, bool stored);
  std::vector<kv::Condition> Fence() const;

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  EmitterMetrics& metrics_;
  Options options_;
  Done done_;  // empty: cancelled or finished

  size_t range_ = 0;      // the range being read; its `begin` moves
  std::string last_key_;  // the last child taken
  std::vector<DueChild> due_;
  size_t mutations_ = 0;  // of due_
  bool chunk_full_ = false;
  std::vector<size_t> grouped_;  // indices in due_ of the groups of the commit under way
  bool last_chunk_ = false;
  absl::Time emitted_at_;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_WINDOW_H_
