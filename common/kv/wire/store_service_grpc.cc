#include "common/kv/wire/store_service_grpc.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/status/errors.h"
#include "escapement/v1/store_service.pb.h"
#include "google/protobuf/util/time_util.h"

namespace escapement::kv {
namespace {

using google::protobuf::util::TimeUtil;

// The call is refused if the disagreement differs from the confirmed one by more than this.
constexpr absl::Duration kConfirmedMax = absl::Seconds(1);

google::protobuf::Duration ToWire(absl::Duration duration) {
  return TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(duration));
}

v1::StoreClock ToWire(const ClockState& state) {
  v1::StoreClock out;
  *out.mutable_store_time() = TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(state.store_time));
  *out.mutable_disagreement() = ToWire(state.disagreement);
  out.set_held(state.held);
  *out.mutable_held_for() = ToWire(state.held_for);
  if (state.pace.slow_from != absl::InfiniteFuture())
    *out.mutable_slow_from() =
        TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(state.pace.slow_from));
  out.set_synchronised(state.synchronised);
  out.set_hosts(static_cast<int32_t>(state.hosts));
  out.set_hosts_disagree(static_cast<int32_t>(state.hosts_disagree));
  return out;
}

absl::Status WithReason(const absl::Status& status) {
  return MakeError(absl::StatusCode::kUnavailable, "STORE_UNREACHABLE",
                   absl::StrCat("the store did not answer: ", status.message()));
}

using Answer = std::shared_ptr<UnaryAnswer<v1::StoreClock>>;

void Ask(KvStore& store, ClockCall call, Answer answer) {
  store.AskClock(std::move(call), [answer](absl::StatusOr<ClockState> state) {
    if (!state.ok()) return (*answer)(absl::StatusOr<v1::StoreClock>(WithReason(state.status())));
    (*answer)(absl::StatusOr<v1::StoreClock>(ToWire(*state)));
  });
}

void Confirm(KvStore& store, const v1::ConfirmClockRequest& request, Answer answer) {
  if (!request.has_disagreement()) return Ask(store, {.confirm = true}, std::move(answer));
  const absl::Duration seen = absl::Seconds(request.disagreement().seconds()) +
                              absl::Nanoseconds(request.disagreement().nanos());
  store.AskClock({}, [&store, seen, answer](absl::StatusOr<ClockState> state) {
    if (state.ok() && absl::AbsDuration(state->disagreement - seen) <= kConfirmedMax)
      return Ask(store, {.confirm = true}, answer);
    (*answer)(absl::StatusOr<v1::StoreClock>(
        state.ok()
            ? Aborted("CLOCK_CHANGED", absl::StrCat("the wall clock is ahead by ",
                                                    absl::FormatDuration(state->disagreement),
                                                    ", not by ", absl::FormatDuration(seen)))
            : WithReason(state.status())));
  });
}

}  // namespace

void AddStoreServiceRpcs(KvStore& store, StoreAdmin* admin, RpcTable& table) {
  using Clock = UnaryAnswer<v1::StoreClock>;
  table.AddUnary<v1::GetClockRequest, v1::StoreClock>([&store](v1::GetClockRequest, Clock answer) {
    Ask(store, {}, std::make_shared<Clock>(std::move(answer)));
  });
  table.AddUnary<v1::ConfirmClockRequest, v1::StoreClock>(
      [&store](v1::ConfirmClockRequest request, Clock answer) {
        Confirm(store, request, std::make_shared<Clock>(std::move(answer)));
      });
  if (admin == nullptr) return;
  using Status = UnaryAnswer<v1::StoreStatus>;
  table.AddUnary<v1::GetStatusRequest, v1::StoreStatus>(
      [admin](v1::GetStatusRequest, Status answer) {
        admin->GetStatus([answer = std::make_shared<Status>(std::move(answer))](auto status) {
          if (!status.ok()) status = WithReason(status.status());
          (*answer)(std::move(status));
        });
      });
  using HandedOver = UnaryAnswer<v1::HandOverResponse>;
  table.AddUnary<v1::HandOverRequest, v1::HandOverResponse>(
      [admin](v1::HandOverRequest, HandedOver answer) {
        admin->HandOver([answer = std::make_shared<HandedOver>(std::move(answer))](auto done) {
          if (absl::IsFailedPrecondition(done.status())) {
            done = MakeError(done.status().code(), "HANDOVER_REFUSED", done.status().message());
          } else if (!done.ok()) {
            done = WithReason(done.status());
          }
          (*answer)(std::move(done));
        });
      });
}

}  // namespace escapement::kv
