#include "services/master/schedules/changes/row_places.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

bool SameGroup(const WaitingGroup& a, const WaitingGroup& b) {
  return a.priority == b.priority && a.place.policy_shard == b.place.policy_shard &&
         a.place.policy == b.place.policy;
}

}  // namespace

RowPlaces::RowPlaces(OccurrenceSource present, const kv::Layout& layout)
    : present_(std::move(present)),
      layout_(layout),
      jitters_({absl::ZeroDuration()}),
      lanes_({kLaneCatchUp}) {
  AddSource(present_);
}

void RowPlaces::Add(storage::v1::DefinitionRecord former) {
  AddSource(SourceOf(former));
  former.clear_payload();
  former.clear_delivery();
  former.clear_on_complete();
  former_.push_back(std::move(former));
}

void RowPlaces::AddSource(const OccurrenceSource& source) {
  if (jitters_.size() < kPlaceJittersMax) {
    jitters_.insert(source.jitter);
  } else {
    cut_ |= !jitters_.contains(source.jitter);
  }
  lanes_.insert(source.priority);
  launches_ |= source.run_overlap != storage::v1::RUN_OVERLAP_KIND_ALLOW;
  if (!source.throttle.has_value()) {
    unthrottled_ = true;
    return;
  }
  const WaitingGroup group = {
      WaitingPlaceOf(source.tenant, *source.throttle, present_.uid, layout_.policy_shards),
      source.priority};
  if (absl::c_any_of(groups_, [&](const WaitingGroup& other) { return SameGroup(group, other); }))
    return;
  if (groups_.size() < kPlaceGroupsMax) {
    groups_.insert(groups_.begin(), group);
  } else {
    cut_ = true;
  }
}

std::vector<absl::Time> RowPlaces::DueTimes(const std::string& occurrence,
                                            absl::Time nominal) const {
  std::set<absl::Time> times;
  OccurrenceSource source;
  source.tenant = present_.tenant;
  source.uid = present_.uid;
  for (const absl::Duration jitter : jitters_) {
    source.jitter = jitter;
    times.insert(LaunchTimeOf(source, occurrence, nominal));
  }
  return {times.begin(), times.end()};
}

std::string RowPlaces::LaunchKeyAt(const std::string& occurrence, absl::Time due) const {
  return EncodeLaunchKey(
      {PartitionOf(present_.uid, layout_.partitions), due, present_.uid, occurrence});
}

std::string RowPlaces::WaitingKeyAt(const WaitingGroup& group, const std::string& occurrence,
                                    absl::Time due) const {
  return EncodeWaitingKey({.policy_shard = group.place.policy_shard,
                           .policy = group.place.policy,
                           .priority = group.priority,
                           .uid = present_.uid,
                           .due_time = due,
                           .occurrence = occurrence,
                           .first = 0});
}

namespace {

class PlacesRead : public std::enable_shared_from_this<PlacesRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<RowPlaces>)>;
  PlacesRead(MasterContext& context, OccurrenceSource present, absl::Time oldest, Read done)
      : context_(context),
        oldest_(oldest),
        version_(present.version),
        places_(std::move(present), context.layout),
        done_(std::move(done)) {}

  // Reads versions before version_.
  void ReadMore() {
    if (version_ <= 1) return done_(std::move(places_));
    const size_t read = places_.former().size();
    if (read >= kPlaceVersionsMax || bytes_ >= kPlaceBytesMax) {
      places_.SetCut();
      return done_(std::move(places_));
    }
    const Uid& uid = places_.present().uid;
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kDefinitions;
    scan.begin = DefinitionKey(uid, 1);
    scan.end = DefinitionKey(uid, version_);
    scan.reverse = true;
    scan.limit = kPlaceVersionsAtOnce;
    scan.bytes_max = kPlaceBytesAtOnce;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> rows) {
                           if (!rows.ok()) return self->done_(StoreFailed(rows.status()));
                           self->OnVersions(*rows);
                         });
  }

 private:
  void OnVersions(const kv::ScanResult& rows) {
    for (const kv::Entry& row : rows.entries) {
      storage::v1::DefinitionRecord former;
      if (!former.ParseFromString(row.value)) return done_(BrokenRecord("a definition"));
      bytes_ += row.value.size();
      version_ = former.version();
      const absl::Time made = FromMicros(former.create_time_micros());
      places_.Add(std::move(former));
      // Older versions were replaced before the oldest occurrence was emitted.
      if (made < oldest_ - kEmittedAheadMax) return done_(std::move(places_));
    }
    // Older versions have been swept: no row of theirs is left.
    if (rows.entries.empty()) return done_(std::move(places_));
    ReadMore();
  }

  MasterContext& context_;
  const absl::Time oldest_;
  uint64_t version_;  // all versions from this one on are in places_
  RowPlaces places_;
  Read done_;
  size_t bytes_ = 0;
};

}  // namespace

void AddMovingRanges(uint16_t queue_shard, std::vector<KeyRange>& ranges) {
  const KeyRange claims = {kv::ColumnFamily::kInflight, InflightShardBegin(queue_shard),
                           InflightShardEnd(queue_shard)};
  ranges.push_back(claims);
  ranges.push_back({kv::ColumnFamily::kEvents,
                    EventLaneKey(queue_shard, kLaneRetry, absl::InfinitePast()),
                    EventLaneKey(queue_shard, kLaneRetry + 1, absl::InfinitePast())});
  ranges.push_back(claims);
}

void ReadRowPlaces(MasterContext& context, OccurrenceSource present, absl::Time oldest,
                   absl::AnyInvocable<void(absl::StatusOr<RowPlaces>)> done) {
  std::make_shared<PlacesRead>(context, std::move(present), oldest, std::move(done))->ReadMore();
}

}  // namespace escapement::master
