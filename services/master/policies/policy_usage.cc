#include "services/master/policies/policy_usage.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "common/tokens/token_batch.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/policies/policy_codec.h"
#include "services/master/policies/policy_keys.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {

namespace {

using kv::ColumnFamily;

constexpr uint32_t kRowsOfOneScan = 1000;

void ShowCounts(const storage::v1::PolicyCountsRecord& counts, absl::Time now,
                v1::PolicyUsage& usage) {
  usage.set_held_count(static_cast<int64_t>(counts.held()));
  usage.set_granted_count(static_cast<int64_t>(counts.granted()));
  usage.set_released_count(static_cast<int64_t>(counts.released()));
  usage.set_expired_count(static_cast<int64_t>(counts.expired()));
  usage.set_never_given_back(counts.returns() == storage::v1::PolicyCountsRecord::HOLD_ENDED);
  if (now - FromMicros(counts.measure_time_micros()) > kUsageRatesValid) return;
  usage.set_grants_per_second(counts.grants_per_second());
  usage.set_releases_per_second(counts.releases_per_second());
}

void ShowHistory(const storage::v1::PolicyHistoryRecord& history, absl::Time now,
                 v1::PolicyUsage& usage) {
  for (const storage::v1::PolicyHistoryRecord::Sample& sample : history.samples()) {
    if (FromMicros(sample.time_micros()) < now - kUsageHistory) continue;
    v1::PolicyUsage::Sample* shown = usage.add_history();
    SetTimestamp(sample.time_micros(), *shown->mutable_time());
    shown->set_held_count(static_cast<int64_t>(sample.held()));
    shown->set_waiting_count(static_cast<int64_t>(sample.waiting()));
    shown->set_max_concurrent(static_cast<int64_t>(sample.max_concurrent()));
  }
}

class UsageRead : public std::enable_shared_from_this<UsageRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<PolicyUsagePage>)>;
  UsageRead(MasterContext& context, PolicyUsageQuery query, Read done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  void ReadPolicy() {
    context_.client.MultiGet(
        {{ColumnFamily::kPolicies, PolicyKey(query_.name.tenant, query_.name.policy)}},
        context_.executor, [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
          if (!result.ok()) return self->done_(StoreFailed(result.status()));
          self->OnPolicy(result->values[0]);
        });
  }

 private:
  void OnPolicy(const std::optional<std::string>& value) {
    if (!value.has_value()) return done_(NotFound(query_.name.ToString()));
    // Read after the start of the service, on this executor.
    mint_ = context_.mint;
    if (mint_ == nullptr) return done_(NotReady());
    if (!policy_.ParseFromString(*value)) return done_(BrokenRecord(query_.name.ToString()));
    const WaitingPlace place = WaitingPlaceOf(policy_, context_.layout.policy_shards);
    uid_ = place.policy;
    shard_ = place.policy_shard;
    context_.client.MultiGet({{ColumnFamily::kGrants, PolicyCountsKey(shard_, uid_)},
                              {ColumnFamily::kGrants, PolicyHistoryKey(shard_, uid_)}},
                             context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               self->OnCounts(std::move(result->values));
                             });
  }

  void OnCounts(std::vector<std::optional<std::string>> values) {
    now_ = context_.client.NowLow();
    storage::v1::PolicyCountsRecord counts;
    storage::v1::PolicyHistoryRecord history;
    if (!counts.ParseFromString(values[0].value_or(std::string())) ||
        !history.ParseFromString(values[1].value_or(std::string()))) {
      return done_(BrokenRecord(query_.name.ToString()));
    }
    *page_.usage.mutable_policy() = ShowPolicy(policy_, now_);
    ShowCounts(counts, now_, page_.usage);
    ShowHistory(history, now_, page_.usage);
    const HolderPosition& begin = query_.begin;
    ReadGrants(begin.epoch == 0 && begin.number == 0
                   ? GrantsBegin(shard_, uid_)
                   : EncodeGrantKey({shard_, uid_, begin.epoch, begin.number}));
  }

  void ReadGrants(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kGrants;
    scan.begin = std::move(begin);
    scan.end = GrantsEnd(shard_, uid_);
    // Each grant has a holder; the one more tells where to go on.
    scan.limit = static_cast<uint32_t>(query_.holders_max) + 1;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return self->done_(StoreFailed(result.status()));
                           self->OnGrants(*std::move(result));
                         });
  }

  void OnGrants(kv::ScanResult result) {
    for (const kv::Entry& entry : result.entries) {
      const std::optional<GrantId> id = DecodeGrantKey(entry.key);
      storage::v1::GrantRecord grant;
      if (!id.has_value() || !grant.ParseFromString(entry.value) ||
          grant.uid().size() != Uid::kBytes) {
        return done_(BrokenRecord(absl::StrCat("a grant of ", query_.name.ToString())));
      }
      AddHolders(*id, grant);
      if (page_.more) break;
    }
    if (!page_.more && result.more && !result.entries.empty())
      return ReadGrants(KeyAfter(result.entries.back().key));
    ReadWaiting();
  }

  void AddHolders(const GrantId& id, const storage::v1::GrantRecord& grant) {
    const bool first_of_page = id.epoch == query_.begin.epoch && id.number == query_.begin.number;
    for (const auto& range : grant.holders()) {
      uint64_t i = 0;
      if (first_of_page && query_.begin.index > range.first())
        i = query_.begin.index - range.first();
      for (; i < range.count(); ++i) {
        if (static_cast<size_t>(page_.usage.holders_size()) == query_.holders_max) {
          page_.more = true;
          page_.next = {id.epoch, id.number, range.first() + i};
          return;
        }
        AddHolder(id, grant, range, range.first() + i);
      }
    }
  }

  void AddHolder(const GrantId& id, const storage::v1::GrantRecord& grant,
                 const storage::v1::GrantRecord::Holders& range, uint64_t index) {
    v1::PolicyUsage::Holder* holder = page_.usage.add_holders();
    HeldEvent& event = events_.emplace_back();
    event = {Uid::FromBytes(grant.uid()), grant.occurrence(), index};
    if (WaitsAsOneOff(grant.event())) {
      event.one_off =
          EventName{grant.event().tenant(),
                    OneOffEventId(LimitedEventKey(event.schedule, grant.event()), grant.event())}
              .ToString();
    }
    SetTimestamp(grant.grant_time_micros(), *holder->mutable_grant_time());
    SetDuration(std::max<int64_t>(ToMicros(now_) - grant.grant_time_micros(), 0),
                *holder->mutable_age());
    if (range.delivered_time_micros() != 0)
      SetTimestamp(range.delivered_time_micros(), *holder->mutable_delivered_time());
    if (range.expire_time_micros() != 0)
      SetTimestamp(range.expire_time_micros(), *holder->mutable_expire_time());
    holder->set_overdue(range.overdue());
    holder->set_policy_key(grant.event().throttle().policy_key());
    holder->set_weight(
        static_cast<int64_t>(std::max<uint64_t>(grant.event().throttle().weight(), 1)));
    keys_.AddHeld(holder->policy_key(), 1);
    if (grant.event().throttle().on_release()) holder->set_token(mint_->Handle({id, index}));
  }

  void ReadWaiting() {
    ReadDueRows(
        context_, WaitingPolicyPrefix(shard_, uid_),
        absl::StrCat("a waiting row of ", query_.name.ToString()), now_,
        [self = shared_from_this()](const WaitingKey& key, const storage::v1::EventRecord& row,
                                    const DueEvents& due) {
          self->tally_.Add(WaitsAsOneOff(row) ? Uid() : key.uid, due);
          self->keys_.AddWaiting(row, due);
        },
        [self = shared_from_this()](absl::StatusOr<bool> truncated) {
          if (!truncated.ok()) return self->done_(truncated.status());
          self->page_.usage.set_waiting_truncated(*truncated);
          self->waiters_ = self->tally_.Largest(kUsageWaitersMax);
          self->ReadNames();
        });
  }

  void ReadNames() {
    ScheduleNames names;
    for (const HeldEvent& event : events_) {
      if (event.one_off.empty()) names[event.schedule];
    }
    for (const WaitingTally::Waiter& waiter : waiters_) names[waiter.schedule];
    ReadScheduleNames(context_, std::move(names),
                      [self = shared_from_this()](absl::StatusOr<ScheduleNames> read) {
                        if (!read.ok()) return self->done_(read.status());
                        self->names_ = *std::move(read);
                        self->Answer();
                      });
  }

  void Answer() {
    v1::PolicyUsage& usage = page_.usage;
    for (size_t i = 0; i < events_.size(); ++i) {
      if (!events_[i].one_off.empty()) {
        usage.mutable_holders(static_cast<int>(i))->set_event(events_[i].one_off);
        continue;
      }
      const std::optional<ScheduleName>& name = names_[events_[i].schedule];
      if (!name.has_value()) continue;
      usage.mutable_holders(static_cast<int>(i))
          ->set_event(absl::StrCat(RunName{*name, events_[i].occurrence}.ToString(), "/events/",
                                   events_[i].index));
    }
    for (const WaitingTally::Waiter& waiter : waiters_) {
      v1::PolicyUsage::Waiter* shown = usage.add_waiters();
      if (names_[waiter.schedule].has_value())
        shown->set_schedule(names_[waiter.schedule]->ToString());
      shown->set_waiting_count(static_cast<int64_t>(waiter.count));
      SetTimestamp(ToMicros(waiter.oldest), *shown->mutable_oldest_due_time());
    }
    if (policy_.has_per_key()) ShowKeys(usage);
    usage.set_waiting_count(static_cast<int64_t>(tally_.count()));
    if (tally_.count() > 0)
      SetTimestamp(ToMicros(tally_.oldest()), *usage.mutable_oldest_waiter_time());
    done_(std::move(page_));
  }

  void ShowKeys(v1::PolicyUsage& usage) {
    for (const auto& [key, use] : keys_.Busiest(kUsageKeysMax)) {
      v1::PolicyKeyUsage* shown = usage.add_keys();
      *shown = ShowKey(key, use, policy_, now_);
      shown->clear_later_count();  // rows that are not due are stepped over
    }
  }

  struct HeldEvent {
    Uid schedule;
    std::string occurrence;
    uint64_t index = 0;
    std::string one_off = {};  // the name of a one-off event
  };

  MasterContext& context_;
  const PolicyUsageQuery query_;
  Read done_;
  Uid uid_;
  uint16_t shard_ = 0;
  std::shared_ptr<const TokenMint> mint_;
  absl::Time now_;
  storage::v1::PolicyRecord policy_;
  PolicyUsagePage page_;
  std::vector<HeldEvent> events_;  // the events of page_.usage.holders, in the same order
  WaitingTally tally_;
  KeyTally keys_{std::numeric_limits<size_t>::max()};  // bounded by the rows that are read
  std::vector<WaitingTally::Waiter> waiters_;
  ScheduleNames names_;
};

}  // namespace

