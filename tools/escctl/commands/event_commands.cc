#include <google/protobuf/util/time_util.h>

#include <deque>
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rest/json_bytes.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/ingest_progress.h"
#include "tools/escctl/base/resource_text.h"
#include "tools/escctl/base/target_flags.h"
#include "tools/escctl/base/watch.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using EventStub = v1::EventService::Stub;

constexpr int kIngestBatchEvents = 1000;
constexpr size_t kIngestBatchBytes = 2 << 20;  // below the server's 8 MiB for one batch
constexpr size_t kIngestOutstanding = 8;

const Row& EventHeader() {
  static const Row header = {"NAME",    "ID",     "DUE",      "STATE",
                             "OUTCOME", "STATUS", "ATTEMPTS", "POLICY"};
  return header;
}

Row EventRow(const v1::Event& event) {
  return {event.name(),
          event.event_id(),
          TimeUtil::ToString(event.due_time()),
          v1::EventState_Name(event.state()),
          event.outcome() == v1::OUTCOME_UNSPECIFIED ? "-" : v1::Outcome_Name(event.outcome()),
          v1::Event::Status_Name(event.status()),
          absl::StrCat(event.attempts()),
          PoliciesShown(event)};
}

Row AttemptRow(const v1::Attempt& attempt) {
  return {absl::StrCat(attempt.number()),
          attempt.has_start_time() ? TimeUtil::ToString(attempt.start_time()) : "-",
          attempt.has_duration() ? TimeUtil::ToString(attempt.duration()) : "-",
          v1::Attempt::Result_Name(attempt.result()),
          attempt.status_code() == 0 ? "-" : absl::StrCat(attempt.status_code()),
          attempt.error().empty() ? "-" : attempt.error()};
}

Row ToListRow(const v1::Event& event) {
  Row row = EventRow(event);
  row.erase(row.begin() + 1);  // the name has the id
  row.push_back(event.has_complete_time() ? TimeUtil::ToString(event.complete_time()) : "-");
  row.push_back(event.reason());
  return row;
}

void PrintOrFail(Session& session, const grpc::Status& status, const v1::Event& event) {
  if (!status.ok()) return session.Fail(status);
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(event, session.format()));
  session.Print(FormatTable(EventHeader(), {EventRow(event)}));
  if (!event.reason().empty()) session.Print(absl::StrCat("REASON  ", event.reason(), "\n"));
  if (event.has_next_attempt_time())
    session.Print(
        absl::StrCat("NEXT ATTEMPT  ", TimeUtil::ToString(event.next_attempt_time()), "\n"));
  if (event.revision() > 0) session.Print(absl::StrCat("REVISION  ", event.revision(), "\n"));
  if (event.generation() > 0) session.Print(absl::StrCat("GENERATION  ", event.generation(), "\n"));
  if (event.recent_attempts().empty()) return;
  std::vector<Row> attempts;
  for (const v1::Attempt& attempt : event.recent_attempts())
    attempts.push_back(AttemptRow(attempt));
  session.Print(FormatTable({"ATTEMPT", "BEGAN", "DURATION", "RESULT", "CODE", "ERROR"}, attempts));
}

// Parses RFC 3339, "now", or "+90s" (from now).
bool ParseDue(const std::string& text, google::protobuf::Timestamp* due) {
  absl::string_view rest = text;
  absl::Duration offset;
  if (text == "now") {
    *due = TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(absl::Now()));
    return true;
  }
  if (absl::ConsumePrefix(&rest, "+")) {
    // With larger values TimeUtil ends the process. The server knows the true bound.
    constexpr absl::Duration kOffsetMax = absl::Hours(24 * 366 * 1000);
    if (!absl::ParseDuration(rest, &offset) || offset < -kOffsetMax || offset > kOffsetMax)
      return false;
    *due = TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(absl::Now() + offset));
    return true;
  }
  return TimeUtil::FromString(text, due);
}

// Flags of create, and of ingest for the lines that leave these fields unset.
struct Delivery {
  TargetFlags target;
  PolicyFlags policy;
  std::string max_lateness;

