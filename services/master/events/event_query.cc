#include "services/master/events/event_query.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/records/row_judge.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_filter.h"
#include "services/master/events/event_lookup.h"
#include "services/master/requests/merged_scan.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/resource_name.h"
#include "services/master/target_states/target_service.h"

namespace escapement::master {

namespace {

using kv::ColumnFamily;

constexpr size_t kLanePrefixBytes = 3;  // shard and lane
// Rows that are read together, if the filter may refuse some.
constexpr size_t kPendingRowsAtOnce = 500;
// Their definitions together stay below the bound of one read.
constexpr size_t kDefinitionsAtOnce = 200;
// The clock of the master that created an event may be ahead of this one's.
constexpr absl::Duration kClocksDiffer = absl::Minutes(1);

class PendingListing : public std::enable_shared_from_this<PendingListing> {
 public:
  using Shown = absl::AnyInvocable<void(absl::StatusOr<ShownEvents>)>;
  PendingListing(MasterContext& context, EventQuery query, Shown done)
      : context_(context),
        query_(std::move(query)),
        done_(std::move(done)),
        claimable_before_(context.client.NowLow() + kClaimedEarlyMax),
        scan_(std::make_shared<MergedScan>(context, Lanes())) {}

  void Step() {
    const size_t rows =
        query_.filter.always() ? query_.page_size - page_.events.size() : kPendingRowsAtOnce;
    scan_->Next(std::min(rows, kListExaminedMax - examined_),
                [self = shared_from_this()](absl::StatusOr<MergedScan::Rows> rows) {
                  if (!rows.ok()) return self->done_(rows.status());
                  self->OnRows(*std::move(rows));
                });
  }

 private:
  struct Candidate {
    std::string key;
    EventKey decoded;
    storage::v1::EventRecord row;
    absl::Time due_time;           // when it is tried next
    std::string waiting_key = {};  // only for an event under a policy
    bool held = false;             // … that holds a token
  };

  MergedScan::Options Lanes() const {
    MergedScan::Options options;
    options.cf = ColumnFamily::kEvents;
    options.prefix_bytes = kLanePrefixBytes;
    options.descending = query_.descending;
    // An event is never sent before its due time, and an event that is not late is sent at it.
    const absl::Time begin = query_.filter.TimesOf("due_time").begin;
    absl::Time end = absl::InfiniteFuture();
    if (StateOfMatches(query_.filter) == v1::RUNNING) end = claimable_before_;
    const absl::Time first_end = std::min(end, std::max(query_.filter.TimesOf("due_time").end,
                                                        context_.client.NowLow() + kClocksDiffer));
    for (uint16_t shard = 0; shard < context_.layout.queue_shards; ++shard) {
      if (query_.shard.has_value() && shard != *query_.shard) continue;
      for (uint8_t lane = 0; lane <= kLaneLimited; ++lane) {
        kv::KeyRange& range = options.lanes.emplace_back();
        const absl::Time last = lane <= kPriorityMax || lane == kLaneLimited ? first_end : end;
        const std::string prefix = KeyWriter().U16(shard).U8(lane).Take();
        range.begin = EventLaneKey(shard, lane, begin);
        range.end =
            last == absl::InfiniteFuture() ? PrefixEnd(prefix) : EventLaneKey(shard, lane, last);
        if (query_.position.empty()) continue;
        const std::string position = prefix + query_.position;
        if (query_.descending) {
          range.end = std::min(range.end, position);
        } else {
          range.begin = std::max(range.begin, KeyAfter(position));
        }
      }
    }
    return options;
  }