void ReadPolicyUsage(MasterContext& context, PolicyUsageQuery query,
                     absl::AnyInvocable<void(absl::StatusOr<PolicyUsagePage>)> done) {
  std::make_shared<UsageRead>(context, std::move(query), std::move(done))->ReadPolicy();
}

namespace {

class DueRowsRead : public std::enable_shared_from_this<DueRowsRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<bool>)>;
  DueRowsRead(MasterContext& context, std::string end, std::string what, absl::Time now,
              VisitWaiting visit, Read done)
      : context_(context),
        end_(std::move(end)),
        what_(std::move(what)),
        now_(now),
        visit_(std::move(visit)),
        done_(std::move(done)) {}

  void Scan(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kWaiting;
    scan.begin = std::move(begin);
    scan.end = end_;
    scan.limit = static_cast<uint32_t>(std::min<size_t>(kRowsOfOneScan, kUsageRowsMax - rows_));
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return self->done_(StoreFailed(result.status()));
                           self->OnRows(*result);
                         });
  }

 private:
  void OnRows(const kv::ScanResult& result) {
    std::string next;
    for (const kv::Entry& entry : result.entries) {
      const std::optional<WaitingKey> key = DecodeWaitingKey(entry.key);
      storage::v1::EventRecord row;
      if (!key.has_value() || !row.ParseFromString(entry.value)) return done_(BrokenRecord(what_));
      visit_(*key, row, DueOf(*key, row, now_));
      // The rows of a group are in the order of their due times.
      next = key->due_time > now_ ? PrefixEnd(WaitingGroupPrefix(key->policy_shard, key->policy,
                                                                 key->priority, key->uid))
                                  : KeyAfter(entry.key);
    }
    rows_ += result.entries.size();
    const bool more = result.more && next < end_;
    if (more && rows_ < kUsageRowsMax) return Scan(std::move(next));
    done_(more);
  }

  MasterContext& context_;
  const std::string end_;
  const std::string what_;
  const absl::Time now_;
  VisitWaiting visit_;
  Read done_;
  size_t rows_ = 0;
};

}  // namespace

