#include "tests/fuzz/public_routes.h"

#include <google/protobuf/descriptor.h>

#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "escapement/v1/store_service.pb.h"
#include "escapement/v1/token_service.pb.h"

namespace escapement::fuzz {

const rest::RouteTable& PublicRoutes() {
  // Naming a message of each file makes the linker keep the file's descriptors.
  static const auto* const routes = new rest::RouteTable(
      rest::RouteTable::Build(
          *google::protobuf::DescriptorPool::generated_pool(),
          {v1::GetScheduleRequest::descriptor()->file()->service(0)->full_name(),
           v1::GetPolicyRequest::descriptor()->file()->service(0)->full_name(),
           v1::GetEventRequest::descriptor()->file()->service(0)->full_name(),
           v1::GetRunRequest::descriptor()->file()->service(0)->full_name(),
           v1::ReleaseTokensRequest::descriptor()->file()->service(0)->full_name(),
           v1::GetClockRequest::descriptor()->file()->service(0)->full_name()})
          .value());
  return *routes;
}

}  // namespace escapement::fuzz
