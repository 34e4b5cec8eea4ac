#include "services/master/schedules/changes/throttled_events.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/range_reader.h"
#include "services/master/schedules/changes/parked_row.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

class ThrottledSearch : public std::enable_shared_from_this<ThrottledSearch> {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<std::vector<ThrottledRange>>)>;
  ThrottledSearch(MasterContext& context, ThrottledQuery query, Found done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {
    if (query_.places.groups().empty()) return;
    const Uid& uid = query_.places.present().uid;
    // Events go back and forth between rows and holders, so rows are read again.
    AddRows(uid);
    std::set<std::string> policies;
    for (const WaitingGroup& group : query_.places.groups()) {
      const auto& [shard, policy] = group.place;
      std::string grants = GrantsBegin(shard, policy);
      if (policies.insert(grants).second)
        ranges_.push_back({ColumnFamily::kGrants, std::move(grants), GrantsEnd(shard, policy)});
    }
    AddRows(uid);
    const std::string parked = ParkedPrefix(uid);
    ranges_.push_back({ColumnFamily::kParked, parked, PrefixEnd(parked)});
  }

  void Read() {
    if (query_.limit == 0) return done_(std::move(found_));
    ReadRanges(
        context_, std::move(ranges_), kLookupRowsMax,
        [self = shared_from_this()](const KeyRange& range,
                                    kv::Entry& entry) -> absl::StatusOr<bool> {
          RETURN_IF_ERROR(self->AddEntry(range, entry));
          if (self->found_.size() < self->query_.limit) return true;
          if (self->query_.cut != nullptr) *self->query_.cut = true;
          return false;
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->done_(std::move(self->found_));
        },
        query_.cut);
  }

 private:
  void AddRows(const Uid& uid) {
    for (const WaitingGroup& group : query_.places.groups()) {
      const auto& [shard, policy] = group.place;
      const std::string rows = WaitingGroupPrefix(shard, policy, group.priority, uid);
      ranges_.push_back({ColumnFamily::kWaiting, rows, PrefixEnd(rows)});
    }
  }

  absl::Status AddEntry(const KeyRange& range, kv::Entry& entry) {
    if (range.cf == ColumnFamily::kGrants) return AddGrant(entry);
    if (range.cf == ColumnFamily::kWaiting) return AddWaiting(entry);
    return AddParked(std::move(entry));
  }

  absl::Status AddGrant(const kv::Entry& entry) {
    storage::v1::GrantRecord grant;
    if (!DecodeGrantKey(entry.key).has_value()) return absl::OkStatus();
    if (!grant.ParseFromString(entry.value)) return BrokenRecord("a grant");
    if (grant.uid() != query_.places.present().uid.bytes()) return absl::OkStatus();
    for (const auto& holders : grant.holders()) {
      Add({.occurrence = grant.occurrence(),
           .first = holders.first(),
           .count = holders.count(),
           .state = v1::RUNNING,
           .row = grant.event()});
    }
    return absl::OkStatus();
  }

  absl::Status AddWaiting(const kv::Entry& entry) {
    const auto key = DecodeWaitingKey(entry.key);
    storage::v1::EventRecord row;
    if (!key.has_value() || !row.ParseFromString(entry.value))
      return BrokenRecord("a waiting event");
    const uint64_t taken = row.throttle().taken();
    Add({.occurrence = key->occurrence,
         .first = key->first + taken,
         .count = row.count() - std::min(row.count(), taken),
         .state = v1::PENDING,
         .row = std::move(row)});
    return absl::OkStatus();
  }

  absl::Status AddParked(kv::Entry entry) {
    ASSIGN_OR_RETURN(ParkedRow parked, ReadParkedRow(std::move(entry)));
    if (!parked.throttled()) return absl::OkStatus();
    Add({.occurrence = parked.occurrence,
         .first = parked.begin(),
         .count = parked.end() - parked.begin(),
         .state = v1::PENDING,
         .row = std::move(parked.row)});
    return absl::OkStatus();
  }

  void Add(ThrottledRange range) {
    if (range.count > 0 && query_.wanted(range)) found_.push_back(std::move(range));
  }

  MasterContext& context_;
  ThrottledQuery query_;
  Found done_;
  std::vector<KeyRange> ranges_;
  std::vector<ThrottledRange> found_;
};

}  // namespace

void ReadThrottledEvents(
    MasterContext& context, ThrottledQuery query,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<ThrottledRange>>)> done) {
  std::make_shared<ThrottledSearch>(context, std::move(query), std::move(done))->Read();
}

}  // namespace escapement::master