  void OnRows(MergedScan::Rows rows) {
    examined_ += rows.size();
    candidates_.clear();
    next_candidate_ = 0;
    for (kv::Entry& entry : rows) {
      bytes_ += entry.value.size();
      last_rank_ = std::string(scan_->RankOf(entry));
      std::optional<EventKey> key = DecodeEventKey(entry.key);
      if (!key.has_value()) return done_(BrokenRecord("an event"));
      if (!key->occurrence.empty()) continue;  // a row of a schedule
      Candidate candidate;
      if (!candidate.row.ParseFromString(entry.value)) return done_(BrokenRecord("an event"));
      if (candidate.row.tenant() != query_.tenant) continue;
      candidate.row.clear_payload();
      candidate.row.set_event_id(OneOffEventId(entry.key, candidate.row));
      candidate.key = std::move(entry.key);
      candidate.decoded = *std::move(key);
      candidate.due_time = candidate.decoded.due_time;
      candidates_.push_back(std::move(candidate));
    }
    ReadNames();
  }

  // The rows in `waiting` say how events under a policy wait; names say where those rows are.
  void ReadNames() {
    std::vector<kv::Key> keys;
    auto limited = std::make_shared<std::vector<Candidate*>>();
    for (Candidate& candidate : candidates_) {
      if (candidate.decoded.lane != kLaneLimited) continue;
      limited->push_back(&candidate);
      keys.push_back(
          {ColumnFamily::kEventNames, EventNameKey(query_.tenant, candidate.row.event_id())});
    }
    if (limited->empty()) return ReadDefinitions();
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this(), limited](absl::StatusOr<KeyValues> values) {
               if (!values.ok()) return self->done_(values.status());
               for (size_t i = 0; i < limited->size(); ++i) {
                 Candidate& candidate = *(*limited)[i];
                 storage::v1::EventNameRecord name;
                 if ((*values)[i].has_value() && !name.ParseFromString(*(*values)[i]))
                   return self->done_(BrokenRecord("an event's name"));
                 candidate.waiting_key = name.waiting_key();
                 if (candidate.waiting_key.empty()) {
                   candidate.waiting_key = EncodeWaitingKey(
                       WaitingKeyOf(candidate.row, candidate.decoded.uid, "", 0, candidate.due_time,
                                    self->context_.layout.policy_shards));
                 }
               }
               self->ReadWaiting(limited);
             });
  }

