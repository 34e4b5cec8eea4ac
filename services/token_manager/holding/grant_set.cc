#include "services/token_manager/holding/grant_set.h"

#include <algorithm>
#include <limits>

namespace escapement::token_manager {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

uint64_t EndOf(const HeldRange& range) { return range.first + range.count; }

// One past the last index, without going round.
uint64_t EndOf(uint64_t first, uint64_t count) {
  return count > std::numeric_limits<uint64_t>::max() - first ? std::numeric_limits<uint64_t>::max()
                                                              : first + count;
}

bool Alike(const HeldRange& a, const HeldRange& b) {
  return a.delivered_micros == b.delivered_micros && a.expire_micros == b.expire_micros &&
         a.overdue == b.overdue && a.dispatch_micros == b.dispatch_micros && a.status == b.status &&
         a.lost_claims == b.lost_claims;
}

// Given to a handler, which has not reported on them.
uint64_t Undelivered(const Grant& grant) {
  uint64_t count = 0;
  if (grant.retry_micros != 0) return count;
  for (const HeldRange& range : grant.holders)
    count += range.delivered_micros == 0 ? range.count : 0;
  return count;
}

// Neighbours that say the same become one.
void Merge(std::vector<HeldRange>& holders) {
  size_t last = 0;
  for (size_t i = 1; i < holders.size(); ++i) {
    if (EndOf(holders[last]) == holders[i].first && Alike(holders[last], holders[i])) {
      holders[last].count += holders[i].count;
    } else {
      holders[++last] = holders[i];
    }
  }
  if (!holders.empty()) holders.resize(last + 1);
}

}  // namespace

std::optional<Grant> DecodeGrant(uint16_t policy_shard, uint64_t epoch, uint64_t number,
                                 const std::string& value) {
  storage::v1::GrantRecord record;
  if (!record.ParseFromString(value) || record.uid().size() != Uid::kBytes ||
      record.holders().empty())
    return std::nullopt;
  Grant grant{
      .epoch = epoch,
      .number = number,
      .source = RowSourceOf(std::move(*record.mutable_event()), Uid::FromBytes(record.uid()),
                            record.occurrence(), policy_shard),
      .claimed_version = record.claimed_version(),
      .grant_micros = record.grant_time_micros(),
      .send_before_micros = record.send_before_micros(),
      .delivery_timeout_micros = record.delivery_timeout_micros(),
      .return_due_micros = record.return_due_micros(),
      .retry_micros = record.retry_at_micros(),
      .queue_shard = static_cast<uint16_t>(record.queue_shard()),
      .claim_epoch = record.claim_epoch(),
      .claim_number = record.claim_number()};
  uint64_t end = 0;
  for (const auto& holders : record.holders()) {
    if (holders.count() == 0 || holders.first() < end ||
        holders.count() > std::numeric_limits<uint64_t>::max() - holders.first())
      return std::nullopt;
    end = holders.first() + holders.count();
    grant.holders.push_back({.first = holders.first(),
                             .count = holders.count(),
                             .delivered_micros = holders.delivered_time_micros(),
                             .expire_micros = holders.expire_time_micros(),
                             .overdue = holders.overdue(),
                             .dispatch_micros = holders.dispatch_time_micros(),
                             .status = holders.status(),
                             .lost_claims = holders.lost_claims()});
  }
  return grant;
}

std::string EncodeGrant(const Grant& grant) {
  storage::v1::GrantRecord record;
  *record.mutable_event() = grant.source->event;
  record.set_uid(std::string(grant.source->uid.bytes()));
  record.set_occurrence(grant.source->occurrence);
  record.set_claimed_version(grant.claimed_version);
  record.set_grant_time_micros(grant.grant_micros);
  record.set_send_before_micros(grant.send_before_micros);
  record.set_delivery_timeout_micros(grant.delivery_timeout_micros);
  record.set_return_due_micros(grant.return_due_micros);
  record.set_retry_at_micros(grant.retry_micros);
  record.set_queue_shard(grant.queue_shard);
  record.set_claim_epoch(grant.claim_epoch);
  record.set_claim_number(grant.claim_number);
  for (const HeldRange& range : grant.holders) {
    auto& holders = *record.add_holders();
    holders.set_first(range.first);
    holders.set_count(range.count);
    holders.set_delivered_time_micros(range.delivered_micros);
    holders.set_expire_time_micros(range.expire_micros);
    holders.set_overdue(range.overdue);
    holders.set_dispatch_time_micros(range.dispatch_micros);
    holders.set_status(range.status);
    holders.set_lost_claims(range.lost_claims);
  }
  return record.SerializeAsString();
}

