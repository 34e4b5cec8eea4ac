#include "services/token_manager/holding/reported_end.h"

#include "common/base/printable_text.h"

namespace escapement::token_manager {
namespace {

using storage::v1::AttemptRecord;
using storage::v1::GrantReportRecord;

constexpr size_t kReasonBytesMax = 1024;

}  // namespace

ReportedEnd ReportedEndOf(const GrantReportRecord::Entry& entry, int64_t now_micros) {
  ReportedEnd end{.attempts = entry.attempts(),
                  .dispatch_micros = entry.dispatch_time_micros(),
                  .time_micros = entry.time_micros() != 0 ? entry.time_micros() : now_micros,
                  .reason = std::string(CleanText(entry.reason(), kReasonBytesMax)),
                  .attempt = entry.attempt(),
                  .status = entry.status()};
  switch (entry.kind()) {
    case GrantReportRecord::SUCCEEDED:
    case GrantReportRecord::COMPLETED:
    case GrantReportRecord::RELEASED:
      end.attempt = AttemptRecord::ACCEPTED;
      end.output = entry.output();
      break;
    case GrantReportRecord::COMPLETION_FAILED:
    case GrantReportRecord::COMPLETION_FAILED_FINALLY:
      // The target accepted the event, but the work failed.
      end.attempt = AttemptRecord::FAILED;
      end.answer = entry.output();
      break;
    default:
      end.answer = entry.output();
      break;
  }
  return end;
}

AttemptRecord AttemptOf(const ReportedEnd& end, const HeldRange& range, uint32_t number) {
  AttemptRecord attempt;
  attempt.set_number(number);
  attempt.set_kind(end.attempt);
  if (end.attempt != AttemptRecord::ACCEPTED) {
    attempt.set_error(end.reason);
    attempt.set_answer(end.answer);
  }
  if (end.dispatch_micros != 0) {
    attempt.set_begin_micros(end.dispatch_micros);
    attempt.set_duration_micros(end.time_micros - end.dispatch_micros);
    attempt.set_status(end.status);
  } else if (range.dispatch_micros != 0) {
    attempt.set_begin_micros(range.dispatch_micros);
    attempt.set_duration_micros(range.delivered_micros - range.dispatch_micros);
    attempt.set_status(range.status);
  } else {
    attempt.set_begin_micros(range.delivered_micros);
  }
  return attempt;
}

}  // namespace escapement::token_manager