  void ReadWaiting(const std::shared_ptr<std::vector<Candidate*>>& limited) {
    std::vector<kv::Key> keys;
    for (const Candidate* candidate : *limited)
      keys.push_back({ColumnFamily::kWaiting, candidate->waiting_key});
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this(), limited](absl::StatusOr<KeyValues> values) {
               if (!values.ok()) return self->done_(values.status());
               for (size_t i = 0; i < limited->size(); ++i) {
                 Candidate& candidate = *(*limited)[i];
                 candidate.held = !(*values)[i].has_value();
                 if (candidate.held) continue;
                 const std::string id = candidate.row.event_id();
                 const std::optional<WaitingKey> key = DecodeWaitingKey(candidate.waiting_key);
                 if (!key.has_value() || !candidate.row.ParseFromString(*(*values)[i]))
                   return self->done_(BrokenRecord("a waiting event"));
                 candidate.row.set_event_id(id);
                 candidate.due_time = key->due_time;
               }
               self->ReadHolders(limited);
             });
  }

  // The grants say how far those have come that hold tokens.
  void ReadHolders(const std::shared_ptr<std::vector<Candidate*>>& limited) {
    auto held = std::make_shared<absl::flat_hash_map<std::string, Candidate*>>();  // by uid
    std::map<Uid, uint16_t> policies;  // with their shards
    for (Candidate* candidate : *limited) {
      if (!candidate->held) continue;
      held->emplace(candidate->decoded.uid.bytes(), candidate);
      const WaitingPlace place =
          WaitingPlaceOf(query_.tenant, candidate->row.throttle(), candidate->decoded.uid,
                         context_.layout.policy_shards);
      policies[place.policy] = place.policy_shard;
    }
    std::vector<KeyRange> ranges;
    for (const auto& [policy, shard] : policies) {
      ranges.push_back(
          {ColumnFamily::kGrants, GrantsBegin(shard, policy), GrantsEnd(shard, policy)});
    }
    ReadRanges(
        context_, std::move(ranges), kListClaimRowsMax,
        [held](const KeyRange&, kv::Entry& entry) -> absl::StatusOr<bool> {
          storage::v1::GrantRecord grant;
          if (!grant.ParseFromString(entry.value)) return BrokenRecord("a grant");
          const auto found = held->find(grant.uid());
          if (found == held->end()) return true;
          const std::string id = found->second->row.event_id();
          found->second->row = std::move(*grant.mutable_event());
          found->second->row.set_event_id(id);
          return true;
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->ReadDefinitions();
        });
  }

  // Reads the definitions of the next candidates, as many as fit into one read. Then it shows these
  // candidates.
  void ReadDefinitions() {
    std::vector<kv::Key> keys;
    std::vector<std::string> hashes;
    definitions_.clear();
    std::set<uint16_t> shards;
    size_t end = next_candidate_;
    for (; end < candidates_.size() && hashes.size() < kDefinitionsAtOnce; ++end) {
      const Candidate& candidate = candidates_[end];
      const std::string& hash = candidate.row.definition_hash();
      if (MayBeClaimed(candidate)) shards.insert(candidate.decoded.shard);
      if (hash.size() != Uid::kBytes || !definitions_.try_emplace(hash).second) continue;
      keys.push_back({ColumnFamily::kDefinitions, InternKey(Uid::FromBytes(hash))});
      hashes.push_back(hash);
    }
    ReadKeys(
        context_, std::move(keys),
        [self = shared_from_this(), hashes = std::move(hashes), shards = std::move(shards),
         end](absl::StatusOr<KeyValues> values) {
          if (!values.ok()) return self->done_(values.status());
          for (size_t i = 0; i < hashes.size(); ++i) {
            auto& definition = self->definitions_[hashes[i]];
            if ((*values)[i].has_value() && !definition.emplace().ParseFromString(*(*values)[i]))
              return self->done_(BrokenRecord("a definition"));
          }
          self->ReadClaims(shards, end);
        });
  }

  // By a handler: events under a policy are claimed through their tokens.
  bool MayBeClaimed(const Candidate& candidate) const {
    return candidate.waiting_key.empty() && candidate.due_time <= claimable_before_;
  }
  bool Running(const Candidate& candidate) const {
    return candidate.held || (MayBeClaimed(candidate) && claimed_.contains(candidate.key));
  }

  void ReadClaims(const std::set<uint16_t>& shards, size_t end) {
    std::vector<KeyRange> ranges;
    for (const uint16_t shard : shards) {
      if (claims_read_.insert(shard).second)
        ranges.push_back(
            {ColumnFamily::kInflight, InflightShardBegin(shard), InflightShardEnd(shard)});
    }
    ReadRanges(
        context_, std::move(ranges), kListClaimRowsMax,
        [self = shared_from_this()](const KeyRange&, kv::Entry& entry) -> absl::StatusOr<bool> {
          const auto key = DecodeInflightKey(entry.key);
          storage::v1::ClaimRecord claim;
          if (!key.has_value() || !key->is_claim()) return true;
          if (!claim.ParseFromString(entry.value)) return BrokenRecord("a claim");
          for (auto& claimed : *claim.mutable_entries()) {
            if (claimed.row_stays()) self->claimed_.insert(std::move(*claimed.mutable_event_key()));
          }
          return true;
        },
        [self = shared_from_this(), end](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->ReadTargets(end);
        });
  }

  // Reads which targets take no events, of those for which events wait although they are due.
  void ReadTargets(size_t end) {
    now_ = context_.client.NowLow();
    std::set<std::string> keys;
    for (size_t i = next_candidate_; i < end; ++i) {
      const Candidate& candidate = candidates_[i];
      const auto& definition = definitions_[candidate.row.definition_hash()];
      if (candidate.due_time > now_ || Running(candidate) || !definition.has_value()) continue;
      std::string key = TargetKeyOf(definition->delivery().target());
      if (targets_read_.insert(key).second) keys.insert(std::move(key));
    }
    ReadHeldTargets(context_, query_.tenant, std::move(keys),
                    [self = shared_from_this(), end](absl::StatusOr<HeldTargets> held) {
                      if (!held.ok()) return self->done_(held.status());
                      self->held_.merge(*std::move(held));
                      self->ShowUntil(end);
                    });
  }

  void ShowUntil(size_t end) {
    for (; next_candidate_ < end; ++next_candidate_) {
      const Candidate& candidate = candidates_[next_candidate_];
      v1::Event event = Show(candidate);
      if (!query_.filter.Matches(event) || listed_.contains(event.name())) continue;
      if (page_.events.size() == query_.page_size || !budget_.Take(event))
        return EndPage(next_candidate_ == 0 ? before_ : RankOfCandidate(next_candidate_ - 1));
      listed_.insert(event.name());
      page_.events.push_back(std::move(event));
    }
    if (next_candidate_ < candidates_.size()) return ReadDefinitions();
    before_ = last_rank_;
    if (scan_->ended()) return EndPage("");
    const bool full = page_.events.size() == query_.page_size;
    if (full || examined_ >= kListExaminedMax || bytes_ >= kListBytesMax)
      return EndPage(last_rank_);
    Step();
  }

  std::string RankOfCandidate(size_t i) const {
    return candidates_[i].key.substr(kLanePrefixBytes);
  }

  void EndPage(std::string next) {
    page_.next = std::move(next);
    done_(std::move(page_));
  }

  v1::Event Show(const Candidate& candidate) {
    const std::string name = EventName{query_.tenant, candidate.row.event_id()}.ToString();
    const bool running = Running(candidate);
    const auto& definition = definitions_[candidate.row.definition_hash()];
    v1::Event event = ShowWaitingEvent(name, candidate.row, running ? v1::RUNNING : v1::PENDING,
                                       definition.has_value() ? &*definition : nullptr);
    if (candidate.row.client_chosen_id())
      event.set_etag(EventEtag(candidate.decoded.uid, candidate.row.launch_time_micros()));
    if (candidate.decoded.lane <= kPriorityMax) event.set_priority(candidate.decoded.lane);
    if (!candidate.waiting_key.empty() && candidate.row.attempts() == 0)
      event.set_priority(static_cast<int32_t>(candidate.row.priority()));
    ShowNextAttempt(candidate.due_time, now_, event);
    if (held_.empty() || event.has_next_attempt_time() || !definition.has_value()) return event;
    const auto held = held_.find(TargetKeyOf(definition->delivery().target()));
    if (held != held_.end()) ShowTargetHeld(held->second, now_, event);
    return event;
  }

  MasterContext& context_;
  const EventQuery query_;
  Shown done_;
  const absl::Time claimable_before_;
  const std::shared_ptr<MergedScan> scan_;
  std::vector<Candidate> candidates_;  // rows of one-off events of the tenant
  size_t next_candidate_ = 0;
  std::string last_rank_;  // rank of the row that was read last
  std::string before_;     // rank of the last row before candidates_
  absl::flat_hash_map<std::string, std::optional<storage::v1::DefinitionRecord>> definitions_;
  std::set<uint16_t> claims_read_;            // shards
  absl::flat_hash_set<std::string> claimed_;  // keys of rows
  std::set<std::string> targets_read_;        // keys
  HeldTargets held_;                          // those of targets_read_ that take no event now
  absl::Time now_;                            // when the targets were read
  absl::flat_hash_set<std::string> listed_;   // names on this page
  size_t examined_ = 0;
  size_t bytes_ = 0;
  ShownEvents page_;
  PageBudget budget_;
};

}  // namespace