GrantSet::~GrantSet() {
  for (const auto& [key, entry] : entries_) {
    TakeUndelivered(entry.grant, Undelivered(entry.grant));
    for (const HeldRange& range : entry.grant.holders) TakeHeld(entry.grant, range.count);
  }
}

void GrantSet::AddUndelivered(const Grant& grant, uint64_t count) {
  totals_->undelivered += count;
  if (grant.queue_shard < totals_->undelivered_by_shard.size())
    totals_->undelivered_by_shard[grant.queue_shard] += count;
}

void GrantSet::TakeUndelivered(const Grant& grant, uint64_t count) {
  totals_->undelivered -= count;
  if (grant.queue_shard < totals_->undelivered_by_shard.size())
    totals_->undelivered_by_shard[grant.queue_shard] -= count;
}

int64_t GrantSet::SilentFrom(const Grant& grant) const {
  return grant.send_before_micros + grant.delivery_timeout_micros + slack_micros_;
}

int64_t GrantSet::DeadlineOf(const Entry& entry) const {
  const Grant& grant = entry.grant;
  if (grant.retry_micros != 0) return grant.holders.empty() ? kNever : entry.wake;
  int64_t deadline = kNever;
  for (const HeldRange& range : grant.holders) {
    if (range.delivered_micros == 0) {
      deadline = std::min(deadline, SilentFrom(grant));
    } else if (!range.overdue) {
      deadline = std::min(deadline, range.expire_micros);
    }
  }
  return deadline;
}

void GrantSet::Changed(const Key& key, Entry& entry) {
  const int64_t deadline = DeadlineOf(entry);
  if (deadline == entry.deadline) return;
  if (entry.deadline != kNever) deadlines_.erase({entry.deadline, key});
  entry.deadline = deadline;
  if (deadline != kNever) deadlines_.insert({deadline, key});
}

void GrantSet::Add(Grant grant) {
  const Key key{grant.epoch, grant.number};
  for (const HeldRange& range : grant.holders) {
    AddHeld(grant, range.count);
    any_overdue_ |= range.overdue;
  }
  AddUndelivered(grant, Undelivered(grant));
  Entry& entry = entries_[key];
  entry.deadline = kNever;
  entry.wake = grant.retry_micros;
  entry.grant = std::move(grant);
  Changed(key, entry);
}

const Grant* GrantSet::Find(const Key& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second.grant;
}

std::vector<HeldRange> GrantSet::Held(const Key& key, uint64_t first, uint64_t count) const {
  std::vector<HeldRange> held;
  const Grant* grant = Find(key);
  if (grant == nullptr) return held;
  const uint64_t end = EndOf(first, count);
  for (HeldRange range : grant->holders) {
    const uint64_t from = std::max(first, range.first);
    const uint64_t to = std::min(end, EndOf(range));
    if (from >= to) continue;
    range.first = from;
    range.count = to - from;
    held.push_back(range);
  }
  return held;
}

