#include "services/master/events/event_lookup.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_filter.h"
#include "services/master/requests/joint_calls.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

// The key of the outcome of the event whose first attempt was due at `launch`; `key`: of its row.
std::string OutcomeKey(const EventKey& key, absl::Time launch) {
  return EncodeDoneKey({.shard = key.shard,
                        .day = DoneDay(launch),
                        .uid = key.uid,
                        .occurrence = key.occurrence,
                        .first = key.first});
}

// An event may change its row a few times while it is looked up (each retry is a new one).
constexpr int kMovesMax = 10;

class ClaimSearch : public std::enable_shared_from_this<ClaimSearch> {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<ClaimedRows>)>;
  ClaimSearch(MasterContext& context, uint16_t shard, absl::flat_hash_set<std::string> row_keys,
              Found done)
      : context_(context), shard_(shard), row_keys_(std::move(row_keys)), done_(std::move(done)) {}

  void Read(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kInflight;
    scan.begin = std::move(begin);
    scan.end = InflightShardEnd(shard_);
    scan.bytes_max = 4 << 20;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           self->OnPage(std::move(result));
                         });
  }

 private:
  void OnPage(absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return done_(page.status());
    if (claimed_.seq == 0) claimed_.seq = page->seq;
    for (const kv::Entry& entry : page->entries) {
      const auto key = DecodeInflightKey(entry.key);
      storage::v1::ClaimRecord claim;
      if (!key.has_value() || !key->is_claim()) continue;
      if (!claim.ParseFromString(entry.value)) return done_(BrokenRecord("a claim"));
      for (const auto& claimed : claim.entries()) {
        if (row_keys_.contains(claimed.event_key())) claimed_.keys.insert(claimed.event_key());
      }
    }
    const bool all_claimed = claimed_.keys.size() == row_keys_.size();
    if (all_claimed || !page->more || page->entries.empty()) return done_(std::move(claimed_));
    Read(KeyAfter(page->entries.back().key));
  }

  MasterContext& context_;
  const uint16_t shard_;
  const absl::flat_hash_set<std::string> row_keys_;
  Found done_;
  ClaimedRows claimed_;
};

