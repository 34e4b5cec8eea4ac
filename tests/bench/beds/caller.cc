#include "tests/bench/beds/caller.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace escapement::bench {
namespace {

constexpr absl::Duration kAcceptedMax = absl::Seconds(30);
constexpr absl::Duration kPoll = absl::Milliseconds(100);

}  // namespace

std::shared_ptr<grpc::Channel> NewChannelOf(const Caller& caller, const std::string& address) {
  return NewChannel(address, {.tls = caller.tls});
}

void AddCredentials(const Caller& caller, grpc::ClientContext& context) {
  if (!caller.api_key.empty())
    context.AddMetadata("authorization", absl::StrCat("Bearer ", caller.api_key));
}

absl::Status AwaitAccepted(const Caller& caller, const std::string& address) {
  const auto stub = v1::ScheduleService::NewStub(NewChannelOf(caller, address));
  v1::GetScheduleRequest request;
  request.set_name("tenants/default/schedules/none");
  const absl::Time deadline = absl::Now() + kAcceptedMax;
  while (true) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(deadline));
    AddCredentials(caller, context);
    v1::Schedule schedule;
    const grpc::Status status = stub->GetSchedule(&context, request, &schedule);
    // The schedule does not exist, and only an accepted caller hears so.
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) return absl::OkStatus();
    if (absl::Now() > deadline) return FromGrpcStatus(status);
    absl::SleepFor(kPoll);
  }
}

}  // namespace escapement::bench