std::vector<HeldRange> GrantSet::Remove(const Key& key, uint64_t first, uint64_t count) {
  std::vector<HeldRange> removed = Held(key, first, count);
  if (removed.empty()) return removed;
  Entry& entry = entries_.find(key)->second;
  const uint64_t end = EndOf(first, count);
  std::vector<HeldRange> left;
  left.reserve(entry.grant.holders.size() + 1);
  for (const HeldRange& range : entry.grant.holders) {
    if (range.first < first) {
      HeldRange before = range;
      before.count = std::min(EndOf(range), first) - range.first;
      left.push_back(before);
    }
    if (EndOf(range) > end) {
      HeldRange after = range;
      after.first = std::max(range.first, end);
      after.count = EndOf(range) - after.first;
      left.push_back(after);
    }
  }
  entry.grant.holders = std::move(left);
  for (const HeldRange& range : removed) {
    TakeHeld(entry.grant, range.count);
    if (range.delivered_micros == 0 && entry.grant.retry_micros == 0)
      TakeUndelivered(entry.grant, range.count);
  }
  Changed(key, entry);
  return removed;
}

template <typename Visit>
void GrantSet::VisitWithin(Grant& grant, uint64_t first, uint64_t count, Visit visit) {
  const uint64_t end = EndOf(first, count);
  std::vector<HeldRange> split;
  split.reserve(grant.holders.size() + 2);
  for (const HeldRange& range : grant.holders) {
    const uint64_t from = std::clamp(first, range.first, EndOf(range));
    const uint64_t to = std::clamp(end, from, EndOf(range));
    const auto add = [&](uint64_t begin, uint64_t stop) {
      if (begin >= stop) return;
      split.push_back(range);
      split.back().first = begin;
      split.back().count = stop - begin;
    };
    add(range.first, from);
    if (from < to) {
      add(from, to);
      visit(split.back());
    }
    add(to, EndOf(range));
  }
  Merge(split);
  grant.holders = std::move(split);
}

GrantSet::Delivered GrantSet::Deliver(const Key& key, uint64_t first, uint64_t count,
                                      int64_t delivered_micros, int64_t expire_micros,
                                      int64_t dispatch_micros, int32_t status) {
  const auto found = entries_.find(key);
  Delivered delivered;
  if (found == entries_.end() || found->second.grant.retry_micros != 0) return delivered;
  VisitWithin(found->second.grant, first, count, [&](HeldRange& range) {
    if (range.delivered_micros == 0) {
      range.delivered_micros = std::max<int64_t>(delivered_micros, 1);
      range.expire_micros = expire_micros;
      range.dispatch_micros = dispatch_micros;
      range.status = status;
      delivered.events += range.count;
      delivered.changed = true;
    } else if (expire_micros > range.expire_micros && !range.overdue) {
      range.expire_micros = expire_micros;
      delivered.changed = true;
    }
  });
  TakeUndelivered(found->second.grant, delivered.events);
  Changed(key, found->second);
  return delivered;
}

GrantSet::Extended GrantSet::Extend(const Key& key, uint64_t first, uint64_t count,
                                    int64_t now_micros, int64_t expire_micros) {
  const auto found = entries_.find(key);
  Extended extended;
  if (found == entries_.end() || found->second.grant.retry_micros != 0) return extended;
  const bool on_release = found->second.grant.source->event.throttle().on_release();
  VisitWithin(found->second.grant, first, count, [&](HeldRange& range) {
    extended.events += range.count;
    if (range.delivered_micros == 0) {
      if (!on_release) return;  // it holds until the handler says how the delivery has ended
      range.delivered_micros = std::max<int64_t>(now_micros, 1);
      extended.delivered += range.count;
    }
    range.expire_micros = expire_micros;
    range.overdue = false;
  });
  TakeUndelivered(found->second.grant, extended.delivered);
  Changed(key, found->second);
  return extended;
}

void GrantSet::CountLost(const Key& key, uint64_t first, uint64_t count, uint32_t lost_claims) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  VisitWithin(found->second.grant, first, count, [&](HeldRange& range) {
    if (range.delivered_micros == 0) range.lost_claims = std::max(range.lost_claims, lost_claims);
  });
}

void GrantSet::ForgetOverdue() {
  if (!any_overdue_) return;
  any_overdue_ = false;
  for (auto& [key, entry] : entries_) {
    for (HeldRange& range : entry.grant.holders) range.overdue = false;
    Changed(key, entry);
  }
}

