#include "tests/bench/stages/delivery_stages.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/net/address_rule.h"
#include "common/status/errors.h"
#include "services/handler/delivery/transport_table.h"
#include "services/master/targets/target_codec.h"
#include "tests/bench/raw/transport_rates.h"
#include "tests/fixtures/attempts.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

constexpr char kSentCounter[] = "escapement_handler_deliveries_total";
// Counts events whose success is durable.
constexpr char kSucceededCounter[] = "escapement_handler_succeeded_total";
// All metrics of the master's process are written for each look, which takes a millisecond or two
// of a processor that the platform needs. So few looks, and runs of half a second or more.
constexpr absl::Duration kPoll = absl::Milliseconds(20);
// As many as the handler has out to one target.
constexpr uint64_t kOutstanding = 4096;

absl::Duration StageMax(uint64_t events) {
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
  const auto run = client.TriggerSchedule(id);
  if (!run.ok()) return run.status();
  if (absl::Status status = AwaitCounter(kSentCounter, *sent + 1, StageMax(0)); !status.ok())
    return status;
  const absl::Time begin = absl::Now();
  absl::Status status =
      AwaitCounter(kSucceededCounter, *succeeded + static_cast<double>(events), StageMax(events));
  const absl::Time end = absl::Now();
  if (!status.ok()) return status;
  const auto ended = client.GetRun(run->name());
  if (!ended.ok()) return ended.status();
  if (ended->succeeded_count() != static_cast<int64_t>(events))
    return absl::InternalError(absl::StrCat("the run: ", ended->ShortDebugString()));
  return static_cast<double>(events) / absl::ToDoubleSeconds(end - begin);
}

absl::Status DeliveryStages::AwaitCounter(const char* counter, double value,
                                          absl::Duration timeout) const {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const auto now = bed_->Metric("handler", counter);
    if (!now.ok()) return now.status();
    if (*now >= value) return absl::OkStatus();
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(counter, " is ", *now, ", not ", value,
                                                      ", after ", absl::FormatDuration(timeout)));
    }
    absl::SleepFor(kPoll);
  }
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
