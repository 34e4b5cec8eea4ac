// The metadata that an HTTP request gives to its RPC: some headers, and who the client is.

#ifndef COMMON_REST_FORWARDED_METADATA_GRPC_H_
#define COMMON_REST_FORWARDED_METADATA_GRPC_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "common/http/http_server.h"
#include "common/rpc/call_dispatcher_grpc.h"

namespace escapement::rest {

inline void AddForwardedMetadata(const HttpRequest& request, grpc::ClientContext& context) {
  for (const char* name : {"authorization", "traceparent", "tracestate", "x-request-id"}) {
    const absl::string_view value = request.Header(name);
    if (!value.empty()) context.AddMetadata(name, std::string(value));
  }
  NameClient(request.peer, request.client_names, context);
}

}  // namespace escapement::rest

#endif  // COMMON_REST_FORWARDED_METADATA_GRPC_H_
