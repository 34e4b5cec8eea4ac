#include <cstddef>

#include "absl/time/clock.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {
namespace {

size_t Drop(char*, size_t size, size_t count, void*) { return size * count; }

bool Answered200(const CURLMsg& message) {
  long status = 0;
  curl_easy_getinfo(message.easy_handle, CURLINFO_RESPONSE_CODE, &status);
  return message.data.result == CURLE_OK && status == 200;
}

}  // namespace

CurlHandle NewCurlHandle() {
  CurlHandle easy(curl_easy_init());
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &Drop);
  return easy;
}

double CurlRate(const std::vector<CurlHandle>& handles, uint64_t transfers) {
  CURLM* multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, static_cast<long>(handles.size()));
  const absl::Time begin = absl::Now();
  uint64_t started = 0;
  uint64_t ended = 0;
  bool good = true;
  for (const CurlHandle& easy : handles) {
    if (started == transfers) break;
    curl_multi_add_handle(multi, easy.get());
    ++started;
  }
  while (ended < transfers) {
    int running = 0;
    curl_multi_perform(multi, &running);
    int left = 0;
    bool any = false;
    while (CURLMsg* message = curl_multi_info_read(multi, &left)) {
      CURL* easy = message->easy_handle;
      good = good && Answered200(*message);
      curl_multi_remove_handle(multi, easy);
      ++ended;
      any = true;
      if (started == transfers) continue;
      curl_multi_add_handle(multi, easy);
      ++started;
    }
    if (!any && ended < transfers) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
  }
  const double rate = static_cast<double>(transfers) / absl::ToDoubleSeconds(absl::Now() - begin);
  for (const CurlHandle& easy : handles) curl_multi_remove_handle(multi, easy.get());
  curl_multi_cleanup(multi);
  return good ? rate : 0;
}

}  // namespace escapement::bench
