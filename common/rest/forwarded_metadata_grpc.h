// Metadata of the RPC that an HTTP request makes: some of its headers, and who the client is.

#ifndef COMMON_REST_FORWARDED_METADATA_GRPC_H_
#define COMMON_REST_FORWARDED_METADATA_GRPC_H_

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/http/http_server.h"
#include "common/rpc/rpc_table_grpc.h"

namespace escapement::rest {

// True if gRPC accepts the value of a header: it aborts the process for another one.
inline bool IsMetadataValue(absl::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

inline void AddForwardedMetadata(const HttpRequest& request, grpc::ClientContext& context) {
  for (const char* name : {"traceparent", "tracestate", "x-request-id"}) {
    const absl::string_view value = request.Header(name);
    if (!value.empty() && IsMetadataValue(value)) context.AddMetadata(name, std::string(value));
  }
  // Each of them, since several are refused.
  for (const auto& [name, value] : request.headers) {
    if (!absl::EqualsIgnoreCase(name, "authorization") || value.empty()) continue;
    // Credentials with other characters stay credentials: "?" is malformed, too.
    context.AddMetadata("authorization", IsMetadataValue(value) ? value : "?");
  }
  NameClient(request.peer, request.client_names, context);
}

}  // namespace escapement::rest

#endif  // COMMON_REST_FORWARDED_METADATA_GRPC_H_