  void Add(CLI::App& command) {
    target.Add(command);
    policy.Add(command);
    command.add_option("--max-lateness", max_lateness,
                       "if the event cannot be sent within this time after it is due, it ends as "
                       "EXPIRED, e.g. 1h");
  }

  absl::Status Apply(const Session& session, v1::Event& event) const {
    std::vector<std::string> fields;
    const auto policy_name = [&session](const std::string& id) {
      return session.FullName("policies", id);
    };
    RETURN_IF_ERROR(policy.Apply(policy_name, event, fields));
    if (!max_lateness.empty()) {
      ASSIGN_OR_RETURN(auto duration, ParseDurationFlag("--max-lateness", max_lateness));
      *event.mutable_max_lateness() = duration;
    }
    return target.Apply(event);
  }
};

// False, after it has said why, if the time cannot be read.
bool ReadDue(Session& session, const std::string& text, v1::Event& event) {
  if (ParseDue(text, event.mutable_due_time())) return true;
  session.FailUsage(
      absl::StrCat("--due: '", text, "' is not a time such as 2026-12-24T18:00:00Z, now or +90s"));
  return false;
}

absl::Status ReadDebounce(const std::string& delay, const std::string& max_delay,
                          v1::Event& event) {
  if (!delay.empty()) {
    ASSIGN_OR_RETURN(*event.mutable_debounce()->mutable_delay(),
                     ParseDurationFlag("--debounce", delay));
  }
  if (!max_delay.empty()) {
    ASSIGN_OR_RETURN(*event.mutable_debounce()->mutable_max_delay(),
                     ParseDurationFlag("--debounce-max", max_delay));
  }
  return absl::OkStatus();
}

