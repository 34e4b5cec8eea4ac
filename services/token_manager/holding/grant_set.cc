#include "services/token_manager/holding/grant_set.h"

#include <algorithm>
#include <limits>

#include "common/base/message_writer.h"

namespace escapement::token_manager {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr uint64_t kIndexMax = std::numeric_limits<uint64_t>::max();

// As a varint has it: negative numbers take ten bytes.
uint64_t Unsigned(int64_t value) { return static_cast<uint64_t>(value); }

uint64_t EndOf(const HeldRange& range) { return range.first + range.count; }

// The part within [first, end); of 0 events if there is none.
HeldRange Cut(HeldRange range, uint64_t first, uint64_t end) {
  end = std::min(end, EndOf(range));
  range.first = std::max(first, range.first);
  range.count = end - std::min(end, range.first);
  return range;
}

bool Continues(const HeldRange& range, HeldRange next) {
  if (EndOf(range) != next.first) return false;
  next.first = range.first;
  next.count = range.count;
  return next == range;
}

// Given to a handler, which has not reported on them.
int64_t UndeliveredOf(const Grant& grant) {
  uint64_t count = 0;
  if (grant.sleeps()) return 0;
  for (const HeldRange& range : grant.holders)
    count += range.delivered_micros == 0 ? range.count : 0;
  return static_cast<int64_t>(count);
}

}  // namespace

void MergeAlike(HeldRanges& ranges) {
  size_t last = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (Continues(ranges[last], ranges[i])) {
      ranges[last].count += ranges[i].count;
    } else {
      ranges[++last] = ranges[i];
    }
  }
  if (!ranges.empty()) ranges.resize(last + 1);
}

