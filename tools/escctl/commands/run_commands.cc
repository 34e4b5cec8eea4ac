#include <google/protobuf/util/time_util.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "escapement/v1/run_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/pages.h"
#include "tools/escctl/base/watch.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using RunStub = v1::RunService::Stub;

// Why the occurrence did not fire, or an event failed (AddReasons); for a summary also its number
// of occurrences.
std::string ReasonOf(const v1::Run& r) {
  if (r.skip_reason().empty()) return "-";
  if (r.occurrence_count() <= 1) return r.skip_reason();
  return absl::StrCat(r.skip_reason(), " (", r.occurrence_count(), " occurrences, to ",
                      TimeUtil::ToString(r.last_nominal_time()), ")");
}

std::string WindowOf(const v1::Run& r) {
  return r.has_window() ? v1::RunWindow::State_Name(r.window().state()) : "-";
}

Row RunRow(const v1::Run& r) {
  return {r.name(),
          v1::Run::State_Name(r.state()),
          v1::Event::Status_Name(r.status()),
          TimeUtil::ToString(r.nominal_time()),
          absl::StrCat(r.event_count()),
          absl::StrCat(r.succeeded_count()),
          absl::StrCat(r.failed_count()),
          absl::StrCat(r.skipped_count()),
          absl::StrCat(r.cancelled_count()),
          absl::StrCat(r.expired_count()),
          absl::StrCat(r.retry_count()),
          WindowOf(r),
          r.has_complete_time() ? TimeUtil::ToString(r.complete_time()) : "-",
          ReasonOf(r)};
}

const Row& RunHeader() {
  static const Row header = {"RUN",       "STATE",  "STATUS",    "NOMINAL",   "N",
                             "SUCCEEDED", "FAILED", "SKIPPED",   "CANCELLED", "EXPIRED",
                             "RETRIES",   "WINDOW", "COMPLETED", "REASON"};
  return header;
}

// One run: the columns of the list, the progress of its tokens, and how it keeps to its window.
Row ToDetailedRow(const v1::Run& r) {
  Row row = RunRow(r);
  for (const int64_t count : {r.granted_count(), r.delivered_count(), r.running_count()})
    row.push_back(absl::StrCat(count));
  row.push_back(r.has_eta() ? TimeUtil::ToString(r.eta()) : "-");
  if (!r.has_window()) {
    row.insert(row.end(), 3, "-");
    return row;
  }
  row.push_back(TimeUtil::ToString(r.window().close_time()));
  row.push_back(absl::StrFormat("%.3g/s", r.window().required_rate()));
  row.push_back(absl::StrFormat("%.3g/s", r.window().actual_rate()));
  return row;
}

// The report of an ended run: what the table does not show.
std::string ReportText(const v1::Run& r) {
  const v1::RunReport& report = r.report();
  std::string text = absl::StrCat("\nNever started: ", report.never_started_count(),
                                  "\nTokens taken: ", report.token_count(), "\n");
  if (r.failed_count() > 0)
    absl::StrAppend(&text, "Send the failed events again: escctl run redrive ", r.name(), "\n");
  if (report.slowest().empty()) return text;
  std::vector<Row> rows;
  for (const v1::RunReport::SlowEvent& slow : report.slowest())
    rows.push_back({slow.event(), TimeUtil::ToString(slow.duration())});
  return absl::StrCat(text, "\n", FormatTable({"SLOWEST EVENTS", "DURATION"}, rows));
}

Row DetailedRunHeader() {
  Row header = RunHeader();
  for (const char* column :
       {"GRANTED", "DELIVERED", "RUNNING", "ETA", "WINDOW CLOSES", "REQUIRED", "ACTUAL"})
    header.push_back(column);
  return header;
}

// So many of the listed runs that failed are asked for a reason.
constexpr int kReasonsMax = 20;

// Gives runs that have failed the reason of one of their failed events.
void AddReasons(Session& session, std::vector<v1::Run>& runs) {
  int asked = 0;
  for (v1::Run& run : runs) {
    if (run.failed_count() == 0 || !run.skip_reason().empty()) continue;
    if (++asked > kReasonsMax) return;
    v1::ListRunEventsRequest request;
    request.set_parent(run.name());
    request.set_filter("outcome=FAILED");
    request.set_page_size(1);
    v1::ListRunEventsResponse page;
    if (!session.Call(&RunStub::ListRunEvents, request, page).ok()) return;
    if (page.events_size() > 0) run.set_skip_reason(page.events(0).reason());
  }
}

