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

// Candidates that are read together, if the filter may refuse some.
constexpr size_t kCandidatesAtOnce = 500;

constexpr FilterField kScheduleFields[] = {
    {.name = "name", .collection = "schedules", .prefix = true, .part = true},
    {.name = "display_name", .part = true},
    {.name = "labels"},
    {.name = "state"},
    {.name = "time_zone"},
    {.name = "policy", .collection = "policies"},
    {.name = "target"},
    {.name = "create_time"},
    {.name = "update_time"},
    {.name = "next_time"}};

class ScheduleSearch : public std::enable_shared_from_this<ScheduleSearch> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<ShownSchedules>)>;
  ScheduleSearch(MasterContext& context, ScheduleQuery query, Done done)
      : context_(context),
        query_(std::move(query)),
        done_(std::move(done)),
        by_label_(query_.filter.label().has_value()),
        prefix_(by_label_ ? LabelPrefix(query_.tenant, query_.filter.label()->first,
                                        query_.filter.label()->second)
                          : SchedulePrefix(query_.tenant)),
        next_(query_.begin) {}

  void Step() {
    kv::ScanRequest scan;
    scan.cf = by_label_ ? ColumnFamily::kLabels : ColumnFamily::kSchedules;
    scan.begin = prefix_;
    scan.end = PrefixEnd(prefix_);
    NarrowToNames(scan);
    scan.reverse = query_.descending;
    if (!next_.empty() && query_.descending) {
      scan.end = std::min(scan.end, KeyAfter(KeyOf(next_)));
    } else if (!next_.empty()) {
      scan.begin = std::max(scan.begin, KeyOf(next_));
    }
    if (scan.begin >= scan.end) return done_(std::move(page_));
    // The one more is where the search goes on.
    const size_t candidates = query_.filter.always()
                                  ? static_cast<size_t>(query_.page_size)
                                  : std::min(kCandidatesAtOnce, kListExaminedMax - examined_);
    scan.limit = static_cast<uint32_t>(candidates) + 1;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return self->done_(StoreFailed(result.status()));
                           self->OnCandidates(*std::move(result));
                         });
  }

 private:
  std::string KeyOf(absl::string_view id) const { return KeyWriter(prefix_).Text(id).Take(); }

  // Ids with a common prefix are neighbours; their encodings end differently, so the range is from
  // the prefix itself to the first id beyond it.
  void NarrowToNames(kv::ScanRequest& scan) const {
    const std::string& prefix = query_.filter.id_prefix();
    if (prefix.empty()) return;
    scan.begin = KeyOf(prefix);
    const std::string beyond = PrefixEnd(prefix);
    if (!beyond.empty()) scan.end = KeyOf(beyond);
  }

  void OnCandidates(kv::ScanResult result) {
    ids_.clear();
    records_.clear();
    for (kv::Entry& entry : result.entries) {
      absl::string_view rest = entry.key;
      rest.remove_prefix(prefix_.size());
      KeyReader reader(rest);
      ids_.push_back(reader.Text());
      if (!reader.done()) return done_(BrokenRecord("the name of a schedule"));
      records_.push_back(std::move(entry.value));
    }
    // Where the search goes on: the last one is read again, unless nothing follows it.
    next_.clear();
    if (result.more && !ids_.empty()) {
      next_ = ids_.back();
      ids_.pop_back();
      records_.pop_back();
    }
    if (!by_label_) return ReadCandidates();
    std::vector<kv::Key> keys;
    for (const std::string& id : ids_)
      keys.push_back({ColumnFamily::kSchedules, ScheduleKey(query_.tenant, id)});
    if (keys.empty()) return ReadCandidates();
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               for (size_t i = 0; i < self->records_.size(); ++i)
                                 self->records_[i] = result->values[i].value_or(std::string());
                               self->ReadCandidates();
                             });
  }

  void ReadCandidates() {
    std::vector<StoredSchedule> candidates;
    for (const std::string& record : records_) {
      if (record.empty()) continue;  // deleted during the read
      absl::StatusOr<StoredSchedule> stored = ReadScheduleRecord(record);
      if (!stored.ok()) return done_(stored.status());
      candidates.push_back(*std::move(stored));
    }
    examined_ += ids_.size();
    ReadScheduleDetails(context_, std::move(candidates),
                        [self = shared_from_this()](absl::StatusOr<SchedulePage> read) {
                          if (!read.ok()) return self->done_(read.status());
                          self->OnDetails(*std::move(read));
                        });
  }

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
    // The details' own budget ended them early: they go on from there.
    if (!read.next.empty()) next_ = read.next;
    if (next_.empty()) return done_(std::move(page_));
    const bool full = page_.schedules.size() == static_cast<size_t>(query_.page_size);
    if (full || examined_ >= kListExaminedMax) {
      page_.next = next_;
      return done_(std::move(page_));
    }
    Step();
  }

  MasterContext& context_;
  const ScheduleQuery query_;
  Done done_;
  const bool by_label_;
  const std::string prefix_;  // each candidate's key is this prefix and its id
  std::string next_;  // id at which the search goes on; empty: at the begin, or nothing more
  std::vector<std::string> ids_;
  std::vector<std::string> records_;  // the rows of ids_
  size_t examined_ = 0;
  ShownSchedules page_;
  PageBudget budget_;
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

}  // namespace escapement::master