std::optional<Grant> DecodeGrant(uint16_t policy_shard, uint64_t epoch, uint64_t number,
                                 const std::string& value) {
  Grant grant{.epoch = epoch, .number = number};
  storage::v1::GrantRecord& record = grant.record;
  if (!record.ParseFromString(value) || record.uid().size() != Uid::kBytes ||
      record.holders().empty())
    return std::nullopt;
  grant.source = RowSourceOf(std::move(*record.mutable_event()), Uid::FromBytes(record.uid()),
                             record.occurrence(), policy_shard);
  uint64_t end = 0;
  for (const auto& holders : record.holders()) {
    if (holders.count() == 0 || holders.first() < end ||
        holders.count() > kIndexMax - holders.first())
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
  record.clear_event();
  record.clear_uid();
  record.clear_occurrence();
  record.clear_holders();
  return grant;
}

std::string EncodeGrant(const Grant& grant) {
  using Record = storage::v1::GrantRecord;
  using Holders = Record::Holders;
  const Record& record = grant.record;
  const std::string& event = EventBytesOf(*grant.source);
  MessageWriter out(event.size() + 192);
  out.Message(Record::kEventFieldNumber, event)
      .Bytes(Record::kUidFieldNumber, grant.source->uid.bytes())
      .Bytes(Record::kOccurrenceFieldNumber, grant.source->occurrence)
      .Number(Record::kClaimedVersionFieldNumber, record.claimed_version())
      .Number(Record::kGrantTimeMicrosFieldNumber, Unsigned(record.grant_time_micros()))
      .Number(Record::kSendBeforeMicrosFieldNumber, Unsigned(record.send_before_micros()))
      .Number(Record::kDeliveryTimeoutMicrosFieldNumber, Unsigned(record.delivery_timeout_micros()))
      .Number(Record::kQueueShardFieldNumber, record.queue_shard())
      .Number(Record::kClaimEpochFieldNumber, record.claim_epoch())
      .Number(Record::kClaimNumberFieldNumber, record.claim_number());
  for (const HeldRange& range : grant.holders) {
    MessageWriter holders(15);
    holders.Number(Holders::kFirstFieldNumber, range.first)
        .Number(Holders::kCountFieldNumber, range.count)
        .Number(Holders::kDeliveredTimeMicrosFieldNumber, Unsigned(range.delivered_micros))
        .Number(Holders::kExpireTimeMicrosFieldNumber, Unsigned(range.expire_micros))
        .Number(Holders::kOverdueFieldNumber, range.overdue ? 1 : 0)
        .Number(Holders::kLostClaimsFieldNumber, range.lost_claims)
        .Number(Holders::kDispatchTimeMicrosFieldNumber, Unsigned(range.dispatch_micros))
        .Number(Holders::kStatusFieldNumber, Unsigned(range.status));
    out.Message(Record::kHoldersFieldNumber, holders.written());
  }
  return out.Number(Record::kReturnDueMicrosFieldNumber, Unsigned(record.return_due_micros()))
      .Number(Record::kRetryAtMicrosFieldNumber, Unsigned(record.retry_at_micros()))
      .Take();
}

GrantSet::~GrantSet() {
  while (!entries_.empty()) Forget(Key(entries_.begin()->first));
}

const Grant* GrantSet::Find(const Key& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second.grant;
}

void GrantSet::CountHeld(const Grant& grant, int64_t events) {
  const uint64_t tokens = static_cast<uint64_t>(events) * grant.source->weight;  // modulo 2^64
  held_ += tokens;
  totals_->held += tokens;
  const auto of_key = held_of_.try_emplace(grant.source->key(), 0).first;
  of_key->second += tokens;
  if (of_key->second == 0) held_of_.erase(of_key);
  totals_->further.Hold(*grant.source, events);
}

void GrantSet::CountUndelivered(const Grant& grant, int64_t events) {
  totals_->undelivered += static_cast<uint64_t>(events);
  if (grant.record.queue_shard() < totals_->undelivered_by_shard.size())
    totals_->undelivered_by_shard[grant.record.queue_shard()] += static_cast<uint64_t>(events);
}

int64_t GrantSet::EndOfWait(const Grant& grant, const HeldRange& range) const {
  if (range.delivered_micros == 0)
    return grant.record.send_before_micros() + grant.record.delivery_timeout_micros() +
           slack_micros_;
  return range.overdue ? kNever : range.expire_micros;
}

void GrantSet::Changed(const Key& key, Entry& entry) {
  int64_t deadline = kNever;
  for (const HeldRange& range : entry.grant.holders) {
    deadline =
        std::min(deadline, entry.grant.sleeps() ? entry.wake : EndOfWait(entry.grant, range));
  }
  if (deadline == entry.deadline) return;
  if (entry.deadline != kNever) deadlines_.erase({entry.deadline, key});
  entry.deadline = deadline;
  if (deadline != kNever) deadlines_.insert({deadline, key});
}

void GrantSet::Add(Grant&& grant) {
  const Key key = grant.key();
  for (const HeldRange& range : grant.holders) {
    CountHeld(grant, static_cast<int64_t>(range.count));
    any_overdue_ |= range.overdue;
  }
  CountUndelivered(grant, UndeliveredOf(grant));
  Entry& entry = entries_[key];
  entry.deadline = kNever;
  entry.wake = grant.record.retry_at_micros();
  entry.grant = std::move(grant);
  Changed(key, entry);
}

HeldRanges GrantSet::Undelivered(const Key& key, uint64_t first, uint64_t count) const {
  HeldRanges undelivered;
  const Grant* grant = Find(key);
  if (grant == nullptr) return undelivered;
  for (const HeldRange& range : grant->holders) {
    const HeldRange within = Cut(range, first, first + std::min(count, kIndexMax - first));
    if (within.count > 0 && within.delivered_micros == 0) undelivered.push_back(within);
  }
  return undelivered;
}

template <typename Change>
uint64_t GrantSet::ChangeWithin(const Key& key, uint64_t first, uint64_t count, Change change) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return 0;
  Grant& grant = found->second.grant;
  const int64_t undelivered = UndeliveredOf(grant);
  const uint64_t end = first + std::min(count, kIndexMax - first);
  absl::InlinedVector<HeldRange, 4> split;
  const auto keep = [&split](const HeldRange& range) {
    if (range.count > 0) split.push_back(range);
  };
  for (const HeldRange& range : grant.holders) {
    keep(Cut(range, 0, first));
    HeldRange within = Cut(range, first, end);
    if (within.count > 0) change(grant, within);
    keep(within);
    keep(Cut(range, end, kIndexMax));
  }
  grant.holders.assign(split.begin(), split.end());
  MergeAlike(grant.holders);
  const int64_t fewer = undelivered - UndeliveredOf(grant);
  CountUndelivered(grant, -fewer);
  Changed(key, found->second);
  return static_cast<uint64_t>(fewer);
}