// How often --wait reads.
constexpr absl::Duration kWaitPause = absl::Milliseconds(250);

// True if --wait is over. Without a filter the runs may be of occurrences that are not due yet.
bool Awaited(const std::vector<v1::Run>& runs, const std::string& filter) {
  return std::any_of(runs.begin(), runs.end(), [&](const v1::Run& run) {
    return !filter.empty() || run.state() != v1::Run::UPCOMING;
  });
}

// `wait`: how long to wait for the first run. `require_success`: fail unless all have succeeded.
void ListRuns(Session& session, const v1::ListRunsRequest& request, size_t limit,
              absl::Duration wait, bool require_success, const WatchFlags& watch) {
  const auto runs_of = [](v1::ListRunsResponse& page) { return page.mutable_runs(); };
  if (watch.wanted()) {
    return watch.Run(session, RunHeader(), [&] {
      std::vector<v1::Run> runs;
      PagesRead read = ReadPages(session, &RunStub::ListRuns, request, limit, runs_of, runs);
      return Reading::Of(std::move(read.status), std::move(runs), RunRow);
    });
  }
  const absl::Time deadline = absl::Now() + wait;
  std::vector<v1::Run> runs;
  PagesRead read = ReadPages(session, &RunStub::ListRuns, request, limit, runs_of, runs);
  while (read.status.ok() && !Awaited(runs, request.filter()) && absl::Now() < deadline) {
    absl::SleepFor(kWaitPause);
    runs.clear();
    read = ReadPages(session, &RunStub::ListRuns, request, limit, runs_of, runs);
  }
  if (!read.status.ok()) return session.Fail(read.status);
  if (wait > absl::ZeroDuration() && !Awaited(runs, request.filter())) {
    session.Say(absl::StrCat("escctl: no such run within ", absl::FormatDuration(wait)));
    return session.SetFailed();
  }
  if (session.format() == OutputFormat::kTable) AddReasons(session, runs);
  PrintList(session, RunHeader(), runs, RunRow);
  if (read.more) session.Say("escctl: there are more; raise --limit");
  if (!require_success) return;
  const auto succeeded = std::count_if(runs.begin(), runs.end(), [](const v1::Run& run) {
    return run.status() == v1::Event::COMPLETED;
  });
  if (!runs.empty() && static_cast<size_t>(succeeded) == runs.size()) return;
  session.Say(absl::StrCat("escctl: ", succeeded, " of ", runs.size(), " runs have succeeded"));
  session.SetFailed();
}

void PrintRun(Session& session, const v1::Run& run) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(run, session.format()));
  session.Print(FormatTable(DetailedRunHeader(), {ToDetailedRow(run)}));
  if (run.has_report()) session.Print(ReportText(run));
}

void GetRun(Session& session, const std::string& name, const WatchFlags& watch) {
  v1::GetRunRequest request;
  request.set_name(session.FullName("schedules", name));
  const auto get = [&](v1::Run& run) { return session.Call(&RunStub::GetRun, request, run); };
  if (watch.wanted()) {
    return watch.Run(session, DetailedRunHeader(), [&] {
      std::vector<v1::Run> run(1);
      grpc::Status status = get(run[0]);
      return Reading::Of(std::move(status), std::move(run), ToDetailedRow);
    });
  }
  v1::Run run;
  const auto status = get(run);
  if (!status.ok()) return session.Fail(status);
  PrintRun(session, run);
}

void CancelRun(Session& session, const std::string& name, const std::string& request_id,
               bool validate_only) {
  v1::CancelRunRequest request;
  request.set_name(session.FullName("schedules", name));
  request.set_request_id(request_id);
  request.set_validate_only(validate_only);
  v1::Run run;
  const auto status = session.Call(&RunStub::CancelRun, request, run);
  if (!status.ok()) return session.Fail(status);
  PrintRun(session, run);
}

