#include "services/handler/delivery/http/http_flags.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"

ABSL_FLAG(int, http_connections_per_target, 64,
          "concurrent HTTP requests to one origin (scheme://host:port)");
ABSL_FLAG(int, http_threads, 1,
          "threads that drive the HTTP connections; use more for many https targets; 0: one for "
          "each core, at most 4");

namespace escapement::handler {

void ValidateHttpFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_http_connections_per_target) < 1 ||
      absl::GetFlag(FLAGS_http_connections_per_target) > 1024) {
    errors.push_back("--http_connections_per_target: must be from 1 to 1024");
  }
  if (absl::GetFlag(FLAGS_http_threads) < 0 || absl::GetFlag(FLAGS_http_threads) > 64)
    errors.push_back("--http_threads: must be from 0 to 64");
}

HttpTransport::Options HttpOptionsFromFlags(std::shared_ptr<const AddressRule> addresses) {
  HttpTransport::Options options;
  options.threads = absl::GetFlag(FLAGS_http_threads);
  if (options.threads == 0)
    options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 4u));
  options.in_flight_per_origin_max = absl::GetFlag(FLAGS_http_connections_per_target);
  options.addresses = std::move(addresses);
  return options;
}

}  // namespace escapement::handler
