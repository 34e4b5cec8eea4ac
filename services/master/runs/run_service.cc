#include "services/master/runs/run_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/records/row_judge.h"
#include "common/status/errors.h"
#include "common/storage/event_id.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/request_table.h"
#include "services/master/runs/occurrence_account.h"
#include "services/master/runs/run_codec.h"
#include "services/master/runs/run_events.h"
#include "services/master/runs/run_listing.h"
#include "services/master/runs/single_event.h"
#include "services/master/schedules/schedule_reader.h"
#include "services/master/target_states/target_service.h"

namespace escapement::master {

namespace {

struct Paging {
  int32_t size = 0;
  std::string position;  // empty: from the beginning
};

absl::StatusOr<Paging> ReadPaging(int32_t page_size, absl::string_view list,
                                  absl::string_view token) {
  const absl::StatusOr<int32_t> size = ReadPageSize(page_size);
  absl::StatusOr<std::string> position = DecodePageToken(list, token);
  FieldViolations violations;
  violations.AddStatus("", size.status());
  violations.AddStatus("", position.status());
  if (!violations.empty()) return violations.ToStatus();
  return Paging{*size, *std::move(position)};
}

// The only event of a run, as a list.
v1::ListRunEventsResponse ListSingle(const RunName& name, const Uid& uid, const SingleEvent& single,
                                     std::optional<v1::Outcome> outcome) {
  v1::ListRunEventsResponse response;
  const RunIdentity identity(name.schedule.tenant, uid, name.occurrence);
  if (single.done.has_value()) {
    v1::Event event = ShowEndedRunEvent(name, identity, 0, *single.done, 0);
    if (!outcome.has_value() || event.outcome() == *outcome)
      *response.add_events() = std::move(event);
  } else if (!outcome.has_value() && single.row.has_value() &&
             (single.row->attempts() > 0 || single.state == v1::RUNNING)) {
    *response.add_events() = ShowWaitingRunEvent(name, identity, 0, *single.row, single.state);
  }
  return response;
}

// The same, also if the event has not been sent yet because its target is down or paused.
void AnswerSingle(MasterContext& context, const RunName& name, const Uid& uid, SingleEvent single,
                  std::optional<v1::Outcome> outcome, Done<v1::ListRunEventsResponse> done) {
  v1::ListRunEventsResponse response = ListSingle(name, uid, single, outcome);
  const absl::Time now = context.client.NowLow();
  if (response.events_size() > 0 || outcome.has_value() || !single.row.has_value() ||
      single.parked || FromMicros(single.row->launch_time_micros()) > now)
    return done(std::move(response));
  const RunIdentity identity(name.schedule.tenant, uid, name.occurrence);
  v1::Event event = ShowWaitingRunEvent(name, identity, 0, *single.row, single.state);
  context.client.MultiGet(
      {{kv::ColumnFamily::kDefinitions, DefinitionKey(uid, single.row->version())}},
      context.executor,
      [&context, tenant = name.schedule.tenant, event = std::move(event), now,
       done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        if (!result->values[0].has_value()) return done(v1::ListRunEventsResponse());
        storage::v1::DefinitionRecord definition;
        if (!definition.ParseFromString(*result->values[0]))
          return done(BrokenRecord("a definition"));
        ReadHeldTargets(context, tenant, {TargetKeyOf(definition.delivery().target())},
                        [event = std::move(event), now,
                         done = std::move(done)](absl::StatusOr<HeldTargets> held) mutable {
                          if (!held.ok()) return done(held.status());
                          v1::ListRunEventsResponse response;
                          if (!held->empty()) {
                            ShowTargetHeld(held->begin()->second, now, event);
                            *response.add_events() = std::move(event);
                          }
                          done(std::move(response));
                        });
      });
}

v1::ListRunEventsResponse ListPage(absl::string_view list, RunEventsPage page) {
  v1::ListRunEventsResponse response;
  for (v1::Event& event : page.events) *response.add_events() = std::move(event);
  if (page.more) {
    response.set_next_page_token(
        EncodePageToken(list, KeyWriter().U64(page.index).U64(page.record_first).Take()));
  }
  return response;
}

}  // namespace

void RunService::GetRun(v1::GetRunRequest request, Done<v1::Run> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<RunName> name = ParseRunName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  ReadRun(context_, *name,
          [this, name = *name, done = std::move(done)](absl::StatusOr<StoredRun> run) mutable {
            if (!run.ok()) return done(run.status());
            const absl::Time now = context_.client.NowLow();
            if (!run->record.has_value()) return done(ShowSingleRun(name, run->single, now));
            v1::Run shown = ShowRun(name, *run->record, run->counts, now);
            if (run->record->event_count() > 1 && shown.has_complete_time())
              *shown.mutable_report() = ShowReport(name, run->counts);
            done(std::move(shown));
          });
}

// A day more than outcomes are kept.
absl::Duration RunService::ListedFor(const std::string& tenant) const {
  return std::max(absl::Hours(24) * run_list_days_, tenants_.RetentionOf(tenant)) + absl::Hours(24);
}

void RunService::ListRuns(v1::ListRunsRequest request, Done<v1::ListRunsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<ScheduleName> name = ParseScheduleName(request.parent(), "parent");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  std::string list =
      absl::StrCat("ListRuns ", request.parent(), " ", request.order_by(), " ", request.filter());
  const absl::StatusOr<bool> newest_first =
      ReadDescending(request.order_by(), "nominal_time", /*unset=*/false);
  absl::StatusOr<ListFilter> filter = ReadRunFilter(request.filter());
  absl::StatusOr<Paging> paging = ReadPaging(request.page_size(), list, request.page_token());
  FieldViolations violations;
  violations.AddStatus("", newest_first.status());
  violations.AddStatus("", filter.status());
  violations.AddStatus("", paging.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RunListQuery query;
  query.name = *name;
  query.newest_first = *newest_first;
  query.filter = *std::move(filter);
  query.limit = static_cast<size_t>(paging->size);
  query.oldest = context_.client.NowLow() - ListedFor(name->tenant);
  if (!paging->position.empty()) {
    absl::StatusOr<RunListPosition> position = ParsePosition(paging->position);
    if (!position.ok()) return context_.Refuse(position.status(), std::move(done));
    query.after = *std::move(position);
  }
  ReadScheduleOfRuns(context_, *name,
                     [this, query = std::move(query), list = std::move(list),
                      done = std::move(done)](absl::StatusOr<StoredSchedule> schedule) mutable {
                       if (!schedule.ok()) return done(schedule.status());
                       query.schedule = *std::move(schedule);
                       ListRunsOf(context_, std::move(query),
                                  [list = std::move(list), done = std::move(done)](
                                      absl::StatusOr<RunListPage> page) mutable {
                                    if (!page.ok()) return done(page.status());
                                    v1::ListRunsResponse response;
                                    for (v1::Run& run : page->runs)
                                      *response.add_runs() = std::move(run);
                                    if (page->more) {
                                      response.set_next_page_token(
                                          EncodePageToken(list, FormatPosition(page->next)));
                                    }
                                    done(std::move(response));
                                  });
                     });
}

void RunService::ListRunEvents(v1::ListRunEventsRequest request,
                               Done<v1::ListRunEventsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<RunName> name = ParseRunName(request.parent(), "parent");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  std::string list = absl::StrCat("ListRunEvents ", request.parent(), " ", request.filter());
  const absl::StatusOr<std::optional<v1::Outcome>> outcome = ReadOutcomeFilter(request.filter());
  absl::StatusOr<Paging> paging = ReadPaging(request.page_size(), list, request.page_token());
  FieldViolations violations;
  violations.AddStatus("", outcome.status());
  violations.AddStatus("", paging.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RunEventsQuery query;
  query.name = *name;
  query.outcome = *outcome;
  query.limit = static_cast<size_t>(paging->size);
  if (!paging->position.empty()) {
    KeyReader reader(paging->position);
    query.index = reader.U64();
    query.record_first = reader.U64();
    if (!reader.done())
      return context_.Refuse(InvalidField("page_token", "is malformed"), std::move(done));
  }
  ReadRun(context_, *name,
          [this, query = std::move(query), list = std::move(list),
           done = std::move(done)](absl::StatusOr<StoredRun> run) mutable {
            if (!run.ok()) return done(run.status());
            const Uid uid = run->source.uid;
            query.source = std::move(run->source);
            const SingleEvent& single = run->single;
            if (single.done.has_value() && single.done->run_skipped())
              return done(ListPage(list, SkippedEvents(query, *single.done)));
            if (!run->record.has_value())
              return AnswerSingle(context_, query.name, uid, std::move(run->single), query.outcome,
                                  std::move(done));
            query.run = *std::move(run->record);
            if (query.run.event_count() <= 1) {
              // Its event is where that of a run without a record would be.
              auto on_found = [this, name = query.name, uid, outcome = query.outcome,
                               done = std::move(done)](absl::StatusOr<SingleEvent> single) mutable {
                if (!single.ok()) return done(single.status());
                AnswerSingle(context_, name, uid, *std::move(single), outcome, std::move(done));
              };
              return FindSingleEvent(context_, std::move(query.source), query.name.occurrence,
                                     std::move(on_found));
            }
            ReadRunEvents(context_, std::move(query),
                          [list = std::move(list),
                           done = std::move(done)](absl::StatusOr<RunEventsPage> page) mutable {
                            if (!page.ok()) return done(page.status());
                            done(ListPage(list, *std::move(page)));
                          });
          });
}

void RunService::CancelRun(v1::CancelRunRequest request, Done<v1::Run> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<RunName> name = ParseRunName(request.name(), "name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (!name.ok() && violations.empty()) return context_.Refuse(name.status(), std::move(done));
  violations.AddStatus("", name.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RequestMark mark = MarkOf(name->schedule.tenant, "CancelRun", request, done);
  CancelRunOfSchedule(context_, *std::move(name), std::move(mark), request.validate_only(),
                      std::move(done));
}

namespace {

// The range, and where in it the list goes on: the default end is the time of the first page.
std::string FormatPosition(absl::Time begin, absl::Time end, const AccountPosition& position) {
  return KeyWriter()
      .U64(static_cast<uint64_t>(ToMicros(begin)))
      .U64(static_cast<uint64_t>(ToMicros(end)))
      .Text(position.schedule)
      .U8(position.ended)
      .U64(position.ended ? 0 : static_cast<uint64_t>(ToMicros(position.time)))
      .U64(position.passed)
      .Take();
}

absl::Status ParsePosition(absl::string_view text, AccountQuery& query) {
  KeyReader reader(text);
  query.begin = FromMicros(static_cast<int64_t>(reader.U64()));
  query.end = FromMicros(static_cast<int64_t>(reader.U64()));
  AccountPosition& position = query.after.emplace();
  position.schedule = reader.Text();
  position.ended = reader.U8() != 0;
  position.time = FromMicros(static_cast<int64_t>(reader.U64()));
  position.passed = reader.U64();
  return reader.done() ? absl::OkStatus() : InvalidField("page_token", "is malformed");
}

// The time in `field`, or `unset`.
absl::Time ReadTime(bool given, const google::protobuf::Timestamp& time, const char* field,
                    absl::Time unset, FieldViolations& violations) {
  if (!given) return unset;
  const std::optional<int64_t> micros = TimestampMicros(time);
  if (!micros.has_value()) violations.Add(field, "is not a valid time in the years 1 to 9999");
  return micros.has_value() ? FromMicros(*micros) : unset;
}

void ReadAccountRange(const v1::ListOccurrencesRequest& request, absl::Time now,
                      absl::Duration retention, AccountQuery& query, FieldViolations& violations) {
  query.end = ReadTime(request.has_end_time(), request.end_time(), "end_time", now, violations);
  query.begin = ReadTime(request.has_start_time(), request.start_time(), "start_time",
                         query.end - absl::Hours(24), violations);
  if (!violations.empty()) return;
  const absl::Duration kept =
      retention > absl::ZeroDuration() ? std::min(retention, kVersionKeptFor) : kVersionKeptFor;
  if (query.end <= query.begin) {
    violations.Add("end_time", "must be after start_time");
  } else if (query.end - query.begin > kAccountRangeMax) {
    violations.Add("end_time", "must be at most 31 days after start_time");
  } else if (query.begin < now - kept) {
    violations.Add("start_time", absl::StrCat("is before the records that are kept: they go back ",
                                              absl::FormatDuration(kept)));
  }
}

}  // namespace

void RunService::ListOccurrences(v1::ListOccurrencesRequest request,
                                 Done<v1::ListOccurrencesResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  AccountQuery query;
  absl::string_view parent = request.parent();
  absl::Status named;
  if (absl::ConsumeSuffix(&parent, "/schedules/-")) {
    absl::StatusOr<std::string> tenant = ParseTenantName(parent, "parent");
    named = tenant.status();
    if (tenant.ok()) query.tenant = *std::move(tenant);
  } else {
    absl::StatusOr<ScheduleName> name = ParseScheduleName(request.parent(), "parent");
    named = name.status();
    if (name.ok()) {
      query.tenant = std::move(name->tenant);
      query.schedule = std::move(name->schedule);
    }
  }
  if (!named.ok()) return context_.Refuse(named, std::move(done));
  std::string list = absl::StrCat("ListOccurrences ", request.parent(), " ",
                                  request.start_time().ShortDebugString(), " ",
                                  request.end_time().ShortDebugString(), " ", request.filter());
  FieldViolations violations;
  ReadAccountRange(request, context_.client.NowLow(), tenants_.RetentionOf(query.tenant), query,
                   violations);
  absl::StatusOr<ListFilter> filter = ReadOccurrenceFilter(request.filter());
  const absl::StatusOr<Paging> paging = ReadPaging(request.page_size(), list, request.page_token());
  violations.AddStatus("", filter.status());
  violations.AddStatus("", paging.status());
  if (violations.empty() && !paging->position.empty())
    violations.AddStatus("", ParsePosition(paging->position, query));
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  query.filter = *std::move(filter);
  query.limit = static_cast<size_t>(paging->size);
  query.retention_of = [this](const std::string& tenant) { return tenants_.RetentionOf(tenant); };
  const absl::Time begin = query.begin;
  const absl::Time end = query.end;
  AccountOccurrences(context_, std::move(query),
                     [list = std::move(list), begin, end,
                      done = std::move(done)](absl::StatusOr<AccountPage> page) mutable {
                       if (!page.ok()) return done(page.status());
                       if (page->next.has_value()) {
                         page->response.set_next_page_token(
                             EncodePageToken(list, FormatPosition(begin, end, *page->next)));
                       }
                       done(std::move(page->response));
                     });
}

namespace {

using kv::ColumnFamily;

class RunRead : public std::enable_shared_from_this<RunRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<StoredRun>)>;
  RunRead(MasterContext& context, RunName name, Read done)
      : context_(context), name_(std::move(name)), done_(std::move(done)) {}

  void Start() {
    ReadScheduleOfRuns(context_, name_.schedule,
                       [self = shared_from_this()](absl::StatusOr<StoredSchedule> schedule) {
                         if (!schedule.ok()) return self->done_(schedule.status());
                         self->run_.source = SourceOf(schedule->definition.record);
                         self->ReadRecord();
                       });
  }

 private:
  RunKey Key() const { return {run_.source.uid, name_.occurrence}; }

  void ReadRecord() {
    const kv::Key key = {ColumnFamily::kRuns, EncodeRunKey(Key())};
    context_.client.MultiGet({key}, context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->OnRecord(std::move(result));
                             });
  }

  void OnRecord(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    if (!result->values[0].has_value()) {
      FindSingleEvent(context_, run_.source, name_.occurrence,
                      [self = shared_from_this()](absl::StatusOr<SingleEvent> single) {
                        self->OnSingle(std::move(single));
                      });
      return;
    }
    if (!run_.record.emplace().ParseFromString(*result->values[0]))
      return done_(BrokenRecord("a run"));
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kRunParts;
    scan.begin = RunPartPrefix(Key());
    scan.end = PrefixEnd(scan.begin);
    scan.limit = context_.RunPartsMax();
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> parts) {
                           self->OnParts(std::move(parts));
                         });
  }

  void OnSingle(absl::StatusOr<SingleEvent> single) {
    if (!single.ok()) return done_(single.status());
    // It may have been launched, with a record, after that was looked for.
    const bool launched = !single->found() || (single->row.has_value() && HasRun(*single->row));
    if (launched && !std::exchange(read_again_, true)) return ReadRecord();
    if (!single->found()) return done_(NotFound(name_.ToString()));
    run_.single = *std::move(single);
    done_(std::move(run_));
  }

  void OnParts(absl::StatusOr<kv::ScanResult> parts) {
    if (!parts.ok()) return done_(StoreFailed(parts.status()));
    for (const kv::Entry& entry : parts->entries) {
      storage::v1::RunPartRecord part;
      if (!part.ParseFromString(entry.value)) return done_(BrokenRecord("a part of a run"));
      AddCounts(part, run_.counts);
    }
    done_(std::move(run_));
  }

  MasterContext& context_;
  const RunName name_;
  Read done_;
  StoredRun run_;
  bool read_again_ = false;
};

}  // namespace

void ReadRun(MasterContext& context, RunName name,
             absl::AnyInvocable<void(absl::StatusOr<StoredRun>)> done) {
  std::make_shared<RunRead>(context, std::move(name), std::move(done))->Start();
}

}  // namespace escapement::master
