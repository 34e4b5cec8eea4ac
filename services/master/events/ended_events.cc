#include "services/master/events/ended_events.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/status/errors.h"
#include "common/storage/done_table.h"
#include "common/storage/one_off_rows.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_codec.h"
#include "services/master/requests/merged_scan.h"
#include "services/master/requests/page_budget.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
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
    const absl::Time due = std::max(query_.filter.due().begin, absl::UnixEpoch());
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
