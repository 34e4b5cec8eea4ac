// Bare libcurl: one thread, one multi handle, no more than that.

#ifndef TESTS_BENCH_RAW_RAW_CURL_H_
#define TESTS_BENCH_RAW_RAW_CURL_H_

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace escapement::bench {

struct CurlEnd {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using CurlHandle = std::unique_ptr<CURL, CurlEnd>;

// A handle that drops the answer's body. It uses no signals and no proxy of the environment.
CurlHandle NewCurlHandle();

// Makes `transfers` transfers in all with these handles, each again as soon as it has ended.
// Returns transfers per second; 0 if one did not end with status 200.
double CurlRate(const std::vector<CurlHandle>& handles, uint64_t transfers);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_CURL_H_
