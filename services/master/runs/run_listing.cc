#include "services/master/runs/run_listing.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/cron/zone.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/list_filter.h"
#include "services/master/runs/run_codec.h"
#include "services/master/runs/run_window.h"
#include "services/master/runs/single_event.h"
#include "services/master/schedules/changes/row_places.h"

namespace escapement::master {

namespace {

constexpr FilterField kRunFields[] = {
    {.name = "state"}, {.name = "nominal_time"}, {.name = "complete_time"}};

// No zone has ever had a larger offset.
constexpr absl::Duration kOffsetMax = absl::Hours(16);
// An occurrence in a gap is named after a civil time that its zone has skipped, and fires up to the
// gap's length later. No gap is longer than a day.
constexpr absl::Duration kGapMax = absl::Hours(25);
constexpr absl::Duration kRulesMayHaveMoved = absl::Hours(1);

std::string CivilText(absl::Time utc) {
  return absl::FormatTime("%E4Y%m%dT%H%M%S", utc, absl::UTCTimeZone());
}

// The civil times at which clocks that are [west, east] ahead of UTC stand from begin to end.
std::pair<absl::Time, absl::Time> Civil(absl::Time begin, absl::Time end, absl::Duration west,
                                        absl::Duration east) {
  return {begin + west, end + east};
}

std::pair<absl::Time, absl::Time> CivilIn(const cron::Zone& zone, absl::Time begin,
                                          absl::Time end) {
  size_t span = zone.SpanAt(absl::ToUnixSeconds(begin - kGapMax));
  const size_t last = zone.SpanAt(absl::ToUnixSeconds(end));
  absl::Duration west = kOffsetMax;
  absl::Duration east = -kOffsetMax;
  for (; span <= last; ++span) {
    const absl::Duration offset = absl::Seconds(zone.spans()[span].offset);
    west = std::min(west, offset);
    east = std::max(east, offset);
  }
  if (zone.spans().size() > 1) {  // UTC never changes
    west -= kRulesMayHaveMoved;
    east += kRulesMayHaveMoved;
  }
  return Civil(begin, end, west, east);
}

}  // namespace

absl::StatusOr<ListFilter> ReadRunFilter(absl::string_view text) {
  return ListFilter::Read<v1::Run>(text, "", kRunFields);
}

std::vector<TextRange> OccurrenceRanges(absl::Time begin, absl::Time end,
                                        const std::vector<cron::Zone>& zones) {
  std::vector<std::pair<absl::Time, absl::Time>> civil;
  if (zones.empty()) {
    civil.push_back(Civil(begin, end, -kOffsetMax, kOffsetMax));
  } else {
    civil.push_back({begin, end});
    for (const cron::Zone& zone : zones) civil.push_back(CivilIn(zone, begin, end));
  }
  std::sort(civil.begin(), civil.end());
  std::vector<std::pair<absl::Time, absl::Time>> apart;
  for (const auto& range : civil) {
    if (!apart.empty() && range.first <= apart.back().second) {
      apart.back().second = std::max(apart.back().second, range.second);
    } else {
      apart.push_back(range);
    }
  }
  std::vector<TextRange> ranges;
  for (const auto& [first, last] : apart) {
    // The text of a second stands before those of all occurrences in it.
    ranges.push_back({CivilText(first), CivilText(last + absl::Seconds(1))});
  }
  return ranges;
}

namespace {

using kv::ColumnFamily;

// Active runs of one event are looked for in the queue at the occurrences of the last ten minutes,
// of the time since the oldest row in their lanes was due, and of the time that is emitted ahead.
constexpr absl::Duration kActiveBehind = absl::Minutes(10);
constexpr size_t kActiveMax = 2000;
constexpr int kScansOfActive = 8;  // a search for active runs costs about as many scans
// The clock of the master that triggered a run may be behind that of the one that made the
// schedule.
constexpr absl::Duration kClocksDiffer = absl::Minutes(1);
constexpr absl::Duration kWindowMax = absl::Hours(24 * 4);
constexpr int kWindowFactor = 4;  // by which windows grow and shrink
// Runs that are read and filtered for one page.
constexpr size_t kFilteredMax = 1000;

// A former version's time in force, with occurrences of its own.
struct FormerTimetable {
  cron::Timetable timetable;
  absl::Time begin, end;  // nominal times that it may have emitted: [begin, end)
};

class RunRowListing : public std::enable_shared_from_this<RunRowListing> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<RunListPage>)>;
  RunRowListing(MasterContext& context, RunListQuery query, Read done)
      : context_(context),
        query_(std::move(query)),
        done_(std::move(done)),
        now_(context.client.NowLow()),
        places_(SourceOf(query_.schedule.definition.record), context.layout) {
    // The counts of a page's runs are one read.
    runs_max_ =
        std::min(query_.filter.always() ? query_.limit : std::max(query_.limit, kFilteredMax),
                 kv::kMultiGetKeysMax / context_.RunPartsMax());
    end_ = std::min(now_ + kEmittedAheadMax, query_.filter.TimesOf("nominal_time").end);
  }