uint64_t GrantSet::MarkOverdue(const Key& key, int64_t now_micros) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return 0;
  uint64_t marked = 0;
  for (HeldRange& range : found->second.grant.holders) {
    if (range.delivered_micros == 0 || range.overdue || range.expire_micros > now_micros) continue;
    range.overdue = any_overdue_ = true;
    marked += range.count;
  }
  Changed(key, found->second);
  return marked;
}

void GrantSet::Reclaim(const Key& key, uint16_t queue_shard, uint64_t claim_epoch,
                       uint64_t claim_number, int64_t send_before_micros, int64_t grant_micros) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Grant& grant = found->second.grant;
  TakeUndelivered(grant, Undelivered(grant));
  if (grant.retry_micros != 0) grant.grant_micros = grant_micros;
  grant.retry_micros = 0;
  grant.queue_shard = queue_shard;
  grant.claim_epoch = claim_epoch;
  grant.claim_number = claim_number;
  grant.send_before_micros = send_before_micros;
  AddUndelivered(grant, Undelivered(grant));
  Changed(key, found->second);
}

void GrantSet::WakeAt(const Key& key, int64_t micros) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  found->second.wake = micros == 0 ? kNever : micros;
  Changed(key, found->second);
}

void GrantSet::Unclaim(const Key& key, const Grant& former) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Grant& grant = found->second.grant;
  TakeUndelivered(grant, Undelivered(grant));
  grant.grant_micros = former.grant_micros;
  grant.retry_micros = former.retry_micros;
  grant.queue_shard = former.queue_shard;
  grant.claim_epoch = former.claim_epoch;
  grant.claim_number = former.claim_number;
  grant.send_before_micros = former.send_before_micros;
  AddUndelivered(grant, Undelivered(grant));
  Changed(key, found->second);
}

bool GrantSet::Sweep(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return true;
  if (!found->second.grant.holders.empty()) return false;
  entries_.erase(found);  // without holders it has no deadline
  return true;
}

void GrantSet::Forget(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  TakeUndelivered(entry.grant, Undelivered(entry.grant));
  for (const HeldRange& range : entry.grant.holders) TakeHeld(entry.grant, range.count);
  if (entry.deadline != kNever) deadlines_.erase({entry.deadline, key});
  entries_.erase(found);
}

std::optional<int64_t> GrantSet::NextDeadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

std::vector<GrantSet::Key> GrantSet::DueBy(int64_t now_micros, size_t grants_max) const {
  std::vector<Key> due;
  for (const auto& [deadline, key] : deadlines_) {
    if (deadline > now_micros || due.size() >= grants_max) break;
    due.push_back(key);
  }
  return due;
}

uint64_t GrantSet::Overdue(int64_t now_micros) const {
  uint64_t events = 0;
  ForEach([&](const Grant& grant) {
    for (const HeldRange& range : grant.holders) {
      if (range.delivered_micros != 0 && range.expire_micros <= now_micros) events += range.count;
    }
  });
  return events;
}

std::optional<int64_t> GrantSet::NewestMicros() const {
  const auto newest = std::find_if(entries_.rbegin(), entries_.rend(), [](const auto& each) {
    return !each.second.grant.holders.empty();
  });
  if (newest == entries_.rend()) return std::nullopt;
  return newest->second.grant.grant_micros;
}

std::vector<HeldRange> GrantSet::HoldsOver(const Key& key, int64_t now_micros) const {
  std::vector<HeldRange> over;
  const Grant* grant = Find(key);
  if (grant == nullptr) return over;
  for (const HeldRange& range : grant->holders) {
    if (range.delivered_micros != 0 && !range.overdue && range.expire_micros <= now_micros)
      over.push_back(range);
  }
  return over;
}

std::vector<HeldRange> GrantSet::Silent(const Key& key, int64_t now_micros) const {
  std::vector<HeldRange> silent;
  const Grant* grant = Find(key);
  if (grant == nullptr || grant->retry_micros != 0 || SilentFrom(*grant) > now_micros)
    return silent;
  for (const HeldRange& range : grant->holders) {
    if (range.delivered_micros == 0) silent.push_back(range);
  }
  return silent;
}

}  // namespace escapement::token_manager
