// PolicyState: rows that wait for a window, or for their place in it.

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "services/token_manager/waiting/policy_state.h"
#include "services/token_manager/waiting/window_plan.h"

namespace escapement::token_manager {
namespace {

// Rows whose time in their window comes within so long stay in memory.
constexpr absl::Duration kOpensSoon = absl::Seconds(1);
// So often at most a group is read anew whose rows are busy or being read, or have their times that
// soon.
constexpr absl::Duration kOpenAgain = absl::Milliseconds(20);

}  // namespace

bool PolicyState::WaitsLong(const WaitingRow& row) {
  return OpensAt(row.source->event) > row.due + kWaitsLong;
}

void PolicyState::NoteLooked(const std::string& key, WaitingRow& row) {
  row.looked = true;
  Queue(key, row);
}

void PolicyState::SetOpens(const GroupKey& key, RowGroup& group, absl::Time opens) {
  openings_.erase({group.opens, key});
  group.opens = opens;
  if (opens != absl::InfiniteFuture()) openings_.insert({opens, key});
}

absl::Time PolicyState::MayGoAt(const RowGroup& group, const WaitingRow& row) const {
  const bool to_be_judged = group.brought_up && !row.looked && WaitsLong(row);
  return to_be_judged ? absl::InfinitePast() : EligibleAt(SliceOf("", row));
}

std::vector<std::string> PolicyState::LeaveWaiting(const GroupKey& group_key, absl::Time now,
                                                   size_t group_rows_max) {
  const auto at = groups.find(group_key);
  if (at == groups.end() || !at->second.end.has_value() || at->second.scan != 0) return {};
  RowGroup& group = at->second;
  const size_t enough = group_rows_max / 2 + 1;  // that more is not read: see Hungry
  if (group.rows.size() < enough) return {};
  const absl::Time ready_by = now + grant_lead_;
  const absl::Time soon_by = now + kOpensSoon;
  size_t ready = 0;
  size_t soon = 0;
  bool behind = true;  // there may be what can go now behind those in memory
  std::vector<std::pair<absl::Time, std::string>> waiting;
  for (const auto& [key, row] : group.rows) {
    if (row.busy) continue;
    const absl::Time may_go = MayGoAt(group, row);
    ready += may_go <= ready_by ? 1 : 0;
    // Those behind one that waits for its due time are due no sooner.
    behind = ready < enough && (may_go <= ready_by || may_go > row.due + grant_lead_);
    if (!behind) break;
    soon += may_go <= soon_by ? 1 : 0;
    if (may_go > ready_by) waiting.emplace_back(may_go, key);
  }
  const bool ready_first = soon >= enough;
  if (behind && !ready_first) {
    std::erase_if(waiting, [&](const auto& row) { return row.first <= soon_by; });
  }
  if (!behind || waiting.empty() || (ready > 0 && Free() == 0)) {
    group.passing = false;
    return {};
  }
  return Leave(group_key, group, std::move(waiting),
               ready_first ? ready_by + kOpenAgain : absl::InfinitePast());
}

std::vector<std::string> PolicyState::Leave(const GroupKey& group_key, RowGroup& group,
                                            std::vector<std::pair<absl::Time, std::string>> rows,
                                            absl::Time opens_from) {
  absl::Time opens = absl::InfiniteFuture();
  std::vector<std::string> left;
  left.reserve(rows.size());
  for (auto& [may_go, key] : rows) {
    opens = std::min(opens, may_go);
    const WaitingRow& row = group.rows.at(key);
    if (WaitsLong(row) && OpensAt(row.source->event) >= may_go - grant_lead_)
      group.left = row.source;
    RemoveRow(key);
    left.push_back(std::move(key));
  }
  group.left_before = std::max(group.left_before, KeyAfter(left.back()));
  group.passing = true;
  SetOpens(group_key, group, std::min(group.opens, std::max(opens, opens_from)));
  return left;
}

std::vector<GroupKey> PolicyState::TakeOpened(absl::Time now) {
  std::vector<GroupKey> opened;
  while (!openings_.empty() && openings_.begin()->first <= now + grant_lead_) {
    const GroupKey key = openings_.begin()->second;
    RowGroup& group = groups.at(key);
    // What ends while the group is being read would come back by that; and what is read first must
    // not keep from its end a reading that has not come to it.
    if (group.passing || std::any_of(group.rows.begin(), group.rows.end(),
                                     [](const auto& row) { return row.second.busy; })) {
      SetOpens(key, group, now + grant_lead_ + kOpenAgain);
      continue;
    }
    CutAt(group, WaitingGroupPrefix(policy_shard, uid, key.first, key.second));
    group.scan = 0;
    group.arrived.clear();
    group.left_before.clear();
    group.left = nullptr;
    group.passing = true;
    SetOpens(key, group, absl::InfiniteFuture());
    opened.push_back(key);
  }
  return opened;
}

void PolicyState::SetLook(const GroupKey& key, RowGroup& group, absl::Time look) {
  looks_.erase({group.look, key});
  group.look = look;
  if (look != absl::InfiniteFuture()) looks_.insert({look, key});
}

std::vector<GroupKey> PolicyState::TakeLooks(absl::Time now) {
  std::vector<GroupKey> due;
  while (!looks_.empty() && looks_.begin()->first <= now) {
    due.push_back(looks_.begin()->second);
    SetLook(due.back(), groups.at(due.back()), absl::InfiniteFuture());
  }
  return due;
}

std::shared_ptr<const RowSource> PolicyState::LongWaiting(const GroupKey& key) const {
  const auto group = groups.find(key);
  if (group == groups.end()) return nullptr;
  if (group->second.left != nullptr) return group->second.left;
  for (const auto& [row_key, row] : group->second.rows) {
    if (!row.busy && WaitsLong(row)) return row.source;
  }
  return nullptr;
}

void PolicyState::LookLater(const GroupKey& key, absl::Time at) {
  const auto group = groups.find(key);
  if (group != groups.end()) SetLook(key, group->second, at);
}

void PolicyState::BringUp(const GroupKey& key, absl::Time now) {
  RowGroup& group = groups.at(key);
  const bool some_left = group.opens != absl::InfiniteFuture();
  group.brought_up = some_left || group.end.has_value();
  if (some_left) SetOpens(key, group, now);
  for (auto& [row_key, row] : group.rows) {
    if (row.busy || !WaitsLong(row)) continue;
    row.looked = false;
    row.raised = true;
    queue.Add(RaisedSliceOf(row_key, row));
  }
}

}  // namespace escapement::token_manager