void ReadDueRows(MasterContext& context, std::string prefix, std::string what, absl::Time now,
                 VisitWaiting visit, absl::AnyInvocable<void(absl::StatusOr<bool>)> done) {
  std::make_shared<DueRowsRead>(context, PrefixEnd(prefix), std::move(what), now, std::move(visit),
                                std::move(done))
      ->Scan(prefix);
}

void ReadScheduleNames(MasterContext& context, ScheduleNames schedules,
                       absl::AnyInvocable<void(absl::StatusOr<ScheduleNames>)> done) {
  std::vector<kv::Key> keys;
  for (const auto& [uid, unread] : schedules)
    keys.push_back({ColumnFamily::kStates, StateKey(uid)});
  ReadKeys(context, std::move(keys),
           [schedules = std::move(schedules),
            done = std::move(done)](absl::StatusOr<KeyValues> values) mutable {
             if (!values.ok()) return done(values.status());
             size_t i = 0;
             for (auto& [uid, name] : schedules) {
               const std::optional<std::string>& value = (*values)[i++];
               storage::v1::StateRecord state;
               if (!value.has_value()) continue;
               if (!state.ParseFromString(*value))
                 return done(BrokenRecord("the state of a schedule"));
               name = ScheduleName{state.tenant(), state.schedule_id()};
             }
             done(std::move(schedules));
           });
}

