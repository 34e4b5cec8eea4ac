// The headers of an HTTP request that go on to the RPC as metadata.

#ifndef COMMON_REST_FORWARDED_METADATA_GRPC_H_
#define COMMON_REST_FORWARDED_METADATA_GRPC_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "common/http/http_server.h"

namespace escapement::rest {

inline void AddForwardedMetadata(const HttpRequest& request, grpc::ClientContext& context) {
  for (const char* name : {"authorization", "traceparent", "tracestate", "x-request-id"}) {
    const absl::string_view value = request.Header(name);
    if (!value.empty()) context.AddMetadata(name, std::string(value));
  }
}

}  // namespace escapement::rest

#endif  // COMMON_REST_FORWARDED_METADATA_GRPC_H_
