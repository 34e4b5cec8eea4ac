#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/storage/done_table.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/budget/mark.h"
#include "tests/budget/paths.h"
#include "tests/budget/rocks_rig.h"

namespace escapement::budget {
namespace {

// Ends each row of a batch: the row must be there; it is deleted, and a Done record is put.
std::vector<kv::Group> Ends(const std::vector<kv::Group>& puts) {
  std::vector<kv::Group> ends;
  for (const kv::Group& put : puts) {
    if (put.mutations[0].cf != kv::ColumnFamily::kEvents) continue;
    const std::optional<EventKey> key = DecodeEventKey(put.mutations[0].key);
    storage::v1::DoneRecord done;
    done.set_tenant("default");
    done.set_count(1);
    done.set_run_count(1);
    done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
    done.set_attempts(1);
    done.set_nominal_time_micros(ToMicros(key->due_time));
    done.set_launch_time_micros(ToMicros(key->due_time));
    done.set_dispatch_time_micros(ToMicros(key->due_time));
    done.set_complete_time_micros(ToMicros(key->due_time));
    kv::Group& end = ends.emplace_back();
    end.conditions.push_back({.cf = kv::ColumnFamily::kEvents,
                              .key = put.mutations[0].key,
                              .kind = kv::Condition::Kind::kPresent});
    end.mutations.push_back({.cf = kv::ColumnFamily::kEvents,
                             .kind = kv::Mutation::Kind::kDelete,
                             .key = put.mutations[0].key});
    end.mutations.push_back({.cf = kv::ColumnFamily::kDone,
                             .key = EncodeDoneKey({.shard = key->shard,
                                                   .day = DoneDay(key->due_time),
                                                   .uid = key->uid,
                                                   .occurrence = "",
                                                   .first = 0}),
                             .value = done.SerializeAsString()});
  }
  return ends;
}

}  // namespace

void RunStorePath(uint64_t events) {
  std::vector<std::vector<kv::Group>> puts = OneOffGroups(
      events, absl::FromUnixSeconds(1'772'323'200), 8, "consumer", /*client_ids=*/true);
  std::vector<std::vector<kv::Group>> ends;
  for (const std::vector<kv::Group>& batch : puts) ends.push_back(Ends(batch));
  RocksRig rig;
  rig.Commit({});  // opens the session
  escapement_budget_mark();
  for (size_t i = 0; i < puts.size(); ++i) {
    rig.Commit(std::move(puts[i]));
    rig.Commit(std::move(ends[i]));
  }
  escapement_budget_mark();
}

}  // namespace escapement::budget