HeldRanges GrantSet::Remove(const Key& key, uint64_t first, uint64_t count) {
  HeldRanges removed;
  ChangeWithin(key, first, count, [&](const Grant& grant, HeldRange& range) {
    removed.push_back(range);
    CountHeld(grant, -static_cast<int64_t>(std::exchange(range.count, 0)));
  });
  return removed;
}

GrantSet::Marked GrantSet::Deliver(const Key& key, uint64_t first, uint64_t count,
                                   int64_t delivered_micros, int64_t expire_micros,
                                   int64_t dispatch_micros, int32_t status) {
  Marked marked;
  marked.delivered = ChangeWithin(key, first, count, [&](const Grant& grant, HeldRange& range) {
    if (grant.sleeps()) return;
    if (range.delivered_micros == 0) {
      range.delivered_micros = std::max<int64_t>(delivered_micros, 1);
      range.dispatch_micros = dispatch_micros;
      range.status = status;
    } else if (expire_micros <= range.expire_micros || range.overdue) {
      return;
    }
    range.expire_micros = expire_micros;
    marked.effect = true;
  });
  return marked;
}

GrantSet::Marked GrantSet::Extend(const Key& key, uint64_t first, uint64_t count,
                                  int64_t now_micros, int64_t expire_micros) {
  Marked marked;
  marked.delivered = ChangeWithin(key, first, count, [&](const Grant& grant, HeldRange& range) {
    if (grant.sleeps()) return;
    marked.effect = true;
    if (range.delivered_micros == 0) {
      // Without ON_RELEASE it holds until the handler says how the delivery has ended.
      if (!grant.source->event.throttle().on_release()) return;
      range.delivered_micros = std::max<int64_t>(now_micros, 1);
    }
    range.expire_micros = expire_micros;
    range.overdue = false;
  });
  return marked;
}

void GrantSet::CountLost(const Key& key, uint64_t first, uint64_t count, uint32_t lost_claims) {
  ChangeWithin(key, first, count, [&](const Grant& /*grant*/, HeldRange& range) {
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
  uint64_t marked = 0;
  ChangeWithin(key, 0, kIndexMax, [&](const Grant& grant, HeldRange& range) {
    if (range.delivered_micros == 0 || EndOfWait(grant, range) > now_micros) return;
    range.overdue = any_overdue_ = true;
    marked += range.count;
  });
  return marked;
}

void GrantSet::SetClaim(const Key& key, const storage::v1::GrantRecord& record) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Grant& grant = found->second.grant;
  CountUndelivered(grant, -UndeliveredOf(grant));
  grant.record = record;
  CountUndelivered(grant, UndeliveredOf(grant));
  Changed(key, found->second);
}

void GrantSet::WakeAt(const Key& key, int64_t micros) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  found->second.wake = micros == 0 ? kNever : micros;
  Changed(key, found->second);
}

void GrantSet::WakeInTime() {
  for (auto& [key, entry] : entries_) {
    const int64_t retry_at = entry.grant.record.retry_at_micros();
    if (retry_at == 0 || entry.wake == kNever || entry.wake <= retry_at) continue;
    entry.wake = retry_at;
    Changed(key, entry);
  }
}

void GrantSet::Forget(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  const auto& [grant, deadline, wake] = found->second;
  CountUndelivered(grant, -UndeliveredOf(grant));
  for (const HeldRange& range : grant.holders) CountHeld(grant, -static_cast<int64_t>(range.count));
  if (deadline != kNever) deadlines_.erase({deadline, key});
  entries_.erase(found);
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
  for (const auto& [key, entry] : entries_) {
    for (const HeldRange& range : entry.grant.holders) {
      if (range.delivered_micros != 0 && range.expire_micros <= now_micros) events += range.count;
    }
  }
  return events;
}

HeldRanges GrantSet::Expired(const Key& key, int64_t now_micros, bool delivered) const {
  HeldRanges over;
  const Grant* grant = Find(key);
  if (grant == nullptr || grant->sleeps()) return over;
  for (const HeldRange& range : grant->holders) {
    const bool asked = (range.delivered_micros != 0) == delivered;
    if (asked && EndOfWait(*grant, range) <= now_micros) over.push_back(range);
  }
  return over;
}

}  // namespace escapement::token_manager