class EventSearch : public std::enable_shared_from_this<EventSearch> {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<EventSighting>)>;
  // `read_claims` unset: as LookUpEvents.
  EventSearch(MasterContext& context, std::shared_ptr<JointCalls> calls, EventName name,
              std::optional<ReadClaims> read_claims, Found done)
      : context_(context),
        calls_(std::move(calls)),
        name_(std::move(name)),
        read_claims_(read_claims),
        done_(std::move(done)) {
    if (auto key = ParseServerMadeEventId(name_.event); key.has_value()) {
      launch_time_ = key->due_time;
      row_key_ = EncodeEventKey(*key);
    }
  }

  void Read() {
    std::vector<kv::Key> keys = {
        {ColumnFamily::kEventNames, EventNameKey(name_.tenant, name_.event)}};
    const auto key = DecodeEventKey(row_key_);
    if (key.has_value()) {
      keys.push_back({ColumnFamily::kEvents, row_key_});
      keys.push_back({ColumnFamily::kDone, OutcomeKey(*key, launch_time_)});
      sighting_.key = *key;
    }
    calls_->MultiGet(std::move(keys),
                     [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                       self->OnRead(std::move(result));
                     });
  }

 private:
  void OnRead(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(result.status());
    const auto& values = result->values;
    sighting_.name = values[0];
    storage::v1::EventNameRecord name;
    if (values[0].has_value() && !name.ParseFromString(*values[0]))
      return done_(BrokenRecord("an event's name"));
    waiting_key_ = name.waiting_key();
    // The event is at another place by now: the row that was read is of a former one.
    if (values[0].has_value() && name.event_key() != row_key_) {
      if (++moves_ > kMovesMax) return done_(EventSighting());
      row_key_ = name.event_key();
      launch_time_ = FromMicros(name.launch_time_micros());
      return Read();
    }
    if (values.size() == 3 && values[1].has_value()) return OnRow(*values[1], result->seq);
    if (values.size() == 3 && values[2].has_value()) {
      if (!sighting_.done.emplace().ParseFromString(*values[2]))
        return done_(BrokenRecord("a Done record"));
      if (sighting_.done->tenant() != name_.tenant) return done_(EventSighting());
      sighting_.done->set_event_id(name_.event);
      return done_(std::move(sighting_));
    }
    done_(std::move(sighting_));
  }

  void OnRow(const std::string& row, kv::CommitSeq seq) {
    if (!sighting_.row.emplace().ParseFromString(row)) return done_(BrokenRecord("an event"));
    // A server-made id names a row, not its tenant.
    if (sighting_.row->tenant() != name_.tenant) return done_(EventSighting());
    sighting_.row->set_event_id(name_.event);
    sighting_.row_key = row_key_;
    sighting_.row_seq = seq;
    const std::optional<Uid> hash =
        read_claims_.has_value() ? DeliveryHashOf(*sighting_.row) : std::nullopt;
    std::vector<kv::Key> keys = {
        {ColumnFamily::kDefinitions, hash.has_value() ? InternKey(*hash) : std::string("\0", 1)}};
    sighting_.due_time = sighting_.key.due_time;
    if (sighting_.key.lane <= kPriorityMax) sighting_.priority = sighting_.key.lane;
    if (!read_claims_.has_value()) {
      sighting_.row->clear_payload();
      if (sighting_.key.lane != kLaneLimited) return done_(std::move(sighting_));
    }
    if (sighting_.key.lane == kLaneLimited) {
      if (waiting_key_.empty()) {
        waiting_key_ =
            EncodeWaitingKey(WaitingKeyOf(*sighting_.row, sighting_.key.uid, "", 0,
                                          sighting_.key.due_time, context_.layout.policy_shards));
      }
      keys.push_back({ColumnFamily::kWaiting, waiting_key_});
    }
    calls_->MultiGet(std::move(keys),
                     [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                       self->OnDefinition(std::move(result));
                     });
  }

  // `waiting`: the row in `waiting`; nullopt: the event has been granted a token.
  void OnLimited(const std::optional<std::string>& waiting) {
    if (!waiting.has_value()) {
      sighting_.claimed = true;
      if (!read_claims_.has_value()) return done_(std::move(sighting_));
      const WaitingPlace place = Place();
      return FindHolder(GrantsBegin(place.policy_shard, place.policy));
    }
    const std::optional<WaitingKey> key = DecodeWaitingKey(waiting_key_);
    if (!key.has_value() || !TakeState(*waiting)) return done_(BrokenRecord("a waiting event"));
    sighting_.due_time = key->due_time;
    if (sighting_.row->attempts() == 0) sighting_.priority = key->priority;
    sighting_.waiting_key = waiting_key_;
    done_(std::move(sighting_));
  }

  // The row in `events` says what the event is; this record of it says how far it has come.
  bool TakeState(const std::string& bytes) {
    storage::v1::EventRecord state;
    if (!state.ParseFromString(bytes)) return false;
    TakeState(std::move(state));
    return true;
  }
  void TakeState(storage::v1::EventRecord state) {
    state.set_payload(sighting_.row->payload());
    state.set_event_id(name_.event);
    sighting_.row = std::move(state);
  }

  WaitingPlace Place() const {
    return WaitingPlaceOf(sighting_.row->tenant(), sighting_.row->throttle(), sighting_.key.uid,
                          context_.layout.policy_shards);
  }

  void FindHolder(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kGrants;
    scan.begin = std::move(begin);
    const WaitingPlace place = Place();
    scan.end = GrantsEnd(place.policy_shard, place.policy);
    scan.bytes_max = 4 << 20;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           self->OnHolders(std::move(result));
                         });
  }

  void OnHolders(absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return done_(page.status());
    for (const kv::Entry& entry : page->entries) {
      storage::v1::GrantRecord grant;
      if (!grant.ParseFromString(entry.value)) return done_(BrokenRecord("a grant"));
      if (grant.uid() != sighting_.key.uid.bytes()) continue;
      TakeState(std::move(*grant.mutable_event()));
      if (sighting_.row->attempts() == 0)
        sighting_.priority = static_cast<int32_t>(sighting_.row->priority());
      return done_(std::move(sighting_));
    }
    grants_read_ += page->entries.size();
    if (page->more && !page->entries.empty() && grants_read_ < kLookupRowsMax)
      return FindHolder(KeyAfter(page->entries.back().key));
    done_(std::move(sighting_));
  }

  void OnDefinition(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(result.status());
    if (result->values[0].has_value() &&
        !sighting_.definition.emplace().ParseFromString(*result->values[0])) {
      return done_(BrokenRecord("a definition"));
    }
    sighting_.waiting_seq = result->seq;
    if (sighting_.key.lane == kLaneLimited) return OnLimited(result->values[1]);
    const bool may_be_claimed =
        sighting_.key.due_time <= context_.client.NowLow() + kClaimedEarlyMax;
    if (read_claims_ == ReadClaims::kIfDue && !may_be_claimed) return done_(std::move(sighting_));
    FindClaims(context_, sighting_.key.shard, {row_key_},
               [self = shared_from_this()](const absl::StatusOr<ClaimedRows>& claimed) {
                 if (!claimed.ok()) return self->done_(claimed.status());
                 self->sighting_.claimed = claimed->keys.contains(self->row_key_);
                 self->sighting_.claims_seq = claimed->seq;
                 self->done_(std::move(self->sighting_));
               });
  }

  MasterContext& context_;
  const std::shared_ptr<JointCalls> calls_;
  const EventName name_;
  const std::optional<ReadClaims> read_claims_;
  Found done_;
  std::string row_key_;  // empty until the name tells it
  absl::Time launch_time_;
  std::string waiting_key_;  // only for an event under a policy
  size_t grants_read_ = 0;
  EventSighting sighting_;
  int moves_ = 0;
};

}  // namespace

