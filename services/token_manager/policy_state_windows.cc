// PolicyState: rows that wait for a window, or for their place in it.

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "services/token_manager/policy_state.h"
#include "services/token_manager/window_plan.h"

namespace escapement::token_manager {
namespace {

// Rows whose time in their window comes within so long stay in memory.
constexpr absl::Duration kOpensSoon = absl::Seconds(1);
// So often at most a group is read anew whose rows are busy, or have their times that soon.
constexpr absl::Duration kOpenAgain = absl::Milliseconds(20);

}  // namespace

bool PolicyState::WaitsLong(const WaitingRow& row) {
  return OpensAt(row.source->event) > row.due + kWaitsLong;
}

void PolicyState::NotOpen(const std::string& key, WaitingRow& row) {
  row.looked = true;
  Queue(key, row);
}

void PolicyState::SetOpens(const GroupKey& key, RowGroup& group, absl::Time opens) {
  openings_.erase({group.opens, key});
  group.opens = opens;
  if (opens != absl::InfiniteFuture()) openings_.insert({opens, key});
}

absl::Time PolicyState::MayGoAt(const RowGroup& group, const WaitingRow& row) const {
  const bool to_be_judged = group.brought_up && !row.looked;
  return to_be_judged ? absl::InfinitePast() : EligibleAt(SliceOf("", row));
}

// Of what waits those rows whose time comes later than `beyond`, and the earliest time of them.
std::vector<std::string> PolicyState::WaitingBeyond(const RowGroup& group, absl::Time beyond,
                                                    absl::Time* opens) const {
  std::vector<std::string> waiting;
  for (const auto& [key, row] : group.rows) {
    if (row.busy) continue;
    const absl::Time at = MayGoAt(group, row);
    if (at <= std::max(row.due, beyond)) continue;
    waiting.push_back(key);
    *opens = std::min(*opens, at);
  }
  return waiting;
}

PolicyState::Next PolicyState::NextOf(const RowGroup& group, absl::Time now) const {
  const absl::Time soon = now + kOpensSoon;
  bool first = true;
  for (const auto& [key, row] : group.rows) {
    if (row.busy) continue;
    const absl::Time at = MayGoAt(group, row);
    if (std::exchange(first, false) && at > std::max(row.due + kOpensSoon, soon))
      return Next::kLater;
    // Those behind one that waits for its due time are due no sooner.
    if (at <= std::max(row.due, now + grant_lead_)) return Next::kHere;
  }
  return first ? Next::kHere : Next::kSoon;
}

std::vector<std::string> PolicyState::LeaveWaiting(const GroupKey& group_key, absl::Time now,
                                                   size_t group_rows_max) {
  const auto at = groups.find(group_key);
  if (at == groups.end() || !at->second.end.has_value() || at->second.scan != 0) return {};
  RowGroup& group = at->second;
  const Next next = NextOf(group, now);
  if (next == Next::kHere) return {};
  absl::Time opens = group.opens;
  std::vector<std::string> left = WaitingBeyond(group, now + kOpensSoon, &opens);
  // So many have their time soon that what is behind them would not be read.
  if (next == Next::kSoon && group.rows.size() - left.size() > group_rows_max / 2) {
    left = WaitingBeyond(group, now + grant_lead_, &opens);
    opens = std::max(opens, now + grant_lead_ + kOpenAgain);
  }
  if (left.empty()) return left;
  group.left = group.rows.at(left.back()).source;
  for (const std::string& key : left) RemoveRow(key);
  group.left_before = std::max(group.left_before, KeyAfter(left.back()));
  SetOpens(group_key, group, opens);
  return left;
}

std::vector<GroupKey> PolicyState::TakeOpened(absl::Time now) {
  std::vector<GroupKey> opened;
  while (!openings_.empty() && openings_.begin()->first <= now + grant_lead_) {
    const GroupKey key = openings_.begin()->second;
    RowGroup& group = groups.at(key);
    // What ends while the group is being read would come back by that.
    if (std::any_of(group.rows.begin(), group.rows.end(),
                    [](const auto& row) { return row.second.busy; })) {
      SetOpens(key, group, now + grant_lead_ + kOpenAgain);
      continue;
    }
    CutAt(group, WaitingGroupPrefix(policy_shard, uid, key.first, key.second));
    group.scan = 0;
    group.arrived.clear();
    group.left_before.clear();
    group.left = nullptr;
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
    queue.Add(RaisedSliceOf(row_key, row));
  }
}

}  // namespace escapement::token_manager
