#include "services/master/explain/limit_use.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/policies/policy_usage.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;

// A holder, before its name is known.
struct OldHolder {
  int64_t grant_micros = 0;
  Uid uid;
  std::string occurrence;
  uint64_t index = 0;
  uint64_t weight = 1;
  std::string one_off = {};  // the name of a one-off event

  friend bool operator<(const OldHolder& a, const OldHolder& b) {
    return std::tie(a.grant_micros, a.uid, a.occurrence, a.index) <
           std::tie(b.grant_micros, b.uid, b.occurrence, b.index);
  }
};

void Keep(const OldHolder& holder, std::set<OldHolder>& oldest) {
  if (oldest.size() == kGateHoldersMax) {
    if (!(holder < *oldest.rbegin())) return;
    oldest.erase(std::prev(oldest.end()));
  }
  oldest.insert(holder);
}

// A completion, release or the like: its token is about to be free.
bool GivesBack(GrantReportRecord::Kind kind) {
  switch (kind) {
    case GrantReportRecord::SUCCEEDED:
    case GrantReportRecord::FAILED:
    case GrantReportRecord::RETRY:
    case GrantReportRecord::RETURNED:
    case GrantReportRecord::COMPLETED:
    case GrantReportRecord::COMPLETION_FAILED:
    case GrantReportRecord::COMPLETION_FAILED_FINALLY:
    case GrantReportRecord::RELEASED:
      return true;
    default:
      return false;
  }
}