std::string EventEtag(const Uid& uid, int64_t launch_time_micros) {
  return absl::StrCat(uid.ToHex(), "-", absl::Hex(launch_time_micros));
}

std::string EventSighting::Etag() const {
  if (row.has_value() && row->client_chosen_id())
    return EventEtag(key.uid, row->launch_time_micros());
  if (done.has_value() && name.has_value()) return EventEtag(key.uid, done->launch_time_micros());
  return std::string();
}

int64_t NominalMicrosOf(const storage::v1::EventNameRecord& name) {
  return name.nominal_time_micros() != 0 ? name.nominal_time_micros() : name.launch_time_micros();
}

storage::v1::DoneRecord CancelledRecord(const storage::v1::EventRecord& row, absl::Time now) {
  storage::v1::DoneRecord done = DoneRecordOf(row);
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_CANCELLED);
  done.set_complete_time_micros(ToMicros(now));
  return done;
}

kv::Mutation CancelledName(std::string name_key, storage::v1::EventNameRecord name) {
  name.set_cancelled(true);
  return kv::Put(ColumnFamily::kEventNames, std::move(name_key), name.SerializeAsString());
}

kv::Mutation PutOutcome(const EventKey& key, const storage::v1::DoneRecord& outcome) {
  return {.cf = ColumnFamily::kDone,
          .key = OutcomeKey(key, FromMicros(outcome.launch_time_micros())),
          .value = outcome.SerializeAsString()};
}

void LookUpEvent(MasterContext& context, const EventName& name, ReadClaims read_claims,
                 absl::AnyInvocable<void(absl::StatusOr<EventSighting>)> done) {
  std::make_shared<EventSearch>(context, std::make_shared<JointCalls>(context), name, read_claims,
                                std::move(done))
      ->Read();
}