void ListPendingEvents(MasterContext& context, EventQuery query,
                       absl::AnyInvocable<void(absl::StatusOr<ShownEvents>)> done) {
  auto listing = std::make_shared<PendingListing>(context, std::move(query), std::move(done));
  // Never answers within the call, not even if no range has rows.
  context.executor->Post([listing] { listing->Step(); });
}

namespace {

using kv::ColumnFamily;

constexpr size_t kShardPrefixBytes = 2;
constexpr size_t kEndedRowsAtOnce = 1000;

// The place of an event in the order of a piece.
struct EndPlace {
  absl::Time time;
  std::string id;

  friend bool operator<(const EndPlace& a, const EndPlace& b) {
    return std::tie(a.time, a.id) < std::tie(b.time, b.id);
  }
};

// Ranks are those of MergedScan: the key without its shard.
struct Position {
  std::string after;           // rank behind which the piece begins; empty: at the beginning
  std::string last;            // the piece's last rank; empty: it has the rest of all rows
  std::optional<EndPlace> at;  // the event listed last; nullopt: none of the piece yet
};

std::string Encode(const Position& position) {
  KeyWriter writer;
  writer.Text(position.after).Text(position.last).U8(position.at.has_value() ? 1 : 0);
  if (position.at.has_value()) writer.Time(position.at->time).Text(position.at->id);
  return writer.Take();
}

std::optional<Position> Decode(absl::string_view text) {
  Position position;
  if (text.empty()) return position;
  KeyReader reader(text);
  position.after = reader.Text();
  position.last = reader.Text();
  if (reader.U8() == 1) {
    EndPlace& at = position.at.emplace();
    at.time = reader.Time();
    at.id = reader.Text();
  }
  if (!reader.done()) return std::nullopt;
  return position;
}

class EndedListing : public std::enable_shared_from_this<EndedListing> {
 public:
  using Shown = absl::AnyInvocable<void(absl::StatusOr<ShownEvents>)>;
  EndedListing(MasterContext& context, EventQuery query, Position position, Shown done)
      : context_(context),
        query_(std::move(query)),
        position_(std::move(position)),
        done_(std::move(done)) {}

