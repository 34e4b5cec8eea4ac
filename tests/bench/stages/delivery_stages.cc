#include "tests/bench/stages/delivery_stages.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/net/address_rule.h"
#include "common/status/errors.h"
#include "services/handler/delivery/kinds/transport_table.h"
#include "services/master/codec/target_codec.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/fixtures/attempts.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

constexpr char kSentCounter[] = "escapement_handler_deliveries_total";
// Counts events whose success is durable.
constexpr char kSucceededCounter[] = "escapement_handler_succeeded_total";
// All metrics of the master's process are written for each look, which takes a millisecond or two
// of a processor that the platform needs. So there are few looks, at first, and near the end one
// in each kPollMin.
constexpr absl::Duration kPollMin = absl::Milliseconds(10);
constexpr absl::Duration kPollMax = absl::Milliseconds(500);
// As many as the handler has out to one target.
constexpr uint64_t kOutstanding = 4096;

absl::Duration DeliveryStageMax(uint64_t events) {
  return absl::Seconds(60) + absl::Milliseconds(5) * static_cast<int64_t>(events);
}

}  // namespace

absl::StatusOr<double> DeliveryStages::RunRate(const v1::Target& target, uint64_t events) {
  integration::ApiClient client(bed_->front("master"));
  const auto sent = bed_->Metric("handler", kSentCounter);
  const auto succeeded = bed_->Metric("handler", kSucceededCounter);
  if (!sent.ok()) return sent.status();
  if (!succeeded.ok()) return succeeded.status();
  const std::string id = absl::StrCat("delivery-", ++made_);
  v1::Schedule schedule;
  schedule.set_cron("0 0 1 1 *");  // fires only when triggered
  schedule.set_event_count(static_cast<int64_t>(events));
  *schedule.mutable_target() = target;
  schedule.set_payload(std::string(payload_bytes_, 'b'));
  schedule.mutable_delivery_timeout()->set_seconds(30);
  if (const auto created = client.CreateSchedule(id, schedule); !created.ok())
    return created.status();
  ASSIGN_OR_RETURN(const auto run, client.TriggerSchedule(id));
  RETURN_IF_ERROR(AwaitCounter(kSentCounter, *sent + 1, DeliveryStageMax(0)));
  const absl::Time begin = absl::Now();
  absl::Status status = AwaitCounter(kSucceededCounter, *succeeded + static_cast<double>(events),
                                     DeliveryStageMax(events));
  const absl::Time end = absl::Now();
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(const auto ended, client.GetRun(run.name()));
  if (ended.succeeded_count() != static_cast<int64_t>(events))
    return absl::InternalError(absl::StrCat("the run: ", ended.ShortDebugString()));
  return static_cast<double>(events) / absl::ToDoubleSeconds(end - begin);
}

absl::Status DeliveryStages::AwaitCounter(const char* counter, double value,
                                          absl::Duration timeout) const {
  const absl::Time begin = absl::Now();
  ASSIGN_OR_RETURN(const auto first, bed_->Metric("handler", counter));
  for (double now = first; now < value;) {
    const absl::Duration waited = absl::Now() - begin;
    if (waited > timeout) {
      return absl::DeadlineExceededError(absl::StrCat(counter, " is ", now, ", not ", value,
                                                      ", after ", absl::FormatDuration(timeout)));
    }
    // Half of the time that the rest takes if it goes on as so far.
    const double rest = now > first ? (value - now) / (now - first) : 0;
    absl::SleepFor(std::clamp(waited * rest / 2, kPollMin, kPollMax));
    ASSIGN_OR_RETURN(const auto next, bed_->Metric("handler", counter));
    now = next;
  }
  return absl::OkStatus();
}

absl::StatusOr<double> DeliveryStages::TransportRateTo(const v1::Target& target,
                                                       uint64_t events) const {
  FieldViolations violations;
  const storage::v1::TargetRecord record = master::ReadTarget(target, "target", violations);
  if (!violations.empty()) return violations.ToStatus();
  const auto transport =
      handler::NewTransports(std::make_shared<const AddressRule>(AddressRule::AllowingLoopback()));
  const double rate = TransportRate(
      *transport,
      fixtures::MakeAttemptsTo(
          record, {.payload = std::string(payload_bytes_, 'b'), .run_count = events}, 1, events),
      kOutstanding);
  if (rate == 0) return absl::InternalError("an event was not delivered");
  return rate;
}

}  // namespace escapement::bench
