// Round: what one commit of a policy shard is made of, while it is put together.
//
// Threads: one.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_ROUND_H_
#define SERVICES_TOKEN_MANAGER_SHARD_ROUND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/tokens/token_door.h"
#include "services/token_manager/holding/end_rows.h"
#include "services/token_manager/shard/shard_state.h"

namespace escapement::token_manager {

// Events that hold tokens and must be claimed again: the handler that had claimed them is gone.
struct Resend {
  Uid policy;
  GrantSet::Key grant;
  uint64_t first = 0;
  uint64_t count = 0;
};

// Bytes of reports and completions in one round: a quarter of a commit's bound. One report or call
// more may be in it.
inline constexpr size_t kRoundBytesMax = 8 << 20;

struct Round {
  explicit Round(absl::Time now) : now(now), micros(absl::ToUnixMicros(now)) {}

  const absl::Time now;
  const int64_t micros;

  // The group of what has come in; it has no conditions.
  kv::Group base;
  std::vector<EndedRange> ends;
  EndedEvents ended;  // the same for statistics; set by CloseBase
  // By policy whose counts have changed: the grants whose records have, some more than once.
  std::map<Uid, std::vector<GrantSet::Key>> touched;
  std::set<std::string> parts;  // keys of counts that have changed
  // The counts that were changed last: most entries of a report are of one row.
  struct LastCounts {
    std::shared_ptr<const RowSource> source = nullptr;
    storage::v1::RunPartRecord* record = nullptr;  // null: not known
  };
  LastCounts last_part;         // counts of one run
  LastCounts last_of_schedule;  // counts of all runs of a schedule
  // How far the round has been filled: entries acted upon or rows that follow, and about how much
  // these write.
  size_t entries = 0;
  size_t bytes = 0;
  bool Full(size_t entries_max) const { return entries >= entries_max || bytes >= kRoundBytesMax; }

  // To be answered once the commit has applied.
  std::vector<std::pair<LocalGrants::Done, std::vector<bool>>> answers;
};

// The counts under a key, which the round writes; null: not known. Those of holders and judged rows
// are pinned and known.
storage::v1::RunPartRecord* CountsToChange(PolicyShardState& state, Round& round,
                                           const std::string& key);

// Changes a run part; of rows that count in none, nothing.
template <typename Change>
void ChangePart(PolicyShardState& state, Round& round,
                const std::shared_ptr<const RowSource>& source, Change change) {
  if (source->part_key.empty()) return;
  if (round.last_part.source != source)
    round.last_part = {source, CountsToChange(state, round, source->part_key)};
  if (round.last_part.record != nullptr) change(*round.last_part.record);
}

// Changes the counts of all runs of the row's schedule.
void CountEnds(PolicyShardState& state, Round& round,
               const std::shared_ptr<const RowSource>& source, storage::v1::OutcomeKind outcome,
               uint64_t count, int64_t end_micros);

// Puts a row into the group and into memory.
void PutRow(PolicyShardState& state, kv::Group& group, kv::Mutation row);

// Adds the records of what has changed to the base: grants, parts, ends. The policies' counts are
// returned: they go there too, unless another group of the commit has newer ones.
std::map<Uid, kv::Mutation> CloseBase(PolicyShardState& state, Round& round);

kv::Mutation CountsPut(PolicyState& policy, int64_t now_micros);
void PutGrant(const PolicyState& policy, const Grant& grant, kv::Group& group);
void PutPart(PolicyShardState& state, const std::string& key, kv::Group& group);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_ROUND_H_
