// EmissionChunk: the due children of a window that share one commit, and what it does with them.
//
// All due children of a schedule are one group. Its conditions are that each child and the
// schedule's state are as they were read (a cancelled run in the state does not count, since it
// changes no occurrence). If the store refuses the group, a change of the schedule came first and
// has taken over its occurrences (occurrence_rows.h). In the group
//  - occurrences that fire get their rows; those that a catch-up skips their Done record, or are
//    counted in the schedule's summary;
//  - the child of an interval moves to its first later instant;
//  - the child of a list's instant is deleted;
//  - both kinds are deleted if their version does not fire, and so is a child whose end has passed.
// The commit's fence includes each summary as it was read, so two owners cannot both count. If the
// fence fails, nothing is lost: the window starts again. If a summary has been deleted (a backfill
// fired the occurrence under which it stood), this commit writes a new one.
//
// Pure. Threads: one.

#ifndef SERVICES_EMITTER_EMISSION_EMISSION_CHUNK_H_
#define SERVICES_EMITTER_EMISSION_EMISSION_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/emission/child_evaluator.h"
#include "services/emitter/emission/emission_plan.h"

namespace escapement::emitter {

// The number of things that one group does.
struct EmissionCounts {
  uint64_t children = 0;
  uint64_t occurrences = 0;  // that fire
  uint64_t late = 0;         // occurrences that go into the catch-up lane
  uint64_t events = 0;       // events of the emitted occurrences
  uint64_t skipped = 0;      // occurrences that do not, in summaries or not
  uint64_t removed = 0;      // children that can fire no more
};

class EmissionChunk {
 public:
  struct Options {
    kv::Layout layout;
    absl::Time begin, end;                               // the window
    std::shared_ptr<const RulesChange> rules = nullptr;  // null: none have changed
  };
  // `catch_up` has been told of the window.
  EmissionChunk(Options options, std::shared_ptr<CatchUp> catch_up);

  enum class Added {
    kNothingDue,  // by this child
    kDue,
    kDueInPart,  // the interval's next instants need another chunk: it is read again, behind this
                 // key
    kNoRoom,     // the child is left for the next chunk
  };
  // A child as it was read. The chunk takes the key and value of a child that is due. DATA_LOSS if
  // it cannot be read.
  absl::StatusOr<Added> Add(kv::Entry&& entry, kv::CommitSeq seq);

  bool empty() const { return schedules_.empty(); }
  // No further child has room.
  bool full() const;

  // First the definitions that plans are made from (mostly none), then what the groups depend on.
  std::vector<kv::Key> DefinitionsToRead() const;
  void SetDefinitions(const kv::GetResult& result);
  std::vector<kv::Key> StatesToRead();

  struct Groups {
    std::vector<kv::Condition> fence;
    std::vector<kv::Group> groups;
    std::vector<EmissionCounts> counts;  // one for each group
  };
  // Once until Clear.
  Groups Build(kv::GetResult states);

  // Begins the next one.
  void Clear();

 private:
  struct DueChild {
    kv::Entry entry;
    kv::CommitSeq seq = 0;  // at which it was read
    OccurrenceSource source;
    std::vector<EmittedOccurrence> occurrences;
    absl::Time owed_from;   // a change of rules moved earlier occurrences there
    bool instant = false;   // the child is of an interval or a list
    bool expired = false;   // its end has passed
    std::string moved_key;  // only for an interval: its new key; empty: it is deleted
  };
  struct UnplannedList {
    std::string plan_key;
    storage::v1::ChildRecord child;
  };
  struct DueSchedule {
    Uid uid;
    std::vector<DueChild> children;
    std::shared_ptr<const LatePlan> plan;      // null: all fire
    std::unique_ptr<UnplannedList> unplanned;  // only for a list whose plan is not known yet
    // With occurrences in a summary: the one under which it stands, and where its key is among
    // those read.
    std::optional<EmittedOccurrence> summary;
    std::string summary_key;
    size_t summary_read = 0;
  };

  // These take the entry as Add does, and the child with it.
  absl::StatusOr<Added> AddCalendar(const ChildKey& key, kv::Entry&& entry, DueChild&& child);
  absl::StatusOr<Added> AddInstant(const InstantChildKey& key, kv::Entry&& entry, DueChild&& child);
  bool Room(size_t mutations) const;
  // Takes the child in; `timetable` is as ChildOccurrences says.
  void Take(kv::Entry&& entry, DueChild&& child, size_t mutations, const std::string& zone,
            const cron::Timetable* timetable);
  void PlanLate(const std::string& zone, const cron::Timetable& timetable, DueSchedule& schedule);
  static void FindSummary(const kv::Layout& layout, DueSchedule& schedule);

  // The parts from which a schedule's group is built.
  struct Building;
  void BuildChild(DueChild& child, Building& building) const;  // takes its entry
  void BuildOccurrences(const DueChild& child, Building& building) const;
  // `read`: what the schedule's summary was read as.
  void BuildSummary(const std::optional<std::string>& read, kv::CommitSeq seq, Building& building,
                    std::vector<kv::Condition>& fence) const;
  bool Moved(const DueChild& child, const EmittedOccurrence& occurrence,
             const Building& building) const;

  const Options options_;
  const std::shared_ptr<CatchUp> catch_up_;
  ChildEvaluator evaluator_;
  storage::v1::ChildRecord record_;  // the one being added
  std::vector<DueSchedule> schedules_;
  // Uid and version → place in schedules_; never iterated.
  absl::flat_hash_map<std::pair<Uid, uint64_t>, size_t> places_;
  size_t children_ = 0;
  size_t mutations_ = 0;
  size_t lists_to_plan_ = 0;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_EMISSION_CHUNK_H_