  void StartPiece() {
    scan_ = std::make_shared<MergedScan>(context_, Shards());
    found_.clear();
    piece_bytes_ = 0;
    // A piece that is read again may have grown.
    piece_rows_left_ =
        std::min(position_.at.has_value() ? kListExaminedMax : kListSortedMax, RowsLeft());
    Step();
  }

 private:
  struct Found {
    EndPlace place;
    v1::Event event;
  };

  size_t RowsLeft() const { return kListExaminedMax - examined_; }

  MergedScan::Options Shards() const {
    MergedScan::Options options;
    options.cf = ColumnFamily::kDone;
    options.prefix_bytes = kShardPrefixBytes;
    options.descending = query_.descending;
    // The day of an event is that of its due time or, if it was created later, of its creation.
    const absl::Time due = std::max(query_.filter.TimesOf("due_time").begin, absl::UnixEpoch());
    for (uint16_t shard = 0; shard < context_.layout.queue_shards; ++shard) {
      kv::KeyRange& range = options.lanes.emplace_back();
      const std::string prefix = KeyWriter().U16(shard).Take();
      range.begin = DoneDayKey(shard, DoneDay(due));
      range.end = PrefixEnd(prefix);
      const std::string after = prefix + position_.after;
      const std::string last = prefix + position_.last;
      if (query_.descending) {
        if (!position_.after.empty()) range.end = after;
        if (!position_.last.empty()) range.begin = std::max(range.begin, last);
      } else {
        if (!position_.after.empty()) range.begin = std::max(range.begin, KeyAfter(after));
        if (!position_.last.empty()) range.end = KeyAfter(last);
      }
    }
    return options;
  }

