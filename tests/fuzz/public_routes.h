// The routes of the whole public API.

#ifndef TESTS_FUZZ_PUBLIC_ROUTES_H_
#define TESTS_FUZZ_PUBLIC_ROUTES_H_

#include "common/rest/route_table.h"

namespace escapement::fuzz {

const rest::RouteTable& PublicRoutes();

}  // namespace escapement::fuzz

#endif  // TESTS_FUZZ_PUBLIC_ROUTES_H_
