// RestCallOf: the HTTP request that means the same as a gRPC call, by the route of its method. This
// is the reverse of common/rest/request_reader.h, written apart from it.
//
// Pure.

#ifndef TESTS_DOORS_REST_CALL_H_
#define TESTS_DOORS_REST_CALL_H_

#include <google/protobuf/message.h>

#include "common/rest/route_table.h"
#include "tests/integration/http_get.h"

namespace escapement::doors {

// Path, query and body hold every field of the request that is set.
integration::HttpCall RestCallOf(const rest::RestRoute& route,
                                 const google::protobuf::Message& request);

}  // namespace escapement::doors

#endif  // TESTS_DOORS_REST_CALL_H_