  void Step() {
    scan_->Next(std::min(kEndedRowsAtOnce, piece_rows_left_),
                [self = shared_from_this()](absl::StatusOr<MergedScan::Rows> rows) {
                  if (!rows.ok()) return self->done_(rows.status());
                  self->OnRows(*rows);
                });
  }

  void OnRows(const MergedScan::Rows& rows) {
    examined_ += rows.size();
    piece_rows_left_ -= rows.size();
    for (const kv::Entry& row : rows) {
      piece_bytes_ += row.value.size();
      if (absl::Status status = Examine(row); !status.ok()) return done_(std::move(status));
    }
    if (!scan_->ended() && piece_rows_left_ > 0 && piece_bytes_ < kListBytesMax) return Step();
    // The piece may have become too large: it ends where it was read to.
    if (!scan_->ended()) position_.last = std::string(scan_->RankOf(rows.back()));
    ShowPiece();
  }

  absl::Status Examine(const kv::Entry& row) {
    const auto key = DecodeDoneKey(row.key);
    if (!key.has_value()) return BrokenRecord("a Done record");
    if (!key->occurrence.empty()) return absl::OkStatus();  // an event of a schedule
    storage::v1::DoneRecord record;
    if (!record.ParseFromString(row.value)) return BrokenRecord("a Done record");
    if (record.tenant() != query_.tenant) return absl::OkStatus();
    std::string id = EndedEventId(*key, record);
    record.set_event_id(id);
    Found found;
    found.place = {FromMicros(record.complete_time_micros()), std::move(id)};
    if (position_.at.has_value() && !Precedes(*position_.at, found.place)) return absl::OkStatus();
    found.event = ShowEndedEvent(EventName{query_.tenant, found.place.id}.ToString(), record);
    if (query_.filter.Matches(found.event)) found_.push_back(std::move(found));
    return absl::OkStatus();
  }

  bool Precedes(const EndPlace& a, const EndPlace& b) const {
    return query_.descending ? b < a : a < b;
  }

  void ShowPiece() {
    std::sort(found_.begin(), found_.end(),
              [this](const Found& a, const Found& b) { return Precedes(a.place, b.place); });
    for (Found& found : found_) {
      if (page_.events.size() == query_.page_size || !budget_.Take(found.event))
        return EndPage(Encode(position_));
      position_.at = std::move(found.place);
      page_.events.push_back(std::move(found.event));
    }
    const bool was_last = position_.last.empty();
    if (was_last) return EndPage("");
    position_.after = std::exchange(position_.last, std::string());
    position_.at.reset();
    const bool full = page_.events.size() == query_.page_size;
    if (full || RowsLeft() < kListSortedMax || piece_bytes_ >= kListBytesMax)
      return EndPage(Encode(position_));
    StartPiece();
  }

  void EndPage(std::string next) {
    page_.next = std::move(next);
    done_(std::move(page_));
  }

  MasterContext& context_;
  const EventQuery query_;
  Position position_;
  Shown done_;
  std::shared_ptr<MergedScan> scan_;  // over the piece
  size_t piece_rows_left_ = 0;
  size_t piece_bytes_ = 0;
  std::vector<Found> found_;  // events of the piece that are to be listed
  size_t examined_ = 0;
  ShownEvents page_;
  PageBudget budget_;
};

}  // namespace

void ListEndedEvents(MasterContext& context, EventQuery query,
                     absl::AnyInvocable<void(absl::StatusOr<ShownEvents>)> done) {
  std::optional<Position> position = Decode(query.position);
  if (!position.has_value()) {
    context.executor->Post(
        [done = std::move(done)]() mutable { done(InvalidField("page_token", "is malformed")); });
    return;
  }
  auto listing = std::make_shared<EndedListing>(context, std::move(query), *std::move(position),
                                                std::move(done));
  // Never answers within the call, not even if no range has rows.
  context.executor->Post([listing] { listing->StartPiece(); });
}

}  // namespace escapement::master