// `upsert`: an event that is there is replaced.
void AddEventCreate(CLI::App& group, Session& session, bool upsert) {
  struct Options {
    std::string id;
    std::string due = "now";
    std::string request_id;
    std::string etag;
    bool replace_ended = false;
    std::string debounce;
    std::string debounce_max;
    Delivery delivery;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      upsert ? group.add_subcommand("upsert",
                                    "create one event, or replace it if it waits to be sent\n"
                                    "REVISION says which of the two: 0 for a new one.")
             : group.add_subcommand("create", "create one event");
  auto* id = command->add_option("id", o->id, "id of the event");
  if (upsert) {
    id->required();
    command->add_option("--etag", o->etag, "only if the event still has this etag");
    command->add_flag("--replace-ended", o->replace_ended,
                      "if the event has ended, create another one with its id");
    command->add_option("--debounce", o->debounce,
                        "due so long after the last upsert, for example 30s; in place of --due");
    command->add_option("--debounce-max", o->debounce_max,
                        "with --debounce: due so long after the first upsert at the latest");
  } else {
    id->description("id of the event; the server makes one if it is missing");
  }
  command->add_option("--due", o->due, "when it is due: 2026-12-24T18:00:00Z, now, or +90s")
      ->capture_default_str();
  AddRequestId(*command, o->request_id);
  auto dry = AddValidateOnly(*command);
  o->delivery.Add(*command);
  command->callback([o, upsert, dry, &session] {
    v1::Event wanted;
    if (auto status = o->delivery.Apply(session, wanted); !status.ok())
      return session.FailUsage(status.message());
    if (auto status = CheckPayload(wanted.payload(), wanted.content_type()); !status.ok())
      return session.FailUsage(status.message());
    const auto debounce = ReadDebounce(o->debounce, o->debounce_max, wanted);
    if (!debounce.ok()) return session.FailUsage(debounce.message());
    if (!wanted.has_debounce() && !ReadDue(session, o->due, wanted)) return;
    v1::Event event;
    if (upsert) {
      v1::UpsertEventRequest request;
      *request.mutable_event() = std::move(wanted);
      request.mutable_event()->set_name(session.FullName("events", o->id));
      request.mutable_event()->set_etag(o->etag);
      request.set_replace_ended(o->replace_ended);
      request.set_request_id(o->request_id);
      request.set_validate_only(*dry);
      return PrintOrFail(session, session.Call(&EventStub::UpsertEvent, request, event), event);
    }
    v1::CreateEventRequest request;
    *request.mutable_event() = std::move(wanted);
    request.set_parent(session.parent());
    request.set_event_id(o->id);
    request.set_request_id(o->request_id);
    request.set_validate_only(*dry);
    PrintOrFail(session, session.Call(&EventStub::CreateEvent, request, event), event);
  });
}

void AddMove(CLI::App& group, Session& session) {
  struct Options {
    std::string name;
    std::string due;
    std::string etag;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("move", "move an event that waits to another time");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--due", o->due, "when it is due: 2026-12-24T18:00:00Z, now, or +90s")
      ->required();
  command->add_option("--etag", o->etag, "only if the event still has this etag");
  auto dry = AddValidateOnly(*command);
  command->callback([o, dry, &session] {
    v1::UpdateEventRequest request;
    request.set_validate_only(*dry);
    request.mutable_event()->set_name(session.FullName("events", o->name));
    request.mutable_event()->set_etag(o->etag);
    request.mutable_update_mask()->add_paths("due_time");
    if (!ReadDue(session, o->due, *request.mutable_event())) return;
    v1::Event event;
    PrintOrFail(session, session.Call(&EventStub::UpdateEvent, request, event), event);
  });
}

void AddGet(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* get = group.add_subcommand("get", "show one event");
  get->add_option("name", *name, "id or full name")->required();
  auto watch = std::make_shared<WatchFlags>();
  watch->Add(*get);
  get->callback([name, watch, &session] {
    v1::GetEventRequest request;
    request.set_name(session.FullName("events", *name));
    if (watch->wanted()) {
      return watch->Run(session, EventHeader(), [&] {
        std::vector<v1::Event> event(1);
        auto status = session.Call(&EventStub::GetEvent, request, event[0]);
        return Reading::Of(std::move(status), std::move(event), EventRow);
      });
    }
    v1::Event event;
    PrintOrFail(session, session.Call(&EventStub::GetEvent, request, event), event);
  });
}

void AddCancel(CLI::App& group, Session& session) {
  struct Options {
    std::vector<std::string> names;
    std::string filter;
    std::string etag;
    std::string request_id;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand(
      "cancel",
      "cancel events that have not been sent: one, or several by an operation\n"
      "`escctl operation get` shows how far the operation has come.");
  CLI::Option* names = command->add_option("name", o->names, "ids or full names, at most 1,000");
  CLI::Option* filter = command->add_option(
      "--filter", o->filter,
      "which events: conditions on name, event_id, state, target and due_time, joined by AND, OR, "
      "NOT; `state = PENDING` means all");
  filter->excludes(names);
  command->add_option("--etag", o->etag, "of one event: only if it still has this etag")
      ->excludes(filter);
  AddRequestId(*command, o->request_id);
  auto dry = AddValidateOnly(*command);
  command->callback([o, dry, &session] {
    if (o->names.empty() && o->filter.empty())
      throw CLI::ValidationError("event cancel", "needs names or --filter");
    if (o->names.size() > 1 && !o->etag.empty())
      throw CLI::ValidationError("event cancel", "--etag needs one name");
    if (o->names.size() == 1) {
      v1::CancelEventRequest request;
      request.set_name(session.FullName("events", o->names[0]));
      request.set_etag(o->etag);
      request.set_request_id(o->request_id);
      request.set_validate_only(*dry);
      v1::Event event;
      return PrintOrFail(session, session.Call(&EventStub::CancelEvent, request, event), event);
    }
    v1::BatchCancelEventsRequest request;
    request.set_parent(session.parent());
    for (const std::string& name : o->names) request.add_names(session.FullName("events", name));
    request.set_filter(o->filter);
    request.set_request_id(o->request_id);
    request.set_validate_only(*dry);
    v1::Operation operation;
    const auto status = session.Call(&EventStub::BatchCancelEvents, request, operation);
    if (!status.ok()) return session.Fail(status);
    PrintOperation(session, operation);
  });
}

void AddList(CLI::App& group, Session& session) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App* command = group.add_subcommand(
      "list",
      "show the events of the tenant: those that have not ended, or those that have\n"
      "Without --order-by, a filter that needs `state = ENDED`, an outcome or a complete_time "
      "shows "
      "events that have ended, the last first. Else the others are shown, the next first.");
  flags->Add(*command, "events",
             "name, event_id, state (PENDING, RUNNING, ENDED), outcome, target, due_time and "
             "complete_time",
             "due_time or \"due_time desc\" for events that have not ended, complete_time or "
             "\"complete_time desc\" for those that have");
  command->callback([flags, &session] {
    flags->Run(
        session,
        {"NAME", "DUE", "STATE", "OUTCOME", "STATUS", "ATTEMPTS", "POLICY", "COMPLETED", "REASON"},
        &EventStub::ListEvents, v1::ListEventsRequest(),
        [](auto& page) { return page.mutable_events(); }, ToListRow);
  });
}

// Reads the next batch of lines. Each line is an Event in JSON, whose eventId is the client-chosen
// id. `mode`: of lines that name none. Returns false on a bad line and sets `*error`. An empty
// batch means the end.
bool ReadBatch(std::istream& in, v1::Event::IngestMode mode, int64_t& line_number,
               v1::IngestRequest& batch, std::string& error) {
  std::string line;
  size_t bytes = 0;
  while (batch.events_size() < kIngestBatchEvents && bytes < kIngestBatchBytes &&
         std::getline(in, line)) {
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    bytes += line.size();
    v1::Event parsed;
    if (const absl::Status status = rest::MessageFromJson(line, parsed); !status.ok()) {
      error = absl::StrCat("line ", line_number, ": ", status.message());
      return false;
    }
    std::optional<v1::IngestEvent> event = rest::ToIngestEvent(std::move(parsed));
    if (!event.has_value()) {
      error = absl::StrCat("line ", line_number, ": due_time is not a valid time");
      return false;
    }
    // Without overrides of its own the event has the defaults of the batch.
    if (event->overrides().ByteSizeLong() == 0) event->clear_overrides();
    if (event->mode() == v1::Event::INGEST_MODE_UNSPECIFIED) event->set_mode(mode);
    *batch.add_events() = *std::move(event);
  }
  return true;
}

// One stream of batches.
class Ingestion {
 public:
  explicit Ingestion(Session& session)
      : session_(session), stream_(Open(session, context_)), progress_(absl::Now()) {}

  void Run(std::istream& in, v1::Event::IngestMode mode, const v1::Event& defaults) {
    int64_t line_number = 0;
    std::string error;
    bool open = true;
    while (open) {
      v1::IngestRequest batch;
      if (!ReadBatch(in, mode, line_number, batch, error) || batch.events_size() == 0) break;
      if (batches_ == 0) {
        batch.set_parent(session_.parent());
        *batch.mutable_defaults() = defaults;
      }
      batch.set_batch_number(++batches_);
      unanswered_.push_back(batch.events_size());
      open = stream_->Write(batch);
      while (open && unanswered_.size() >= kIngestOutstanding) open = TakeAnswer();
    }
    stream_->WritesDone();
    while (open && !unanswered_.empty()) open = TakeAnswer();
    const grpc::Status status = stream_->Finish();
    progress_.End(counts_, absl::Now());
    PrintCounts();
    if (!status.ok()) return session_.Fail(status);
    if (!error.empty()) return session_.FailUsage(error);
    if (refused_batches_ > 0 || !unanswered_.empty()) {
      session_.Fail(
          grpc::Status(grpc::StatusCode::ABORTED, "some batches were refused or not answered"));
    }
  }

 private:
  using Stream = grpc::ClientReaderWriter<v1::IngestRequest, v1::IngestResponse>;

  // The stream has no deadline.
  static std::unique_ptr<Stream> Open(Session& session, grpc::ClientContext& context) {
    session.Authorize(context);
    return EventStub(session.channel()).Ingest(&context);
  }

  bool TakeAnswer() {
    v1::IngestResponse answer;
    if (!stream_->Read(&answer) || unanswered_.empty()) return false;
    counts_.created += answer.created_count();
    const int cancelled = answer.cancelled_positions_size();
    counts_.existing += answer.existing_count() - cancelled;
    counts_.replaced += answer.replaced_positions_size();
    counts_.cancelled += answer.ended_count();
    for (const v1::IgnoredEvent& ignored : answer.ignored()) {
      if (ignored.code() == 0) {
        ++counts_.replaced;
        continue;
      }
      ++counts_.refused;
      ++refused_batches_;
      progress_.Clear();
      session_.Say(absl::StrCat("escctl: batch ", answer.batch_number(), ", event ",
                                ignored.position() + 1, ": ", ignored.message()));
    }
    if (cancelled > 0) {
      ++refused_batches_;
      counts_.refused += cancelled;
      progress_.Clear();
      session_.Say(absl::StrCat("escctl: batch ", answer.batch_number(), ": ", cancelled,
                                " ids belong to events that were cancelled; use other ids"));
    }
    if (answer.error_code() != 0) {
      ++refused_batches_;
      counts_.refused += unanswered_.front();
      progress_.Clear();
      session_.Say(absl::StrCat("escctl: batch ", answer.batch_number(),
                                " was refused: ", answer.error_message()));
    }
    unanswered_.pop_front();
    progress_.Show(counts_, absl::Now());
    return true;
  }

  void PrintCounts() {
    if (session_.format() == OutputFormat::kTable) {
      session_.Print(FormatTable({"CREATED", "EXISTING", "REPLACED", "CANCELLED", "REFUSED"},
                                 {{absl::StrCat(counts_.created), absl::StrCat(counts_.existing),
                                   absl::StrCat(counts_.replaced), absl::StrCat(counts_.cancelled),
                                   absl::StrCat(counts_.refused)}}));
    } else {
      session_.Print(FormatJsonText(
          absl::StrCat("{\"created\": ", counts_.created, ", \"existing\": ", counts_.existing,
                       ", \"replaced\": ", counts_.replaced, ", \"cancelled\": ", counts_.cancelled,
                       ", \"refused\": ", counts_.refused, "}"),
          session_.format()));
    }
  }

  Session& session_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  ProgressLine progress_;
  IngestCounts counts_;
  std::deque<int> unanswered_;  // numbers of events, in the order of the batches
  uint64_t batches_ = 0;
  int refused_batches_ = 0;
};

void AddIngest(CLI::App& group, Session& session) {
  struct Options {
    std::string file;
    std::string mode = "CREATE";
    Delivery defaults;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand(
      "ingest", "create, replace or cancel many events from a file of JSON lines");
  command->add_option("-f,--file", o->file, "file with one Event in JSON on each line; - = stdin")
      ->required();
  command
      ->add_option("--mode", o->mode,
                   "what lines without a mode do: CREATE, UPSERT (also replace), or CANCEL")
      ->check(CLI::IsMember({"CREATE", "UPSERT", "CANCEL"}))
      ->capture_default_str();
  o->defaults.Add(*command);
  command->callback([o, &session] {
    v1::Event defaults;
    if (auto status = o->defaults.Apply(session, defaults); !status.ok())
      return session.FailUsage(status.message());
    v1::Event::IngestMode mode = v1::Event::CREATE;
    v1::Event::IngestMode_Parse(o->mode, &mode);
    if (o->file == "-") return Ingestion(session).Run(std::cin, mode, defaults);
    std::ifstream in(o->file);
    if (!in) return session.FailUsage(absl::StrCat("--file: cannot read ", o->file));
    Ingestion(session).Run(in, mode, defaults);
  });
}

}  // namespace

void AddEventCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("event", "one-off events");
  group->require_subcommand(1);
  group->fallthrough();
  AddEventCreate(*group, session, /*upsert=*/false);
  AddEventCreate(*group, session, /*upsert=*/true);
  AddMove(*group, session);
  AddGet(*group, session);
  AddCancel(*group, session);
  AddList(*group, session);
  AddIngest(*group, session);
}

}  // namespace escapement::escctl