class LimitRead : public std::enable_shared_from_this<LimitRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<EventLimits>)>;
  LimitRead(MasterContext& context, const EventPlace& place, Read done)
      : context_(context),
        place_(place),
        tenant_(place.row.tenant()),
        now_(context.client.NowLow()),
        done_(std::move(done)) {}

  void Start() {
    for (const storage::v1::LimitRecord& limit : LimitsOf(place_.row.throttle())) {
      LimitUse& use = answer_.limits.emplace_back();
      use.policy_id = limit.policy_id();
      use.policy_key = limit.policy_key();
      use.weight = std::max<uint64_t>(limit.weight(), 1);
      found_.push_back({.uid = PolicyUid(tenant_, limit.policy_id())});
    }
    if (!place_.throttled()) return done_(std::move(answer_));
    std::vector<kv::Key> keys;
    for (size_t i = 0; i < answer_.limits.size(); ++i) {
      const LimitUse& use = answer_.limits[i];
      const Uid& uid = found_[i].uid;
      keys.push_back({ColumnFamily::kPolicies, PolicyKey(tenant_, use.policy_id)});
      keys.push_back({ColumnFamily::kGrants, PolicyCountsKey(place_.policy_shard, uid)});
      keys.push_back({ColumnFamily::kGrants, KeyRateKey(place_.policy_shard, uid, use.policy_key)});
    }
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> values) {
               if (!values.ok()) return self->done_(values.status());
               self->OnPolicies(*values);
             });
  }

 private:
  struct Found {
    Uid uid;  // the policy's
    std::set<OldHolder> oldest = {};
    std::set<OldHolder> oldest_of_key = {};
  };

  void OnPolicies(const KeyValues& values) {
    for (size_t i = 0; i < answer_.limits.size(); ++i) {
      LimitUse& use = answer_.limits[i];
      storage::v1::PolicyCountsRecord counts;
      storage::v1::KeyRateRecord rate;
      const auto parse = [](const std::optional<std::string>& bytes, auto& record) {
        return !bytes.has_value() || record.ParseFromString(*bytes);
      };
      if (values[3 * i].has_value() && !use.policy.emplace().ParseFromString(*values[3 * i]))
        return done_(BrokenRecord("a policy"));
      if (!parse(values[3 * i + 1], counts) || !parse(values[3 * i + 2], rate))
        return done_(BrokenRecord("the counts of a policy"));
      use.rate_time_micros = counts.rate_time_micros();
      // Another key may have the same hash.
      if (rate.policy_key() == use.policy_key) use.key_rate_time_micros = rate.rate_time_micros();
    }
    const std::string grants = GrantShardPrefix(place_.policy_shard);
    const std::string reports = ReportsPrefix(place_.policy_shard);
    ReadRanges(
        context_,
        {{ColumnFamily::kGrants, grants, PrefixEnd(grants)},
         {ColumnFamily::kWaiting, reports, PrefixEnd(reports)}},
        kLookupRowsMax,
        [self = shared_from_this()](const KeyRange& range,
                                    kv::Entry& entry) -> absl::StatusOr<bool> {
          RETURN_IF_ERROR(range.cf == ColumnFamily::kGrants ? self->AddGrant(entry)
                                                            : self->AddReport(entry));
          return true;
        },
        [self = shared_from_this()](const absl::Status& status) {
          if (!status.ok()) return self->done_(status);
          self->ReadWaiting();
        });
  }

  // Calls visit(limit, its key is the event's, weight) for each of the event's limits among these.
  template <typename Visit>
  void ForEachShared(const storage::v1::ThrottleRecord& throttle, const std::string& tenant,
                     Visit visit) const {
    if (tenant != tenant_) return;
    for (const storage::v1::LimitRecord& limit : LimitsOf(throttle)) {
      for (size_t i = 0; i < answer_.limits.size(); ++i) {
        if (answer_.limits[i].policy_id != limit.policy_id()) continue;
        visit(i, answer_.limits[i].policy_key == limit.policy_key(),
              std::max<uint64_t>(limit.weight(), 1));
      }
    }
  }

  absl::Status AddGrant(const kv::Entry& entry) {
    if (!DecodeGrantKey(entry.key).has_value()) return absl::OkStatus();
    storage::v1::GrantRecord grant;
    if (!grant.ParseFromString(entry.value) || grant.uid().size() != Uid::kBytes)
      return BrokenRecord("a grant");
    const auto add = [&](size_t i, bool same_key, uint64_t weight) {
      LimitUse& use = answer_.limits[i];
      for (const auto& holders : grant.holders()) {
        use.all.held += holders.count() * weight;
        if (same_key) use.of_key.held += holders.count() * weight;
        OldHolder holder = {.grant_micros = grant.grant_time_micros(),
                            .uid = Uid::FromBytes(grant.uid()),
                            .occurrence = grant.occurrence(),
                            .weight = weight};
        if (WaitsAsOneOff(grant.event())) {
          holder.one_off =
              EventName{grant.event().tenant(),
                        OneOffEventId(LimitedEventKey(holder.uid, grant.event()), grant.event())}
                  .ToString();
        }
        for (uint64_t k = 0; k < std::min<uint64_t>(holders.count(), kGateHoldersMax); ++k) {
          holder.index = holders.first() + k;
          Keep(holder, found_[i].oldest);
          if (same_key) Keep(holder, found_[i].oldest_of_key);
        }
      }
    };
    ForEachShared(grant.event().throttle(), grant.event().tenant(), add);
    return absl::OkStatus();
  }

  absl::Status AddReport(const kv::Entry& entry) {
    if (place_.kind != EventPlace::Kind::kHeld || !IsReportKey(entry.key)) return absl::OkStatus();
    GrantReportRecord report;
    if (!report.ParseFromString(entry.value)) return BrokenRecord("a report");
    for (const auto& each : report.entries()) {
      if (each.policy_uid() != place_.grant_id.policy.bytes() ||
          each.epoch() != place_.grant_id.epoch || each.number() != place_.grant_id.number ||
          place_.index < each.first() || place_.index - each.first() >= each.count())
        continue;
      answer_.delivered |= each.kind() == GrantReportRecord::DELIVERED;
      answer_.given_back |= GivesBack(each.kind());
    }
    return absl::OkStatus();
  }

  void ReadWaiting() {
    ReadDueRows(
        context_, WaitingRowsPrefix(place_.policy_shard), "a waiting event", now_,
        [self = shared_from_this()](const WaitingKey& key, const storage::v1::EventRecord& row,
                                    const DueEvents& due) { self->AddWaiting(key, row, due); },
        [self = shared_from_this()](absl::StatusOr<bool> truncated) {
          if (!truncated.ok()) return self->done_(truncated.status());
          self->ReadNames();
        });
  }

  void AddWaiting(const WaitingKey& key, const storage::v1::EventRecord& row,
                  const DueEvents& due) {
    if (due.count == 0) return;
    const WaitingOwner owner = WaitingOwnerOf(key);
    const uint64_t first = key.first + row.throttle().taken();
    uint64_t before = due.count;
    if (owner.uid == place_.uid && owner.occurrence == place_.occurrence && place_.index >= first &&
        place_.index < key.first + row.count()) {
      before = std::min(before, place_.index - first);
    } else if (std::tuple(static_cast<uint32_t>(key.priority), due.oldest) >=
               std::tuple(place_.row.priority(), place_.due_time)) {
      return;
    }
    ForEachShared(row.throttle(), row.tenant(), [&](size_t i, bool same_key, uint64_t) {
      answer_.limits[i].all.ahead += before;
      if (same_key) answer_.limits[i].of_key.ahead += before;
    });
  }

  void ReadNames() {
    ScheduleNames names;
    for (const Found& found : found_) {
      for (const auto* oldest : {&found.oldest, &found.oldest_of_key}) {
        for (const OldHolder& holder : *oldest) {
          if (holder.one_off.empty()) names[holder.uid];
        }
      }
    }
    ReadScheduleNames(context_, std::move(names),
                      [self = shared_from_this()](absl::StatusOr<ScheduleNames> read) {
                        if (!read.ok()) return self->done_(read.status());
                        self->names_ = *std::move(read);
                        self->Answer();
                      });
  }

  void Answer() {
    for (size_t limit = 0; limit < found_.size(); ++limit) {
      ShowHolders(found_[limit].oldest, answer_.limits[limit].all.oldest);
      ShowHolders(found_[limit].oldest_of_key, answer_.limits[limit].of_key.oldest);
    }
    done_(std::move(answer_));
  }

  void ShowHolders(const std::set<OldHolder>& oldest, std::vector<v1::Gate::Holder>& shown) {
    for (const OldHolder& holder : oldest) {
      v1::Gate::Holder& each = shown.emplace_back();
      each.set_event(holder.one_off);
      if (const auto name = names_.find(holder.uid);
          holder.one_off.empty() && name != names_.end() && name->second.has_value()) {
        each.set_event(absl::StrCat(RunName{*name->second, holder.occurrence}.ToString(),
                                    "/events/", holder.index));
      }
      SetDuration(std::max<int64_t>(ToMicros(now_) - holder.grant_micros, 0), *each.mutable_age());
      each.set_weight(static_cast<int64_t>(holder.weight));
    }
  }

  MasterContext& context_;
  const EventPlace& place_;
  const std::string tenant_;
  const absl::Time now_;
  Read done_;
  EventLimits answer_;
  std::vector<Found> found_;  // beside answer_.limits
  ScheduleNames names_;
};

}  // namespace

void ReadLimitUse(MasterContext& context, const EventPlace& place,
                  absl::AnyInvocable<void(absl::StatusOr<EventLimits>)> done) {
  std::make_shared<LimitRead>(context, place, std::move(done))->Start();
}

}  // namespace escapement::master
