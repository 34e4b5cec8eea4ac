#include "common/rpc/status_conversion.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace escapement {

google::rpc::Status ToRpcStatus(const absl::Status& given) {
  google::rpc::Status message;
  if (given.ok()) return message;
  absl::Status status =
      MakeError(given.code(), absl::StatusCodeToString(given.code()), given.message());
  given.ForEachPayload([&status](absl::string_view url, const absl::Cord& payload) {
    status.SetPayload(url, payload);
  });
  message.set_code(static_cast<int>(status.code()));
  message.set_message(std::string(status.message()));
  // By type, since absl gives them in any order.
  std::map<std::string, std::string> payloads;
  status.ForEachPayload([&payloads](absl::string_view url, const absl::Cord& payload) {
    payloads.emplace(url, payload);
  });
  for (auto& [url, payload] : payloads) {
    auto* any = message.add_details();
    any->set_type_url(url);
    any->set_value(std::move(payload));
  }
  return message;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status message = ToRpcStatus(status);
  return grpc::Status(static_cast<grpc::StatusCode>(message.code()), message.message(),
                      message.SerializeAsString());
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