void ListRunEvents(Session& session, const std::string& name, const std::string& filter,
                   size_t limit) {
  std::vector<v1::Event> events;
  v1::ListRunEventsRequest request;
  request.set_parent(session.FullName("schedules", name));
  request.set_filter(filter);
  const PagesRead read = ReadPages(
      session, &RunStub::ListRunEvents, request, limit,
      [](v1::ListRunEventsResponse& page) { return page.mutable_events(); }, events);
  if (!read.status.ok()) return session.Fail(read.status);
  PrintList(
      session, {"EVENT", "ID", "STATE", "OUTCOME", "STATUS", "ATTEMPTS", "COMPLETED", "REASON"},
      events, [](const v1::Event& e) {
        return Row{e.name(),
                   e.event_id(),
                   v1::EventState_Name(e.state()),
                   e.outcome() == v1::OUTCOME_UNSPECIFIED ? "-" : v1::Outcome_Name(e.outcome()),
                   v1::Event::Status_Name(e.status()),
                   absl::StrCat(e.attempts()),
                   e.has_complete_time() ? TimeUtil::ToString(e.complete_time()) : "-",
                   e.reason()};
      });
  if (read.more) session.Say("escctl: there are more; raise --limit");
}

}  // namespace

void AddRunCommands(CLI::App& app, Session& session) {
  struct Options {
    std::string name;
    std::string order_by = "nominal_time desc";
    std::string filter;
    std::string request_id;
    size_t limit = 100;
    std::string wait;
    bool require_success = false;
    WatchFlags watch;
  };
  auto o = std::make_shared<Options>();

  CLI::App* schedule = app.get_subcommand("schedule");
  CLI::App* runs = schedule->add_subcommand("runs", "show the runs of a schedule");
  runs->add_option("name", o->name, "id or full name of the schedule")->required();
  runs->add_option("--limit", o->limit, "most rows to show")->capture_default_str();
  runs->add_option("--order-by", o->order_by, "nominal_time (oldest first) or nominal_time desc")
      ->capture_default_str();
  runs->add_option(
      "--filter", o->filter,
      "conditions on state (UPCOMING, ACTIVE, COMPLETED, SKIPPED, CANCELLED), nominal_time and "
      "complete_time, joined by AND, OR, NOT");
  runs->add_option(
      "--wait", o->wait,
      "stay until there is a run that has begun, or with --filter one that matches, at most so "
      "long, e.g. 60s; then fail");
  runs->add_flag(
      "--require-success", o->require_success,
      "fail unless each run that is shown has the status COMPLETED, or if there is none");
  auto runs_watch = std::make_shared<WatchFlags>();
  runs_watch->Add(*runs);
  runs->callback([o, runs_watch, &session] {
    v1::ListRunsRequest request;
    request.set_parent(session.FullName("schedules", o->name));
    request.set_order_by(o->order_by);
    request.set_filter(o->filter);
    absl::Duration wait;
    if (!o->wait.empty() && !absl::ParseDuration(o->wait, &wait))
      return session.FailUsage("--wait: not a duration such as 60s");
    ListRuns(session, request, o->limit, wait, o->require_success, *runs_watch);
  });

  CLI::App* group = app.add_subcommand("run", "runs: the events that one occurrence fired");
  group->require_subcommand(1);
  group->fallthrough();
  CLI::App* get = group->add_subcommand("get", "show one run with its counts");
  get->add_option("name", o->name, "full name, or {schedule}/runs/{occurrence}")->required();
  o->watch.Add(*get);
  get->callback([o, &session] { GetRun(session, o->name, o->watch); });
  CLI::App* cancel = group->add_subcommand("cancel", "cancel the unsent events of a run");
  cancel->add_option("name", o->name, "full name, or {schedule}/runs/{occurrence}")->required();
  AddRequestId(*cancel, o->request_id);
  auto dry = AddValidateOnly(*cancel);
  cancel->callback([o, dry, &session] { CancelRun(session, o->name, o->request_id, *dry); });
  CLI::App* events = group->add_subcommand("events", "show the events of a run");
  events->add_option("name", o->name, "full name, or {schedule}/runs/{occurrence}")->required();
  events->add_option("--filter", o->filter,
                     "outcome=SUCCEEDED, FAILED, SKIPPED, CANCELLED or EXPIRED");
  events->add_option("--limit", o->limit, "most rows to show")->capture_default_str();
  events->callback([o, &session] { ListRunEvents(session, o->name, o->filter, o->limit); });
}

}  // namespace escapement::escctl
