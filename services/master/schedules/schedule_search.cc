#include "services/master/schedules/schedule_search.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/key_codec.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

// Candidates that are read together, if the filter may refuse some or all are visited.
constexpr size_t kCandidatesAtOnce = 500;

constexpr FilterField kScheduleFields[] = {
    {.name = "name", .collection = "schedules", .prefix = true, .part = true},
    {.name = "display_name", .part = true},
    {.name = "labels"},
    {.name = "state"},
    {.name = "time_zone"},
    {.name = "policy", .collection = "policies"},
    {.name = "calendar", .collection = "calendars"},
    {.name = "target"},
    {.name = "create_time"},
    {.name = "update_time"},
    {.name = "next_time"}};

// Reads the schedules that a query's filter may match, some at a time, in the order of their names.
class CandidateRead : public std::enable_shared_from_this<CandidateRead> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<SchedulePage>)>;
  CandidateRead(MasterContext& context, const ScheduleQuery& query, bool counts)
      : context_(context),
        tenant_(query.tenant),
        descending_(query.descending),
        counts_(counts),
        id_prefix_(query.filter.id_prefix()),
        by_label_(query.filter.label().has_value()),
        prefix_(by_label_ ? LabelPrefix(query.tenant, query.filter.label()->first,
                                        query.filter.label()->second)
                          : SchedulePrefix(query.tenant)),
        next_(query.begin) {}

  // Number of candidates that have been read, including those that were deleted during the read.
  size_t examined() const { return examined_; }

  // Reads at most `candidates` more. The page's `next` is where a further Read begins; empty: there
  // are no more. One at a time.
  void Read(size_t candidates, Done done) {
    kv::ScanRequest scan;
    scan.cf = by_label_ ? ColumnFamily::kLabels : ColumnFamily::kSchedules;
    scan.begin = prefix_;
    scan.end = PrefixEnd(prefix_);
    NarrowToNames(scan);
    scan.reverse = descending_;
    if (!next_.empty() && descending_) {
      scan.end = std::min(scan.end, KeyAfter(KeyOf(next_)));
    } else if (!next_.empty()) {
      scan.begin = std::max(scan.begin, KeyOf(next_));
    }
    if (scan.begin >= scan.end) return done(SchedulePage());
    // The one more is where the search goes on.
    scan.limit = static_cast<uint32_t>(candidates) + 1;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this(),
                          done = std::move(done)](absl::StatusOr<kv::ScanResult> result) mutable {
                           if (!result.ok()) return done(StoreFailed(result.status()));
                           self->OnCandidates(*std::move(result), std::move(done));
                         });
  }

 private:
  std::string KeyOf(absl::string_view id) const { return KeyWriter(prefix_).Text(id).Take(); }

  // Ids with a common prefix are neighbours; their encodings end differently, so the range is from
  // the prefix itself to the first id beyond it.
  void NarrowToNames(kv::ScanRequest& scan) const {
    if (id_prefix_.empty()) return;
    scan.begin = KeyOf(id_prefix_);
    const std::string beyond = PrefixEnd(id_prefix_);
    if (!beyond.empty()) scan.end = KeyOf(beyond);
  }

  void OnCandidates(kv::ScanResult result, Done done) {
    ids_.clear();
    records_.clear();
    for (kv::Entry& entry : result.entries) {
      absl::string_view rest = entry.key;
      rest.remove_prefix(prefix_.size());
      KeyReader reader(rest);
      ids_.push_back(reader.Text());
      if (!reader.done()) return done(BrokenRecord("the name of a schedule"));
      records_.push_back(std::move(entry.value));
    }
    // Where the search goes on: the last one is read again, unless nothing follows it.
    next_.clear();
    if (result.more && !ids_.empty()) {
      next_ = ids_.back();
      ids_.pop_back();
      records_.pop_back();
    }
    if (!by_label_) return ReadCandidates(std::move(done));
    std::vector<kv::Key> keys;
    for (const std::string& id : ids_)
      keys.push_back({ColumnFamily::kSchedules, ScheduleKey(tenant_, id)});
    if (keys.empty()) return ReadCandidates(std::move(done));
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this(), done = std::move(done)](
                                 absl::StatusOr<kv::GetResult> result) mutable {
                               if (!result.ok()) return done(StoreFailed(result.status()));
                               for (size_t i = 0; i < self->records_.size(); ++i)
                                 self->records_[i] = result->values[i].value_or(std::string());
                               self->ReadCandidates(std::move(done));
                             });
  }

  void ReadCandidates(Done done) {
    std::vector<StoredSchedule> candidates;
    for (const std::string& record : records_) {
      if (record.empty()) continue;  // deleted during the read
      absl::StatusOr<StoredSchedule> stored = ReadScheduleRecord(record);
      if (!stored.ok()) return done(stored.status());
      candidates.push_back(*std::move(stored));
    }
    examined_ += ids_.size();
    ReadScheduleDetails(context_, std::move(candidates), counts_,
                        [self = shared_from_this(),
                         done = std::move(done)](absl::StatusOr<SchedulePage> read) mutable {
                          if (!read.ok()) return done(read.status());
                          // The details' own budget may have ended them early.
                          if (!read->next.empty()) self->next_ = read->next;
                          read->next = self->next_;
                          done(std::move(read));
                        });
  }

  MasterContext& context_;
  const std::string tenant_;
  const bool descending_, counts_;
  const std::string id_prefix_;
  const bool by_label_;
  const std::string prefix_;  // each candidate's key is this prefix and its id
  std::string next_;  // id at which the search goes on; empty: at the begin, or nothing more
  std::vector<std::string> ids_;
  std::vector<std::string> records_;  // the rows of ids_
  size_t examined_ = 0;
};

