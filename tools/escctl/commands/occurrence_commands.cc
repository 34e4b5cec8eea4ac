#include <google/protobuf/util/time_util.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "tools/escctl/base/resource_text.h"
#include "tools/escctl/base/timing_flags.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using OccurrenceStub = v1::ScheduleService::Stub;

void PrintPreview(Session& session, const v1::PreviewScheduleResponse& preview) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(preview, session.format()));
  for (const std::string& words : PreviewWords(preview)) session.Say(words);
  session.Print(FormatTable(PreviewHeader(), PreviewRows(preview)));
}

// Backfills one range with as many calls as needed. Holds the answer of all of them together.
struct Backfill {
  v1::BackfillScheduleRequest request;
  v1::BackfillScheduleResponse total;

  void Run(Session& session) {
    for (int calls = 0;; ++calls) {
      v1::BackfillScheduleResponse part;
      const grpc::Status status = session.Call(&OccurrenceStub::BackfillSchedule, request, part);
      if (!status.ok()) {
        if (calls > 0) {
          session.Say(absl::StrCat(
              "escctl: finished the range before ", TimeUtil::ToString(request.start_time()), ": ",
              total.fired_count(), " fired, ", total.present_count(), " present"));
        }
        return session.Fail(status);
      }
      total.set_fired_count(total.fired_count() + part.fired_count());
      total.set_present_count(total.present_count() + part.present_count());
      if (!part.has_next_start_time()) break;
      if (part.next_start_time() <= request.start_time())
        return session.Fail({grpc::StatusCode::INTERNAL, "the server made no progress"});
      *request.mutable_start_time() = part.next_start_time();
    }
    if (session.format() != OutputFormat::kTable)
      return session.Print(FormatMessage(total, session.format()));
    session.Print(FormatTable({"FIRED", "PRESENT"}, {{absl::StrCat(total.fired_count()),
                                                      absl::StrCat(total.present_count())}}));
  }
};

}  // namespace

void AddPreviewCommand(CLI::App& group, Session& session) {
  struct Options {
    TimingFlags timing;
    std::string from;
    int32_t count = 10;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      group.add_subcommand("preview", "show when a schedule would fire, without creating it");
  o->timing.AddForPreview(*command);
  command->add_option("--from", o->from, "show occurrences after this time; default: now");
  command->add_option("--count,-n", o->count, "number of occurrences to show")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([o, &session] {
    v1::PreviewScheduleRequest request;
    const absl::Time now = absl::Now();
    if (auto status = o->timing.Apply(now, request); !status.ok())
      return session.FailUsage(status.message());
    if (!o->from.empty()) {
      auto from = ParseTimeFlag("--from", o->from, now);
      if (!from.ok()) return session.FailUsage(from.status().message());
      *request.mutable_from_time() = *from;
    }
    request.set_count(o->count);
    v1::PreviewScheduleResponse preview;
    const grpc::Status status = session.Call(&OccurrenceStub::PreviewSchedule, request, preview);
    if (!status.ok()) return session.Fail(status);
    PrintPreview(session, preview);
  });
}

void AddBackfillCommand(CLI::App& group, Session& session) {
  struct Options {
    std::string name, from, to;
    int32_t at_once = 0;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("backfill", "fire past occurrences that have not fired");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--from", o->from, "begin of the range: RFC 3339, or --from=-24h")
      ->required();
  command->add_option("--to", o->to, "end of the range, exclusive; at most now")->required();
  command->add_option("--at-once", o->at_once, "occurrences that one call handles")
      ->check(CLI::PositiveNumber);
  auto dry = AddValidateOnly(*command);
  command->callback([o, dry, &session] {
    const absl::Time now = absl::Now();
    const auto from = ParseTimeFlag("--from", o->from, now);
    if (!from.ok()) return session.FailUsage(from.status().message());
    const auto to = ParseTimeFlag("--to", o->to, now);
    if (!to.ok()) return session.FailUsage(to.status().message());
    Backfill backfill;
    backfill.request.set_name(session.FullName("schedules", o->name));
    *backfill.request.mutable_start_time() = *from;
    *backfill.request.mutable_end_time() = *to;
    backfill.request.set_max_occurrences(o->at_once);
    backfill.request.set_validate_only(*dry);
    backfill.Run(session);
  });
}

}  // namespace escapement::escctl
