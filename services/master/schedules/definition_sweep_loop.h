// DefinitionSweepLoop: deletes old versions of definitions, and the tombstones of deleted schedules
// with all their definitions. Every master does it; deleting twice does nothing.
//
// A version is old if kVersionsKept newer ones exist, it was replaced more than kVersionKeptFor
// ago, and no row of the schedule is parked or waits for a token. (No other row of an unsent event
// is so old: retries end after 30 days.) If there is an older row all the same, it is judged by the
// versions that are left (common/records/row_judge.h).
//
// A tombstone is deleted once the outcomes of the schedule's last events have been collected, and
// with it what is left of the schedule: its counts, and the name by which its runs are found. Rows
// of a uid without a state end as skipped(deleted), as with a tombstone.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_DEFINITION_SWEEP_LOOP_H_
#define SERVICES_MASTER_SCHEDULES_DEFINITION_SWEEP_LOOP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/tenants/tenant_rules.h"

namespace escapement::master {

class DefinitionSweepLoop {
 public:
  // `context` and `tenants` outlive it; the context's executor is stopped before the loop is
  // destroyed.
  DefinitionSweepLoop(MasterContext& context, const TenantDirectory& tenants)
      : context_(context), tenants_(tenants) {}

  // Looks at the states of all schedules, page by page with pauses; begins again a while after the
  // end.
  void Start();

 private:
  // A schedule whose versions are swept.
  struct Swept {
    Uid uid;
    std::string state_bytes;
    storage::v1::StateRecord state;
    std::vector<std::string> old_keys;  // definitions that are to be deleted
    std::vector<std::string> prefixes;  // rows that must not exist, in `parked` and then `waiting`
  };
  using SweptPtr = std::shared_ptr<Swept>;

  void StartLater();
  void ReadStates(std::string position);
  // Ends the present schedule; the next one of the page follows.
  void Next();
  void Sweep(SweptPtr swept);
  void SweepTombstone(SweptPtr swept);
  // Adds to the group that deletes the last of a tombstone, and commits it: the counts of all runs,
  // and the name by which the runs are found.
  void DeleteCounts(SweptPtr swept, kv::Group group);
  void DeleteName(SweptPtr swept, kv::Group group);
  void OnVersions(const SweptPtr& swept, const kv::ScanResult& versions);
  void AddPrefixes(const storage::v1::DefinitionRecord& definition, Swept& swept) const;
  // Deletes the old versions if no row has a key with one of the prefixes from `i` on.
  void CheckRows(SweptPtr swept, size_t i);
  void Commit(const Swept& swept, kv::Group group);
  absl::Duration TombstoneKeptFor(const std::string& tenant) const;

  MasterContext& context_;
  const TenantDirectory& tenants_;
  std::vector<SweptPtr> page_;  // the schedules of the page that are left, the last one first
  std::string position_;        // where the next page begins; empty: there is none
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_DEFINITION_SWEEP_LOOP_H_
