// EmissionWindow: emits one window [begin, end) of one partition: scan → evaluate → states →
// commit, in chunks (emission_chunk.h).
//
// Each commit is fenced by the partition's lease, and by emitted_to and the cursor as this emitter
// knows them. So a later owner finds either a whole chunk or nothing of it, and continues where it
// ended. A chunk writes only beyond the window or before its last key, so the cursor stays right.
// A window in which nothing was due commits nothing.
//
// Threads: one executor; all callbacks run there. Kept alive by its own callbacks; Cancel() makes
// them do nothing.

#ifndef SERVICES_EMITTER_EMISSION_EMISSION_WINDOW_H_
#define SERVICES_EMITTER_EMISSION_EMISSION_WINDOW_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"
#include "services/emitter/base/metrics.h"
#include "services/emitter/emission/emission_chunk.h"
#include "services/emitter/emission/emission_plan.h"
#include "services/emitter/emission/shared_scan.h"

namespace escapement::emitter {

class EmissionWindow : public std::enable_shared_from_this<EmissionWindow> {
 public:
  struct Options {
    uint16_t partition = 0;
    std::vector<kv::Condition> fence;      // the partition's epoch, the rules in force
    absl::Time emitted_to;                 // as stored
    std::optional<EmissionCursor> cursor;  // as stored
    absl::Time begin, end;                 // emitted_to <= begin
    std::vector<KeyRange> ranges;          // RangesToRead for the window
    kv::Layout layout;
    // Has been told of the window; null: nothing in it is late.
    std::shared_ptr<CatchUp> catch_up = nullptr;
    std::shared_ptr<const RulesChange> rules = nullptr;  // null: none have changed
    // By which the window's first read goes, if little is expected to be there; null: by none.
    std::shared_ptr<SharedScan> shared = nullptr;
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

  // In all ranges so far.
  size_t children_read() const { return children_read_; }

 private:
  void ScanOn();
  void OnChildren(absl::StatusOr<kv::ScanResult> result);
  // Adds children that were read and not evaluated yet, until the chunk is full.
  void AddChildren();
  // The next read begins after this child.
  void GoOnAfter(const std::string& key);
  // False if the child is left for the next chunk. The chunk may take the entry; `key` is its key.
  bool Add(kv::Entry&& entry, const std::string& key);
  void Decide();
  void ReadStates();
  void OnStates(absl::StatusOr<kv::GetResult> result);
  void CommitChunk(EmissionChunk::Groups chunk);
  void OnCommitted(absl::StatusOr<kv::CommitResult> result);
  void Count(const EmissionCounts& counts);
  void Finish(absl::Status status, bool stored);
  std::vector<kv::Condition> Fence() const;

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  EmitterMetrics& metrics_;
  Options options_;
  Done done_;  // empty: cancelled or finished

  size_t range_ = 0;     // the first range being read; its `begin` moves
  size_t asked_to_ = 0;  // behind the last one
  // The result of one read, and how far its children have been evaluated.
  kv::ScanResult read_;
  size_t looked_at_ = 0;
  std::string last_key_;  // the last child evaluated
  std::string key_;       // the one being evaluated
  size_t children_read_ = 0;
  EmissionChunk chunk_;
  bool chunk_full_ = false;
  std::vector<EmissionCounts> counts_;  // for each group of the commit under way
  bool last_chunk_ = false;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_EMISSION_WINDOW_H_