  void Start() {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kRuns;
    scan.begin = RunPrefix(query_.schedule.uid);
    scan.end = PrefixEnd(scan.begin);
    scan.limit = 1;
    scan.keys_only = true;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> first) {
                           if (!first.ok()) return self->done_(StoreFailed(first.status()));
                           self->OnFirst(first->entries);
                         });
  }

 private:
  // Backfilled runs are older than their schedule; they have records.
  void OnFirst(const std::vector<kv::Entry>& entries) {
    begin_ = FromMicros(query_.schedule.record.create_time_micros()) - kClocksDiffer;
    const auto key = entries.empty() ? std::nullopt : DecodeRunKey(entries[0].key);
    const auto first = key.has_value()
                           ? cron::ParseOccurrence(key->occurrence)
                           : absl::StatusOr<cron::OccurrenceId>(absl::NotFoundError(""));
    if (first.ok()) {
      const absl::Time civil =
          first->calendar ? absl::FromCivil(first->civil, absl::UTCTimeZone()) : first->instant;
      begin_ = std::min(begin_, civil - absl::Hours(24));
    }
    begin_ = std::max({begin_, query_.oldest, query_.filter.TimesOf("nominal_time").begin});
    if (query_.after.has_value()) {
      position_ = *query_.after;
    } else {
      position_ = {query_.newest_first ? end_ : begin_, std::string()};
    }
    width_ = FirstWidth();
    ReadVersions();
  }

  // About as long as runs_max_ occurrences take.
  absl::Duration FirstWidth() const {
    const auto next = query_.schedule.definition.timetable.Enumerate(
        now_, now_ + absl::Hours(24 * 400), /*max=*/2);
    if (next.size() < 2) return kWindowMax;
    return std::clamp((next[1].instant - next[0].instant) * static_cast<int64_t>(runs_max_),
                      absl::Duration(absl::Minutes(1)), kWindowMax);
  }

  void ReadVersions() {
    ReadRowPlaces(context_, places_.present(), begin_,
                  [self = shared_from_this()](absl::StatusOr<RowPlaces> places) {
                    if (!places.ok()) return self->done_(places.status());
                    self->places_ = *std::move(places);
                    self->TakeVersions();
                    self->ReadOldestDue();
                  });
  }

  void TakeVersions() {
    any_zone_ = places_.cut();
    const storage::v1::DefinitionRecord& present = query_.schedule.definition.record;
    AddZone(present.time_zone());
    const auto timing = [](const storage::v1::DefinitionRecord& record) {
      return std::tuple(record.cron(), record.time_zone(), record.timing().SerializeAsString());
    };
    absl::Time end = FromMicros(present.create_time_micros());
    for (const storage::v1::DefinitionRecord& former : places_.former()) {
      AddZone(former.time_zone());
      const absl::Time begin = FromMicros(former.create_time_micros());
      absl::StatusOr<cron::Timetable> timetable = absl::NotFoundError("");
      if (timing(former) != timing(present) && former_.size() < kListedTimetablesMax)
        timetable = TimetableOf(former);
      if (timetable.ok())
        former_.push_back({*std::move(timetable), begin - kClocksDiffer, end + kEmittedAheadMax});
      end = begin;
    }
  }

  void AddZone(const std::string& name) {
    absl::StatusOr<cron::Zone> zone = cron::Zone::Load(name.empty() ? "UTC" : name);
    if (zone.ok()) {
      zones_.push_back(*std::move(zone));
    } else {
      any_zone_ = true;
    }
  }

  // True if this version or a former one may have had jitter. Outcomes are kept longer than
  // versions.
  bool MayHaveJitter() const {
    const storage::v1::DefinitionRecord& record = query_.schedule.definition.record;
    return record.timing().jitter_micros() > 0 || record.version() > 1;
  }

  void ReadOldestDue() {
    lanes_ = places_.lanes();
    if (places_.cut()) {
      for (uint8_t lane = 0; lane < kLaneRetry; ++lane) lanes_.insert(lane);
    }
    FindOldestDue(context_, lanes_, now_ - kActiveBehind,
                  [self = shared_from_this()](absl::StatusOr<absl::Time> oldest) {
                    if (!oldest.ok()) return self->done_(oldest.status());
                    const RowPlaces& places = self->places_;
                    self->oldest_active_ =
                        *oldest - (places.cut() ? kJitterMax : places.jitter_max());
                    self->ReadActive();
                  });
  }

  // Adds the next `max` occurrences in the list's direction of a version. True: there may be more.
  bool AddOccurrences(const cron::Timetable& timetable, absl::Time begin, absl::Time end,
                      size_t max, std::set<RunListPosition>& found) const {
    if (begin >= end) return false;
    const std::vector<cron::Occurrence> occurrences = query_.newest_first
                                                          ? timetable.EnumerateLast(begin, end, max)
                                                          : timetable.Enumerate(begin, end, max);
    for (const cron::Occurrence& occurrence : occurrences)
      found.insert({occurrence.instant, timetable.IdOf(occurrence)});
    return occurrences.size() == max;
  }

  // Reads active runs before the records of ended ones: a run that ends in between is found there.
  // They are those of the chunk: the next occurrences in the list's direction, at most kActiveMax.
  void ReadActive() {
    chunk_begin_ = begin_;
    chunk_end_ = end_;
    absl::Time begin = std::max(begin_, oldest_active_);
    absl::Time end = end_;
    if (query_.newest_first) {
      end = std::min(end, position_.nominal_time + absl::Microseconds(1));
    } else {
      begin = std::max(begin, position_.nominal_time);
    }
    const size_t max = kActiveMax / places_.due_times_max();
    std::set<RunListPosition> found;
    bool more = AddOccurrences(query_.schedule.definition.timetable, begin, end, max, found);
    for (const FormerTimetable& former : former_) {
      more |= AddOccurrences(former.timetable, std::max(begin, former.begin),
                             std::min(end, former.end), max, found);
    }
    while (found.size() > max) {
      found.erase(query_.newest_first ? found.begin() : std::prev(found.end()));
      more = true;
    }
    if (more) {
      // Others may be at the time of the last one.
      const absl::Time first = found.begin()->nominal_time;
      const absl::Time last = found.rbegin()->nominal_time;
      const absl::Duration step = absl::Microseconds(first < last ? 0 : 1);
      if (query_.newest_first) {
        chunk_begin_ = first + absl::Microseconds(1) - step;
      } else {
        chunk_end_ = last + step;
      }
    }
    ActiveSinglesQuery active{.places = places_, .lanes = lanes_};
    for (const RunListPosition& each : found)
      active.occurrences.emplace(each.occurrence, each.nominal_time);
    active.old_launches = now_ - kActiveBehind;
    FindActiveSingles(context_, std::move(active),
                      [self = shared_from_this()](absl::StatusOr<SingleEvents> found) {
                        if (!found.ok()) return self->done_(found.status());
                        self->active_ = *std::move(found);
                        self->scans_ += kScansOfActive;
                        self->Round();
                      });
  }

  // The chunk has been listed.
  void EndChunk() {
    const bool all = query_.newest_first ? chunk_begin_ <= begin_ : chunk_end_ >= end_;
    if (all) return ReadCounts(false);
    if (page_.size() >= runs_max_ || scans_ >= kRunScansMax) return ReadCounts(true);
    ReadActive();
  }

  void Round() {
    if (query_.newest_first ? position_.nominal_time < chunk_begin_
                            : position_.nominal_time >= chunk_end_)
      return EndChunk();
    // Each page gets on by a window.
    if (page_.size() >= runs_max_ || (got_on_ && scans_ >= kRunScansMax)) return ReadCounts(true);
    if (query_.newest_first) {
      window_end_ = position_.nominal_time;
      if (!position_.occurrence.empty()) window_end_ += absl::Microseconds(1);
      window_end_ = std::min(window_end_, end_);
      window_begin_ = std::max(window_end_ - width_, chunk_begin_);
      if (window_begin_ >= window_end_) return EndChunk();
    } else {
      window_begin_ = std::max(position_.nominal_time, begin_);
      window_end_ = std::min(window_begin_ + width_, chunk_end_);
    }
    ReadRunWindow(context_, Window(), [self = shared_from_this()](absl::StatusOr<RunWindow> read) {
      if (!read.ok()) return self->done_(read.status());
      self->OnWindow(*std::move(read));
    });
  }

  RunWindowQuery Window() const {
    return {.uid = query_.schedule.uid,
            .begin = window_begin_,
            .end = window_end_,
            .zones = any_zone_ ? std::vector<cron::Zone>() : zones_,
            .jitter = MayHaveJitter() ? kJitterMax : absl::ZeroDuration(),
            .runs_max = 2 * runs_max_ + 100};
  }

  void OnWindow(RunWindow window) {
    scans_ += window.scans;
    if (window.crowded) {
      width_ = std::max((window_end_ - window_begin_) / kWindowFactor, kRunWindowMin);
      return Round();
    }
    for (const auto& [occurrence, single] : active_) {
      const absl::Time nominal =
          FromMicros(single.launch.has_value() ? single.launch->nominal_time_micros()
                                               : single.row->nominal_time_micros());
      if (window_begin_ <= nominal && nominal < window_end_)
        window.runs.try_emplace(occurrence, StoredRunRow{nominal, single, std::nullopt});
    }
    EndRound(std::move(window.runs));
  }

  void EndRound(std::map<std::string, StoredRunRow> found) {
    std::map<RunListPosition, StoredRunRow> ordered;
    for (auto& [occurrence, run] : found) {
      RunListPosition at{run.nominal_time, occurrence};
      if (query_.newest_first ? at < position_ : position_ < at)
        ordered.emplace(std::move(at), std::move(run));
    }
    const auto take = [&](auto begin, auto end) {
      for (auto it = begin; it != end; ++it) {
        if (page_.size() >= runs_max_) return false;
        position_ = it->first;
        page_.emplace_back(it->first, std::move(it->second));
      }
      return true;
    };
    const bool all = query_.newest_first ? take(ordered.rbegin(), ordered.rend())
                                         : take(ordered.begin(), ordered.end());
    if (!all) return ReadCounts(true);
    got_on_ = true;
    position_ = {query_.newest_first ? window_begin_ : window_end_, std::string()};
    if (query_.newest_first && window_begin_ <= chunk_begin_) return EndChunk();
    if (found.size() < runs_max_ / kWindowFactor)
      width_ = std::min(width_ * kWindowFactor, kWindowMax);
    Round();
  }

  void ReadCounts(bool more) {
    result_.more = more;
    result_.next = position_;
    std::vector<kv::Key> keys;
    for (const auto& [at, run] : page_) {
      if (!run.record.has_value()) continue;
      for (kv::Key& key : RunPartKeys({query_.schedule.uid, at.occurrence}, context_.layout))
        keys.push_back(std::move(key));
    }
    if (keys.empty()) return Answer({});
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               self->Answer(std::move(result->values));
                             });
  }

  void Answer(std::vector<std::optional<std::string>> parts) {
    const size_t parts_each = context_.RunPartsMax();
    size_t next_part = 0;
    for (size_t i = 0; i < page_.size(); ++i) {
      const auto& [at, run] = page_[i];
      const RunName name = {query_.name, at.occurrence};
      v1::Run shown;
      if (run.record.has_value()) {
        storage::v1::RunPartRecord sum;
        for (size_t end = next_part + parts_each; next_part < end; ++next_part) {
          const std::optional<std::string>& bytes = parts[next_part];
          storage::v1::RunPartRecord part;
          if (bytes.has_value() && part.ParseFromString(*bytes)) AddCounts(part, sum);
        }
        shown = ShowRun(name, *run.record, sum, now_);
      } else {
        shown = ShowSingleRun(name, run.single, now_);
      }
      if (!query_.filter.Matches(shown)) continue;
      if (result_.runs.size() == query_.limit) {
        // More match than the page takes.
        result_.more = true;
        result_.next = page_[i - 1].first;
        break;
      }
      result_.runs.push_back(std::move(shown));
    }
    done_(std::move(result_));
  }

  MasterContext& context_;
  RunListQuery query_;
  Read done_;
  const absl::Time now_;
  size_t runs_max_ = 0;  // read for the page
  // Runs have nominal times in [begin_, end_).
  absl::Time begin_;
  absl::Time end_;
  RowPlaces places_;
  std::vector<cron::Zone> zones_;
  bool any_zone_ = false;
  std::vector<FormerTimetable> former_;  // those that are not as the present one
  std::set<uint8_t> lanes_;              // where rows of the schedule may be in the queue
  absl::Time oldest_active_;             // no older occurrence is in the queue
  // Runs of one that have not ended, with nominal times in [chunk_begin_, chunk_end_).
  SingleEvents active_;
  absl::Time chunk_begin_;
  absl::Time chunk_end_;
  RunListPosition position_;
  absl::Duration width_;
  int scans_ = 0;
  bool got_on_ = false;  // a window has been read
  std::vector<std::pair<RunListPosition, StoredRunRow>> page_;
  RunListPage result_;
  // The window of this round.
  absl::Time window_begin_;
  absl::Time window_end_;
};

}  // namespace

std::string FormatPosition(const RunListPosition& position) {
  return KeyWriter()
      .U64(static_cast<uint64_t>(ToMicros(position.nominal_time)))
      .Text(position.occurrence)
      .Take();
}

absl::StatusOr<RunListPosition> ParsePosition(absl::string_view text) {
  KeyReader reader(text);
  RunListPosition position;
  position.nominal_time = FromMicros(static_cast<int64_t>(reader.U64()));
  position.occurrence = reader.Text();
  if (!reader.done()) return InvalidField("page_token", "is malformed");
  return position;
}

void ListRunsOf(MasterContext& context, RunListQuery query,
                absl::AnyInvocable<void(absl::StatusOr<RunListPage>)> done) {
  std::make_shared<RunRowListing>(context, std::move(query), std::move(done))->Start();
}

}  // namespace escapement::master