namespace {

// For an even window: events before this index may go `into_micros` after the window's begin.
uint64_t PacedEnd(const storage::v1::ThrottleRecord& throttle, int64_t into_micros) {
  const auto duration =
      static_cast<uint64_t>(std::max<int64_t>(throttle.window().duration_micros(), 1));
  const absl::uint128 places =
      absl::uint128(static_cast<uint64_t>(into_micros)) * throttle.pace_count() / duration + 1;
  // Beyond the last place there is none to wait for.
  if (places >= throttle.pace_count()) return ~uint64_t{0};
  return throttle.pace_first() + absl::Uint128Low64(places);
}

}  // namespace

int64_t PacedMicros(const storage::v1::ThrottleRecord& throttle, uint64_t index) {
  const uint64_t place = index < throttle.pace_first() ? 0 : index - throttle.pace_first();
  const auto duration =
      static_cast<uint64_t>(std::max<int64_t>(throttle.window().duration_micros(), 1));
  const absl::uint128 into =
      absl::uint128(std::min(place, throttle.pace_count())) * duration / throttle.pace_count();
  return throttle.window_begin_micros() + static_cast<int64_t>(absl::Uint128Low64(into));
}

DueEvents DueOf(const WaitingKey& key, const storage::v1::EventRecord& row, absl::Time now) {
  const storage::v1::ThrottleRecord& throttle = row.throttle();
  if (key.due_time > now || throttle.taken() >= row.count()) return {};
  const uint64_t first = key.first + throttle.taken();
  DueEvents due = {.count = row.count() - throttle.taken(), .oldest = key.due_time};
  if (!throttle.has_window()) return due;
  const absl::Time begin = FromMicros(throttle.window_begin_micros());
  if (begin > now) return {};
  due.oldest = std::max(due.oldest, begin);
  if (throttle.pace_count() == 0) return due;
  const uint64_t end = PacedEnd(throttle, ToMicros(now) - throttle.window_begin_micros());
  if (end <= first) return {};
  due.count = std::min(due.count, end - first);
  due.oldest = std::max(due.oldest, FromMicros(PacedMicros(throttle, first)));
  return due;
}

void WaitingTally::Add(const Uid& schedule, const DueEvents& due) {
  if (due.count == 0) return;
  count_ += due.count;
  oldest_ = std::min(oldest_, due.oldest);
  Waiter& waiter = waiters_[schedule];
  waiter.schedule = schedule;
  waiter.count += due.count;
  waiter.oldest = std::min(waiter.oldest, due.oldest);
}

std::vector<WaitingTally::Waiter> WaitingTally::Largest(size_t limit) const {
  std::vector<Waiter> largest;
  for (const auto& [schedule, waiter] : waiters_) largest.push_back(waiter);
  // Stable: equal ones stay in the order of their uids.
  std::stable_sort(largest.begin(), largest.end(),
                   [](const Waiter& a, const Waiter& b) { return a.count > b.count; });
  if (largest.size() > limit) largest.resize(limit);
  return largest;
}

}  // namespace escapement::master
