// The options of a connection: what the operator's URL says, and our defaults for the rest.
//
// Threads: pure functions.

#ifndef COMMON_KV_LOG_PG_PG_CONNINFO_H_
#define COMMON_KV_LOG_PG_PG_CONNINFO_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace escapement::kv {

using PgConninfo = std::vector<std::pair<std::string, std::string>>;  // keyword, value

// `url` is a URL (postgresql://…) or a list of keyword=value, with any option of libpq; libpq's
// environment variables and files count, too. If it says nothing else: among several hosts only one
// that accepts writes is used (target_session_attrs), a connection attempt takes at most 3 s for
// each address, and a peer that is gone is noticed within 10 s. `application_name` is ours: it
// marks our connections for their successors. INVALID_ARGUMENT without the URL's text, which may
// have a password.
absl::StatusOr<PgConninfo> MakePgConninfo(const std::string& url,
                                          const std::string& application_name);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_CONNINFO_H_
