#include "services/master/throttled_events.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/key_codec.h"
#include "common/storage/event_table.h"
#include "common/storage/grant_table.h"
#include "common/storage/policy_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/errors.h"
#include "services/master/limits.h"
#include "services/master/parked_row.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

class Search : public std::enable_shared_from_this<Search> {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<std::vector<ThrottledRange>>)>;
  Search(MasterContext& context, ThrottledQuery query, Found done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {
    const OccurrenceSource& source = query_.source;
    if (!source.throttle.has_value()) return;
    const Uid policy = WaitingUid(source.tenant, *source.throttle, source.uid);
    const uint16_t shard = PolicyShardOf(policy, context_.layout.policy_shards);
    const std::string group = WaitingGroupPrefix(shard, policy, source.priority, source.uid);
    const std::string parked = ParkedPrefix(source.uid);
    places_ = {{ColumnFamily::kGrants, GrantsBegin(shard, policy), GrantsEnd(shard, policy)},
               {ColumnFamily::kWaiting, group, PrefixEnd(group)},
               {ColumnFamily::kParked, parked, PrefixEnd(parked)}};
  }

  void NextPlace() {
    if (place_ == places_.size() || found_.size() >= query_.limit) return done_(std::move(found_));
    rows_read_ = 0;
    Scan(places_[place_].begin);
  }

 private:
  struct Place {
    ColumnFamily cf;
    std::string begin, end;
  };

  void Scan(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = places_[place_].cf;
    scan.begin = std::move(begin);
    scan.end = places_[place_].end;
    scan.bytes_max = 4 << 20;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           self->OnPage(std::move(page));
                         });
  }

  void OnPage(absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return done_(StoreFailed(page.status()));
    const bool more = page->more && !page->entries.empty();
    std::string next = more ? page->entries.back().key + std::string(1, '\0') : std::string();
    rows_read_ += page->entries.size();
    for (kv::Entry& entry : page->entries) {
      absl::Status status = places_[place_].cf == ColumnFamily::kGrants ? AddGrant(entry)
                            : places_[place_].cf == ColumnFamily::kWaiting
                                ? AddWaiting(entry)
                                : AddParked(std::move(entry));
      if (!status.ok()) return done_(std::move(status));
      if (found_.size() >= query_.limit) return done_(std::move(found_));
    }
    if (more && rows_read_ < kLookupRowsMax) return Scan(std::move(next));
    ++place_;
    NextPlace();
  }

  absl::Status AddGrant(const kv::Entry& entry) {
    storage::v1::GrantRecord grant;
    if (!DecodeGrantKey(entry.key).has_value()) return absl::OkStatus();
    if (!grant.ParseFromString(entry.value)) return BrokenRecord("a grant");
    if (grant.uid() != query_.source.uid.bytes()) return absl::OkStatus();
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
    absl::StatusOr<ParkedRow> parked = ReadParkedRow(std::move(entry));
    if (!parked.ok()) return parked.status();
    if (!parked->throttled()) return absl::OkStatus();
    Add({.occurrence = parked->occurrence,
         .first = parked->begin(),
         .count = parked->end() - parked->begin(),
         .state = v1::PENDING,
         .row = std::move(parked->row)});
    return absl::OkStatus();
  }

  void Add(ThrottledRange range) {
    if (range.count > 0 && query_.wanted(range)) found_.push_back(std::move(range));
  }

  MasterContext& context_;
  ThrottledQuery query_;
  Found done_;
  std::vector<Place> places_;
  size_t place_ = 0;
  size_t rows_read_ = 0;
  std::vector<ThrottledRange> found_;
};

}  // namespace

void ReadThrottledEvents(
    MasterContext& context, ThrottledQuery query,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<ThrottledRange>>)> done) {
  std::make_shared<Search>(context, std::move(query), std::move(done))->NextPlace();
}

}  // namespace escapement::master
