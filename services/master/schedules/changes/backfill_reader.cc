#include "services/master/schedules/changes/backfill_reader.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/schedules/changes/parked_row.h"
#include "services/master/schedules/changes/row_places.h"
#include "services/master/schedules/changes/throttled_events.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

class BackfillSearch : public std::enable_shared_from_this<BackfillSearch> {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<BackfillScope>)>;
  BackfillSearch(MasterContext& context, BackfillScope scope, Found done)
      : context_(context),
        scope_(std::move(scope)),
        done_(std::move(done)),
        places_(scope_.source, context.layout) {}

  void ReadRecords() {
    for (auto* list : {&scope_.occurrences, &scope_.carriers}) {
      for (BackfillOccurrence& occurrence : *list) all_.push_back(&occurrence);
    }
    std::vector<kv::Key> keys = RecordKeys(all_);
    if (keys.empty()) return done_(std::move(scope_));
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> read) {
               self->OnRecords(std::move(read));
             });
  }

 private:
  void OnRecords(absl::StatusOr<KeyValues> values) {
    if (!values.ok()) return done_(values.status());
    if (absl::Status status = TakeRecords(all_, *values); !status.ok()) return done_(status);
    for (BackfillOccurrence& occurrence : scope_.occurrences) {
      if (!occurrence.present) open_[occurrence.emitted.id] = &occurrence;
    }
    if (open_.empty()) return done_(std::move(scope_));
    ReadFormerSummaries();
  }

  void ReadFormerSummaries() {
    std::vector<kv::Key> keys;
    for (const auto& [id, occurrence] : open_) {
      auto summary = FormerSummaryAt(*occurrence, scope_.source.version);
      if (!summary.has_value() || summaries_.size() >= kFormerSummariesMax) continue;
      keys.push_back(
          {ColumnFamily::kDefinitions, DefinitionKey(scope_.source.uid, summary->version())});
      summaries_.push_back({occurrence, *std::move(summary)});
    }
    if (keys.empty()) return ReadPlaces();
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> read) {
               self->OnSummaryVersions(std::move(read));
             });
  }

  void OnSummaryVersions(absl::StatusOr<KeyValues> values) {
    if (!values.ok()) return done_(values.status());
    for (size_t i = 0; i < summaries_.size(); ++i) {
      const auto& [first, summary] = summaries_[i];
      storage::v1::DefinitionRecord record;
      if (!(*values)[i].has_value() || !record.ParseFromString(*(*values)[i])) continue;
      const absl::StatusOr<Definition> version = LoadDefinition(std::move(record));
      if (!version.ok()) continue;
      FormerSummary& former = scope_.former[first->emitted.id];
      former = RestOf(summary, *first, *version, context_.layout);
      for (BackfillOccurrence& other : former.rest) others_.push_back(&other);
    }
    if (others_.empty()) return ReadPlaces();
    ReadKeys(context_, RecordKeys(others_),
             [self = shared_from_this()](absl::StatusOr<KeyValues> read) {
               self->OnOthers(std::move(read));
             });
  }

  void OnOthers(absl::StatusOr<KeyValues> values) {
    if (!values.ok()) return done_(values.status());
    if (absl::Status status = TakeRecords(others_, *values); !status.ok()) return done_(status);
    ReadPlaces();
  }

  // Run and Done records.
  std::vector<kv::Key> RecordKeys(const std::vector<BackfillOccurrence*>& occurrences) const {
    std::vector<kv::Key> keys;
    for (const BackfillOccurrence* occurrence : occurrences) {
      keys.push_back(
          {ColumnFamily::kRuns, EncodeRunKey({scope_.source.uid, occurrence->emitted.id})});
      for (const auto& [key, unread] : occurrence->done) keys.push_back({ColumnFamily::kDone, key});
    }
    return keys;
  }

  static absl::Status TakeRecords(const std::vector<BackfillOccurrence*>& occurrences,
                                  KeyValues& values) {
    size_t next = 0;
    for (BackfillOccurrence* occurrence : occurrences) {
      occurrence->present = values[next++].has_value();
      for (auto& [key, value] : occurrence->done) value = std::move(values[next++]);
      RETURN_IF_ERROR(NoteOutcome(*occurrence));
    }
    return absl::OkStatus();
  }

  void ReadPlaces() {
    absl::Time oldest = absl::InfiniteFuture();
    for (const auto& [id, occurrence] : open_)
      oldest = std::min(oldest, occurrence->emitted.nominal_time);
    ReadRowPlaces(context_, scope_.source, oldest,
                  [self = shared_from_this()](absl::StatusOr<RowPlaces> places) {
                    if (!places.ok()) return self->done_(places.status());
                    self->places_ = *std::move(places);
                    self->scope_.cut |= self->places_.cut();
                    self->ReadQueues("");
                  });
  }

  // Some occurrences at a time: those after `after`.
  void ReadQueues(const std::string& after) {
    owners_.clear();
    std::vector<kv::Key> keys;
    const Uid& uid = scope_.source.uid;
    for (auto each = open_.upper_bound(after);
         each != open_.end() && keys.size() < kBackfillKeysAtOnce; ++each) {
      const auto& [id, occurrence] = *each;
      read_to_ = id;
      const auto add = [&, occurrence = each->second](ColumnFamily cf, std::string key) {
        keys.push_back({cf, std::move(key)});
        owners_.push_back(occurrence);
      };
      const auto add_row = [&](ColumnFamily cf, const std::string& key) {
        add(cf, key);
        add(ColumnFamily::kParked, ParkedKey(uid, key));
      };
      const std::string event_id = RunIdentity(scope_.source.tenant, uid, id).EventId(0);
      EventKey row;
      row.shard = ShardOfEventId(event_id, context_.layout.queue_shards);
      row.uid = uid;
      row.occurrence = id;
      for (const absl::Time due : places_.DueTimes(id, occurrence->emitted.nominal_time)) {
        if (places_.launches()) add(ColumnFamily::kCheckpoints, places_.LaunchKeyAt(id, due));
        row.due_time = due;
        for (const uint8_t lane : places_.lanes()) {
          row.lane = lane;
          add_row(ColumnFamily::kEvents, EncodeEventKey(row));
        }
        for (const WaitingGroup& group : places_.groups())
          add_row(ColumnFamily::kWaiting, places_.WaitingKeyAt(group, id, due));
      }
    }
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> read) {
               self->OnQueues(std::move(read));
             });
  }

  void OnQueues(absl::StatusOr<KeyValues> values) {
    if (!values.ok()) return done_(values.status());
    for (size_t i = 0; i < owners_.size(); ++i) {
      if ((*values)[i].has_value()) Note(owners_[i]->emitted.id);
    }
    if (open_.upper_bound(read_to_) != open_.end()) return ReadQueues(read_to_);
    if (claims_read_) return done_(std::move(scope_));
    ReadThrottled();
  }

  void ReadThrottled() {
    ThrottledQuery query{.places = places_};
    query.limit = kLookupRowsMax;
    query.wanted = [self = shared_from_this()](const ThrottledRange& range) {
      return self->open_.contains(range.occurrence);
    };
    query.cut = &scope_.cut;
    ReadThrottledEvents(
        context_, std::move(query),
        [self = shared_from_this()](absl::StatusOr<std::vector<ThrottledRange>> ranges) {
          if (!ranges.ok()) return self->done_(ranges.status());
          for (const ThrottledRange& range : *ranges) self->Note(range.occurrence);
          self->ReadClaims();
        });
  }

  void ReadClaims() {
    std::set<uint16_t> shards;
    for (const auto& [id, occurrence] : open_) {
      const RunIdentity run(scope_.source.tenant, scope_.source.uid, id);
      shards.insert(ShardOfEventId(run.EventId(0), context_.layout.queue_shards));
    }
    std::vector<KeyRange> ranges;
    for (const uint16_t shard : shards) AddMovingRanges(shard, ranges);
    // Last: while the schedule is paused, what leaves another place comes here, and stays.
    const std::string parked = ParkedPrefix(scope_.source.uid);
    ranges.push_back({ColumnFamily::kParked, parked, PrefixEnd(parked)});
    ReadRanges(
        context_, std::move(ranges), kLookupRowsMax,
        [self = shared_from_this()](const KeyRange& range, kv::Entry& entry) {
          if (range.cf == ColumnFamily::kEvents) {
            self->NoteRow(entry.key);
          } else if (range.cf == ColumnFamily::kParked) {
            self->NoteParked(entry);
          } else {
            self->NoteClaim(entry);
          }
          return true;
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          // Events that were claimed when the queues were read may have been given back since.
          self->claims_read_ = true;
          self->ReadQueues("");
        },
        &scope_.cut);
  }

  void NoteRow(const std::string& event_key) {
    const auto key = DecodeEventKey(event_key);
    if (key.has_value() && key->uid == scope_.source.uid) Note(key->occurrence);
  }

  void NoteParked(const kv::Entry& entry) {
    const absl::StatusOr<ParkedRow> row = ReadParkedRow(entry);
    if (row.ok()) Note(row->occurrence);
  }

  void NoteClaim(const kv::Entry& entry) {
    storage::v1::ClaimRecord claim;
    const auto key = DecodeInflightKey(entry.key);
    if (!key.has_value() || !key->is_claim() || !claim.ParseFromString(entry.value)) return;
    for (const auto& claimed : claim.entries()) NoteRow(claimed.event_key());
  }

  void Note(const std::string& occurrence) {
    const auto found = open_.find(occurrence);
    if (found == open_.end()) return;
    found->second->present = true;
    open_.erase(found);
  }

  MasterContext& context_;
  BackfillScope scope_;
  Found done_;
  bool claims_read_ = false;
  std::string read_to_;  // the last occurrence whose rows ReadQueues has looked for
  RowPlaces places_;
  std::map<std::string, BackfillOccurrence*> open_;  // not found yet, by id
  std::vector<BackfillOccurrence*> owners_;          // for each key that is read, its occurrence
  std::vector<BackfillOccurrence*> all_;             // occurrences and carriers
  std::vector<std::pair<const BackfillOccurrence*, storage::v1::DoneRecord>> summaries_;
  std::vector<BackfillOccurrence*> others_;  // that summaries of former versions count
};

}  // namespace

void ReadBackfill(MasterContext& context, BackfillScope scope,
                  absl::AnyInvocable<void(absl::StatusOr<BackfillScope>)> done) {
  std::make_shared<BackfillSearch>(context, std::move(scope), std::move(done))->ReadRecords();
}

}  // namespace escapement::master
