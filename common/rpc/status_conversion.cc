#include "common/rpc/status_conversion.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace escapement {

grpc::Status ToGrpcStatus(const absl::Status& given) {
  if (given.ok()) return grpc::Status::OK;
  absl::Status status =
      MakeError(given.code(), absl::StatusCodeToString(given.code()), given.message());
  given.ForEachPayload([&status](absl::string_view url, const absl::Cord& payload) {
    status.SetPayload(url, payload);
  });
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  status.ForEachPayload([&details](absl::string_view url, const absl::Cord& payload) {
    auto* any = details.add_details();
    any->set_type_url(std::string(url));
    any->set_value(std::string(payload));
  });
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
                      details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details())) {
    for (const auto& any : details.details())
      result.SetPayload(any.type_url(), absl::Cord(any.value()));
  }
  return result;
}

absl::Status UnreadableMessage() {
  return MakeError(absl::StatusCode::kInvalidArgument, "UNREADABLE_MESSAGE",
                   "the message cannot be parsed: it is not of the method's type, or a string in "
                   "it is not UTF-8");
}

}  // namespace escapement
