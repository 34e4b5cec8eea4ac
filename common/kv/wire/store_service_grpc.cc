#include "common/kv/wire/store_service_grpc.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/unary_answer_grpc.h"
#include "common/status/errors.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "google/protobuf/util/time_util.h"
#include "grpcpp/grpcpp.h"

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

}  // namespace

class StoreServiceGrpc::Service final : public v1::StoreService::CallbackService {
 public:
  explicit Service(KvStore& store) : store_(store) {}

  grpc::ServerUnaryReactor* GetClock(grpc::CallbackServerContext* context,
                                     const v1::GetClockRequest*, v1::StoreClock* clock) override {
    grpc::ServerUnaryReactor* reactor = nullptr;
    Ask(store_, {}, MakeAnswer(context, clock, &reactor));
    return reactor;
  }

  grpc::ServerUnaryReactor* ConfirmClock(grpc::CallbackServerContext* context,
                                         const v1::ConfirmClockRequest* request,
                                         v1::StoreClock* clock) override {
    grpc::ServerUnaryReactor* reactor = nullptr;
    Answer answer = MakeAnswer(context, clock, &reactor);
    if (!request->has_disagreement()) {
      Ask(store_, {.confirm = true}, std::move(answer));
      return reactor;
    }
    const absl::Duration seen = absl::Seconds(request->disagreement().seconds()) +
                                absl::Nanoseconds(request->disagreement().nanos());
    store_.AskClock({}, [&store = store_, seen, answer](absl::StatusOr<ClockState> state) {
      if (state.ok() && absl::AbsDuration(state->disagreement - seen) <= kConfirmedMax)
        return Ask(store, {.confirm = true}, answer);
      (*answer)(absl::StatusOr<v1::StoreClock>(
          state.ok()
              ? Aborted("CLOCK_CHANGED", absl::StrCat("the wall clock is ahead by ",
                                                      absl::FormatDuration(state->disagreement),
                                                      ", not by ", absl::FormatDuration(seen)))
              : WithReason(state.status())));
    });
    return reactor;
  }

 private:
  static Answer MakeAnswer(grpc::CallbackServerContext* context, v1::StoreClock* clock,
                           grpc::ServerUnaryReactor** reactor) {
    return std::make_shared<UnaryAnswer<v1::StoreClock>>(AnswerTo(context, clock, reactor));
  }

  KvStore& store_;
};

StoreServiceGrpc::StoreServiceGrpc(KvStore& store) : service_(std::make_unique<Service>(store)) {}
StoreServiceGrpc::~StoreServiceGrpc() = default;

grpc::Service* StoreServiceGrpc::service() { return service_.get(); }

}  // namespace escapement::kv
