#include "services/master/schedules/schedule_reader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/key_codec.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/page_budget.h"
#include "services/master/schedules/changes/max_runs.h"
#include "services/master/schedules/schedule_counts.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

// Definitions are read a few at a time, since each may hold a large payload.
constexpr size_t kDefinitionsAtOnce = 64;
constexpr size_t kCountsAtOnce = 64;

struct DetailsOptions {
  bool payload = false;
  bool counts = false;
  bool deleted = false;  // deleted schedules, too
};

// Reads states, then definitions, then counts, of schedules whose records are known. A schedule
// without state or definition was deleted or changed during the read, and is left out. Ends early,
// with `next`, once a page's bytes are read.
class DetailsRead : public std::enable_shared_from_this<DetailsRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<SchedulePage>)>;
  DetailsRead(MasterContext& context, std::vector<StoredSchedule> schedules, DetailsOptions options,
              Read done)
      : context_(context),
        schedules_(std::move(schedules)),
        options_(options),
        done_(std::move(done)) {}

  void Start() {
    std::vector<kv::Key> keys;
    for (const StoredSchedule& stored : schedules_)
      keys.push_back({ColumnFamily::kStates, StateKey(stored.uid)});
    if (keys.empty()) return done_(SchedulePage());
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->OnStates(std::move(result));
                             });
  }

 private:
  void OnStates(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    std::vector<StoredSchedule> kept;
    for (size_t i = 0; i < schedules_.size(); ++i) {
      storage::v1::StateRecord& state = schedules_[i].state;
      if (!result->values[i].has_value()) continue;
      if (!state.ParseFromString(*result->values[i]))
        return done_(BrokenRecord("the state of a schedule"));
      if (!options_.deleted && state.kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED) continue;
      kept.push_back(std::move(schedules_[i]));
    }
    schedules_ = std::move(kept);
    ReadDefinitions();
  }

  void ReadDefinitions() {
    if (next_ == schedules_.size()) return ReadCounts();
    std::vector<kv::Key> keys;
    for (size_t i = next_; i < schedules_.size() && keys.size() < kDefinitionsAtOnce; ++i) {
      const StoredSchedule& stored = schedules_[i];
      keys.push_back(
          {ColumnFamily::kDefinitions, DefinitionKey(stored.uid, stored.state.version())});
    }
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->OnDefinitions(std::move(result));
                             });
  }

  void OnDefinitions(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    for (const std::optional<std::string>& value : result->values) {
      StoredSchedule& stored = schedules_[next_++];
      storage::v1::DefinitionRecord record;
      if (!value.has_value()) continue;
      if (!record.ParseFromString(*value)) return done_(BrokenRecord("a definition"));
      if (!options_.payload) record.clear_payload();
      if (!budget_.Take(record)) {
        page_.next = stored.state.schedule_id();
        return ReadCounts();
      }
      absl::StatusOr<Definition> definition = LoadDefinition(std::move(record));
      if (!definition.ok()) return done_(definition.status());
      definition->timetable = EndingAt(definition->timetable, FinishOf(stored.state));
      stored.definition = *std::move(definition);
      page_.schedules.push_back(std::move(stored));
    }
    ReadDefinitions();
  }

  void ReadCounts() {
    if (!options_.counts || counted_ == page_.schedules.size()) return done_(std::move(page_));
    std::vector<Uid> uids;
    for (size_t i = counted_; i < page_.schedules.size() && uids.size() < kCountsAtOnce; ++i)
      uids.push_back(page_.schedules[i].uid);
    ReadScheduleCounts(context_, uids,
                       [self = shared_from_this()](
                           absl::StatusOr<std::vector<storage::v1::RunPartRecord>> counts) {
                         if (!counts.ok()) return self->done_(counts.status());
                         for (storage::v1::RunPartRecord& of_schedule : *counts)
                           self->page_.schedules[self->counted_++].counts = std::move(of_schedule);
                         self->ReadCounts();
                       });
  }

  MasterContext& context_;
  std::vector<StoredSchedule> schedules_;
  const DetailsOptions options_;
  Read done_;
  size_t next_ = 0;     // the first whose definition is to be read
  size_t counted_ = 0;  // number of schedules on the page that have counts
  SchedulePage page_;
  PageBudget budget_;
};

// Reads the schedule of the first of these rows of `schedules` that exists.
void ReadFirst(MasterContext& context, std::vector<kv::Key> rows, std::string name,
               DetailsOptions options,
               absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done) {
  context.client.MultiGet(
      std::move(rows), context.executor,
      [&context, name = std::move(name), options,
       done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        const auto found =
            std::find_if(result->values.begin(), result->values.end(),
                         [](const std::optional<std::string>& row) { return row.has_value(); });
        if (found == result->values.end()) return done(NotFound(name));
        absl::StatusOr<StoredSchedule> stored = ReadScheduleRecord(**found);
        if (!stored.ok()) return done(stored.status());
        std::vector<StoredSchedule> one;
        one.push_back(*std::move(stored));
        auto on_details = [name = std::move(name),
                           done = std::move(done)](absl::StatusOr<SchedulePage> read) mutable {
          if (!read.ok()) return done(read.status());
          if (read->schedules.empty()) return done(NotFound(name));
          done(std::move(read->schedules[0]));
        };
        std::make_shared<DetailsRead>(context, std::move(one), options, std::move(on_details))
            ->Start();
      });
}

}  // namespace

void ReadSchedule(MasterContext& context, ScheduleName name,
                  absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done) {
  const kv::Key key = {ColumnFamily::kSchedules, ScheduleKey(name.tenant, name.schedule)};
  ReadFirst(context, {key}, name.ToString(), {.payload = true, .counts = true}, std::move(done));
}

void ReadScheduleOfRuns(MasterContext& context, ScheduleName name,
                        absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done) {
  const kv::Key key = {ColumnFamily::kSchedules, ScheduleKey(name.tenant, name.schedule)};
  const kv::Key deleted = {ColumnFamily::kSchedules,
                           DeletedScheduleKey(name.tenant, name.schedule)};
  ReadFirst(context, {key, deleted}, name.ToString(), {.payload = true, .deleted = true},
            std::move(done));
}

absl::StatusOr<StoredSchedule> ReadScheduleRecord(const std::string& bytes) {
  StoredSchedule stored;
  if (!stored.record.ParseFromString(bytes) || stored.record.uid().size() != Uid::kBytes)
    return BrokenRecord("a schedule");
  stored.uid = Uid::FromBytes(stored.record.uid());
  return stored;
}

void ReadScheduleDetails(MasterContext& context, std::vector<StoredSchedule> schedules,
                         absl::AnyInvocable<void(absl::StatusOr<SchedulePage>)> done) {
  std::make_shared<DetailsRead>(context, std::move(schedules), DetailsOptions{.counts = true},
                                std::move(done))
      ->Start();
}

}  // namespace escapement::master