class ScheduleSearch : public std::enable_shared_from_this<ScheduleSearch> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<ShownSchedules>)>;
  ScheduleSearch(MasterContext& context, ScheduleQuery query, Done done)
      : context_(context),
        query_(std::move(query)),
        done_(std::move(done)),
        candidates_(std::make_shared<CandidateRead>(context, query_, /*counts=*/true)) {}

  void Step() {
    const size_t candidates =
        query_.filter.always()
            ? static_cast<size_t>(query_.page_size)
            : std::min(kCandidatesAtOnce, kListExaminedMax - candidates_->examined());
    candidates_->Read(candidates, [self = shared_from_this()](absl::StatusOr<SchedulePage> read) {
      if (!read.ok()) return self->done_(read.status());
      self->OnDetails(*std::move(read));
    });
  }

 private:
  void OnDetails(SchedulePage read) {
    const absl::Time now = context_.client.NowLow();
    for (const StoredSchedule& stored : read.schedules) {
      v1::Schedule schedule = Show(stored, now);
      if (!query_.filter.Matches(schedule)) continue;
      if (page_.schedules.size() == static_cast<size_t>(query_.page_size) ||
          !budget_.Take(schedule)) {
        page_.next = stored.state.schedule_id();
        return done_(std::move(page_));
      }
      page_.schedules.push_back(std::move(schedule));
    }
    if (read.next.empty()) return done_(std::move(page_));
    const bool full = page_.schedules.size() == static_cast<size_t>(query_.page_size);
    if (full || candidates_->examined() >= kListExaminedMax) {
      page_.next = read.next;
      return done_(std::move(page_));
    }
    Step();
  }

  MasterContext& context_;
  const ScheduleQuery query_;
  Done done_;
  const std::shared_ptr<CandidateRead> candidates_;
  ShownSchedules page_;
  PageBudget budget_;
};

class ScheduleVisit : public std::enable_shared_from_this<ScheduleVisit> {
 public:
  using Visit = absl::AnyInvocable<void(std::vector<StoredSchedule>, VisitSchedulesNext)>;
  ScheduleVisit(MasterContext& context, const ScheduleQuery& query, Visit visit,
                absl::AnyInvocable<void(absl::Status)> done)
      : candidates_(std::make_shared<CandidateRead>(context, query, /*counts=*/false)),
        visit_(std::move(visit)),
        done_(std::move(done)) {}

  void Step() {
    candidates_->Read(kCandidatesAtOnce,
                      [self = shared_from_this()](absl::StatusOr<SchedulePage> read) {
                        if (!read.ok()) return self->done_(read.status());
                        self->visit_(std::move(read->schedules), [self, last = read->next.empty()] {
                          if (last) return self->done_(absl::OkStatus());
                          self->Step();
                        });
                      });
  }

 private:
  const std::shared_ptr<CandidateRead> candidates_;
  Visit visit_;
  absl::AnyInvocable<void(absl::Status)> done_;
};

}  // namespace

absl::StatusOr<ListFilter> ReadScheduleFilter(absl::string_view text, absl::string_view tenant) {
  return ListFilter::Read<v1::Schedule>(text, tenant, kScheduleFields);
}

v1::Schedule Show(const StoredSchedule& stored, absl::Time now) {
  v1::Schedule schedule = ShowSchedule({stored.record, stored.state, stored.definition.record},
                                       NextTime(stored.state, stored.definition, now));
  ShowCounts(stored.counts, schedule);
  return schedule;
}

void SearchSchedules(MasterContext& context, ScheduleQuery query,
                     absl::AnyInvocable<void(absl::StatusOr<ShownSchedules>)> done) {
  std::make_shared<ScheduleSearch>(context, std::move(query), std::move(done))->Step();
}

void VisitSchedules(
    MasterContext& context, const std::string& tenant, const ListFilter& filter,
    absl::AnyInvocable<void(std::vector<StoredSchedule> chunk, VisitSchedulesNext next)> visit,
    absl::AnyInvocable<void(absl::Status)> done) {
  ScheduleQuery query;
  query.tenant = tenant;
  query.filter = filter;
  std::make_shared<ScheduleVisit>(context, query, std::move(visit), std::move(done))->Step();
}

}  // namespace escapement::master