namespace {

// Look-ups that are made together.
struct JointLookUp {
  absl::AnyInvocable<void(absl::StatusOr<std::vector<EventSighting>>)> done;
  std::vector<EventSighting> sightings;
  size_t left = sightings.size();
  absl::Status status = absl::OkStatus();

  void Take(size_t i, absl::StatusOr<EventSighting> sighting) {
    if (sighting.ok()) {
      sightings[i] = *std::move(sighting);
    } else {
      status = sighting.status();
    }
    if (--left > 0) return;
    if (!status.ok()) return done(status);
    done(std::move(sightings));
  }
};

}  // namespace

void LookUpEvents(MasterContext& context, const std::vector<EventName>& names,
                  absl::AnyInvocable<void(absl::StatusOr<std::vector<EventSighting>>)> done) {
  if (names.empty()) return done(std::vector<EventSighting>());
  const auto joint = std::make_shared<JointLookUp>(
      JointLookUp{.done = std::move(done), .sightings = std::vector<EventSighting>(names.size())});
  const auto calls = std::make_shared<JointCalls>(context);
  for (size_t i = 0; i < names.size(); ++i) {
    std::make_shared<EventSearch>(
        context, calls, names[i], std::nullopt,
        [joint, i](absl::StatusOr<EventSighting> sighting) { joint->Take(i, std::move(sighting)); })
        ->Read();
  }
}

namespace {

// The row of the event and its Done record; if there is no such name, keys that nothing has.
std::pair<kv::Key, kv::Key> PlacesByName(const std::optional<std::string>& name) {
  const std::string nowhere("\0", 1);
  storage::v1::EventNameRecord record;
  const bool known = name.has_value() && record.ParseFromString(*name);
  const std::optional<EventKey> key = DecodeEventKey(record.event_key());
  if (!known || !key.has_value())
    return {{ColumnFamily::kEvents, nowhere}, {ColumnFamily::kDone, nowhere}};
  return {{ColumnFamily::kEvents, record.event_key()},
          {ColumnFamily::kDone, OutcomeKey(*key, FromMicros(record.launch_time_micros()))}};
}

bool IsCancelled(const std::optional<std::string>& ended) {
  storage::v1::DoneRecord done;
  return ended.has_value() && done.ParseFromString(*ended) &&
         done.outcome() == storage::v1::OUTCOME_KIND_CANCELLED;
}

}  // namespace

void FindCancelled(MasterContext& context, const std::string& tenant,
                   const std::vector<std::string>& event_ids,
                   absl::AnyInvocable<void(absl::StatusOr<std::vector<bool>>)> done) {
  std::vector<kv::Key> names;
  for (const std::string& id : event_ids)
    names.push_back({ColumnFamily::kEventNames, EventNameKey(tenant, id)});
  context.client.MultiGet(
      std::move(names), context.executor,
      [&context, done = std::move(done)](absl::StatusOr<kv::GetResult> read) mutable {
        if (!read.ok()) return done(StoreFailed(read.status()));
        std::vector<kv::Key> places;
        for (const std::optional<std::string>& name : read->values) {
          auto [row, end] = PlacesByName(name);
          places.push_back(std::move(row));
          places.push_back(std::move(end));
        }
        context.client.MultiGet(
            std::move(places), context.executor,
            [done = std::move(done)](absl::StatusOr<kv::GetResult> found) mutable {
              if (!found.ok()) return done(StoreFailed(found.status()));
              std::vector<bool> cancelled;
              for (size_t i = 0; i < found->values.size(); i += 2)
                cancelled.push_back(!found->values[i].has_value() &&
                                    IsCancelled(found->values[i + 1]));
              done(std::move(cancelled));
            });
      });
}

void FindClaims(MasterContext& context, uint16_t shard, absl::flat_hash_set<std::string> row_keys,
                absl::AnyInvocable<void(absl::StatusOr<ClaimedRows>)> done) {
  std::make_shared<ClaimSearch>(context, shard, std::move(row_keys), std::move(done))
      ->Read(InflightShardBegin(shard));
}

}  // namespace escapement::master
