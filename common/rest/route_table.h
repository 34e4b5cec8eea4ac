// RouteTable: which RPC an HTTP request means, by the google.api.http annotations of descriptors.
//
// Immutable after Build; const methods from any thread.

#ifndef COMMON_REST_ROUTE_TABLE_H_
#define COMMON_REST_ROUTE_TABLE_H_

#include <google/protobuf/descriptor.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rest/path_template.h"

namespace escapement::rest {

// One binding of one unary RPC.
struct RestRoute {
  const google::protobuf::MethodDescriptor* method = nullptr;
  std::string grpc_path;    // "/escapement.v1.ScheduleService/GetSchedule"
  std::string http_method;  // "GET"
  PathTemplate path;
  // Where the body goes: "*" the whole request, a field of it, or "" nowhere.
  std::string body;
};

class RouteTable {
 public:
  // The routes of these services, which must be in `pool` by their full names. RPCs without an
  // annotation have no route.
  // INVALID_ARGUMENT: no such service; a bad template; a variable or body that names no field of
  // the request; two routes with the same HTTP method and path.
  static absl::StatusOr<RouteTable> Build(const google::protobuf::DescriptorPool& pool,
                                          const std::vector<std::string>& services);

  struct Found {
    const RestRoute* route = nullptr;  // null: none
    std::vector<std::pair<std::string, std::string>> bindings;
    // Without a route: HTTP methods that the path has ("GET, PATCH"); "" if it has none.
    std::string allowed;
  };
  // Does not find streaming RPCs.
  Found Find(absl::string_view http_method, const RequestPath& path) const;

  const std::vector<RestRoute>& routes() const { return routes_; }
  // Streaming RPCs: over HTTP, lines of JSON both ways. Somebody else serves them.
  const std::vector<RestRoute>& line_routes() const { return line_routes_; }

 private:
  std::vector<RestRoute> routes_;
  std::vector<RestRoute> line_routes_;
};

}  // namespace escapement::rest

#endif  // COMMON_REST_ROUTE_TABLE_H_
